"""Makes folders list their entries in another order, as another file system would."""

import contextlib
import glob
import os
import pathlib
from collections.abc import Iterator
from typing import Any
from unittest import mock


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
        "listdir": (listdir, staticmethod(lambda *args: sorted(listdir(*args), reverse=True))),
        "scandir": (scandir, staticmethod(lambda *args: _Entries(scandir(*args)))),
    }
    # pathlib keeps them, too: up to Python 3.10 in the first class, in 3.13 in the second
    homes = (os, getattr(pathlib, "_NormalAccessor", None), getattr(glob, "_StringGlobber", None))
    with contextlib.ExitStack() as patched:
        for home in filter(None, homes):
            for name, (usual, other) in backwards.items():
                if getattr(home, name, None) is usual:
                    patched.enter_context(mock.patch.object(home, name, other))
        yield
