"""Makes folders list their entries in another order, as another file system might."""

import contextlib
import os
import pathlib
from collections.abc import Iterator
from typing import Any
from unittest import mock


class _Entries(contextlib.ExitStack):
    """The entries of os.scandir in reverse: an iterator that is also a context manager and can be closed."""

    def __init__(self, entries: Iterator[os.DirEntry[Any]]) -> None:
        super().__init__()
        self._entries = iter(sorted(entries, key=lambda entry: entry.name, reverse=True))

    def __iter__(self) -> Iterator[os.DirEntry[Any]]:
        return self._entries

    def __next__(self) -> os.DirEntry[Any]:
        return next(self._entries)


@contextlib.contextmanager
def reversed_listings() -> Iterator[None]:
    """Let os.listdir and os.scandir, and so pathlib and glob, list names in descending order."""
    listdir, scandir = os.listdir, os.scandir
    backwards = {
        "listdir": staticmethod(lambda *args: sorted(listdir(*args), reverse=True)),
        "scandir": staticmethod(lambda *args: _Entries(scandir(*args))),
    }
    pathlibs = getattr(pathlib, "_NormalAccessor", os)  # pathlib stores them there up to Python 3.10
    with mock.patch.multiple(os, **backwards), mock.patch.multiple(pathlibs, **backwards):
        yield
