"""Who measures time is alone on the machine: all who grade on it share a gate, and a cell passes it before it runs.

The gate is two files that are locked (flock), so that it opens when whoever holds it dies. The first one is held for a
moment by everybody who comes, and by one who wants to be alone until the others have left: nobody overtakes it.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trtcpu.errors import LabError


class Gate:
    """The gate of this machine and user; `folder` is where its files are, the same for all who share it.

    Raises:
        LabError: somebody else owns the folder.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or Path(tempfile.gettempdir()) / f"trt-lab-gate-{os.getuid()}"
        self._folder.mkdir(mode=0o700, exist_ok=True)
        if self._folder.is_symlink() or self._folder.stat().st_uid != os.getuid():
            raise LabError(f"{self._folder} belongs to somebody else: remove it, or let TMPDIR name another folder")

    @contextmanager
    def passed(self, *, alone: bool) -> Iterator[None]:
        """Run the block when nobody measures time; `alone`, when nobody else runs one at all."""
        entry, room = self._open("entry"), self._open("room")
        try:
            fcntl.flock(entry, fcntl.LOCK_EX)
            fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            fcntl.flock(entry, fcntl.LOCK_UN)
            yield
        finally:
            os.close(entry)
            os.close(room)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Run the block when nobody else has a turn: where the sandbox lets submissions see each other."""
        turn = self._open("turn")
        try:
            fcntl.flock(turn, fcntl.LOCK_EX)
            yield
        finally:
            os.close(turn)

    def _open(self, name: str) -> int:
        return os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
