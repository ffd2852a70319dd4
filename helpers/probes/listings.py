"""Makes folders list their entries in another order, as another file system would."""

import contextlib
import os
import pathlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

__all__ = ["reversed_listings"]


class _Entries:
    """What os.scandir gives, backwards: an iterator that is a context manager too."""

    def __init__(self, entries: Any) -> None:
        with entries:
            self._entries = iter(sorted(entries, key=lambda entry: entry.name, reverse=True))

    def __iter__(self) -> "_Entries":
        return self

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> "_Entries":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is open."""


@contextlib.contextmanager
def reversed_listings() -> Iterator[None]:
    """Let os.listdir, os.scandir and pathlib give a folder's entries in descending order of their names."""
    listdir, scandir = os.listdir, os.scandir
    backwards = {
        "listdir": staticmethod(lambda *args: sorted(listdir(*args), reverse=True)),
        "scandir": staticmethod(lambda *args: _Entries(scandir(*args))),
    }
    kept = getattr(pathlib, "_NormalAccessor", None)  # up to Python 3.10 pathlib keeps the functions there
    with contextlib.ExitStack() as patched:
        for home in (os, kept) if kept else (os,):
            patched.enter_context(mock.patch.multiple(home, **backwards))
        yield
