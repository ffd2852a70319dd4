"""Locks: only one run at a time grades a course, and a cell that measures time is alone on the machine.

A course's lock is on a file in its folder. All graders on a machine share a gate, which each cell passes before it
runs. The gate is two locked files (flock), the entry and the room. Everybody locks the entry for a moment. Whoever
wants to be alone keeps it locked until the others have left the room, so that nobody overtakes. All locks end with the
process that holds them.
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
    """Return a line about who is grading the course now; None if nobody is."""
    with _opened(root) as file:
        return _holder(file)


def _opened(root: Path) -> FileIO:
    """Open the lock's file, but never through a link."""
    path = root / LOCK_FILE
    return open(path, "a+b", buffering=0, opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o644))


def _holder(file: FileIO) -> str | None:
    """Take the lock and return None. If another process holds it, return a line about that process."""
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
        """Run the block while nobody measures time; with `alone`, while nobody else runs a cell."""
        with self._opened("entry") as entry, self._opened("room") as room:
            fcntl.flock(entry, fcntl.LOCK_EX)
            fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            fcntl.flock(entry, fcntl.LOCK_UN)
            yield

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Run the block while nobody else has a turn, for a sandbox in which submissions could see each other."""
        with self._opened("turn") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            yield

    @contextmanager
    def _opened(self, name: str) -> Iterator[int]:
        """Open a file of the gate for the block.

        It is unlocked before it is closed: a process that was forked meanwhile would keep a lock that is only closed
        here.
        """
        file = os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            yield file
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)
            os.close(file)
