"""Who waits for whom: one run at a time grades a course, and who measures time is alone on the machine.

A lock on a file in its folder is the course's. All who grade on a machine share a gate, and a cell passes it before it
runs. The gate is two files that are locked (flock). The first one is held for a moment by everybody who comes, and by
one who wants to be alone until the others have left: nobody overtakes it. All locks end with the process that holds
them.
"""

import datetime
import fcntl
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from solutions.grading.faults import CourseError
from trtcpu.errors import LabError

LOCK_FILE = ".grading.lock"


@contextmanager
def course_lock(root: Path, *, wait: bool = False, say: Callable[[str], None] = print) -> Iterator[None]:
    """Hold the lock of the course in `root` while the block runs; with `wait`, say who holds it and wait for them.

    Raises:
        CourseError: another process holds it.
        OSError: nothing can be written there.
    """
    with _opened(root) as file:
        holder = _holder(file)
        if holder and not wait:
            raise CourseError(f"{holder}; wait until it has ended, or use --wait")
        if holder:
            say(f"{holder}; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        since = datetime.datetime.now().astimezone().isoformat(" ", "seconds")
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()} since {since}".encode())
        try:
            yield
        finally:
            file.truncate(0)


def other_holder(root: Path) -> str | None:
    """Return a line about who grades the course now; None where nobody does."""
    with _opened(root) as file:
        return _holder(file)


def _opened(root: Path) -> FileIO:
    """Open the lock's file, and no link in its place."""
    path = root / LOCK_FILE
    return open(path, "a+b", buffering=0, opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o644))


def _holder(file: FileIO) -> str | None:
    """Return a line about the process that holds the lock; None where nobody did, and this one does now."""
    with suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return None
    said = os.pread(file.fileno(), 4096, 0).decode(errors="replace")
    return f"the course is being graded by {said or 'another process that began just now'}"


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
        with self._opened("entry") as entry, self._opened("room") as room:
            fcntl.flock(entry, fcntl.LOCK_EX)
            fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            fcntl.flock(entry, fcntl.LOCK_UN)
            yield

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Run the block when nobody else has a turn: where the sandbox lets submissions see each other."""
        with self._opened("turn") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            yield

    @contextmanager
    def _opened(self, name: str) -> Iterator[int]:
        """Open a file of the gate for the block.

        In the end it is unlocked and closed: a copy of this process, forked meanwhile, would hold a lock that is only
        closed here.
        """
        file = os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            yield file
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)
            os.close(file)
