"""Makes folders list their entries in another order, as another file system would."""

import contextlib
import os
import pathlib
from collections.abc import Iterator
from typing import Any
from unittest import mock


class _Entries(contextlib.ExitStack):
    """What os.scandir gives, backwards: an iterator that is a context manager too, and can be closed."""

    def __init__(self, entries: Iterator[os.DirEntry[Any]]) -> None:
        super().__init__()
        self._entries = iter(sorted(entries, key=lambda entry: entry.name, reverse=True))

    def __iter__(self) -> Iterator[os.DirEntry[Any]]:
        return self._entries

    def __next__(self) -> os.DirEntry[Any]:
        return next(self._entries)


@contextlib.contextmanager
def reversed_listings() -> Iterator[None]:
    """Let os.listdir, os.scandir, and what pathlib and glob make of them, give descending order of names."""
    listdir, scandir = os.listdir, os.scandir
    backwards = {
        "listdir": staticmethod(lambda *args: sorted(listdir(*args), reverse=True)),
        "scandir": staticmethod(lambda *args: _Entries(scandir(*args))),
    }
    pathlibs = getattr(pathlib, "_NormalAccessor", os)  # up to Python 3.10 pathlib keeps them
    with mock.patch.multiple(os, **backwards), mock.patch.multiple(pathlibs, **backwards):
        yield
