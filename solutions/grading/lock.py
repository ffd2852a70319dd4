"""One run at a time grades a course: a lock on a file in its folder, which ends with the process that holds it."""

import datetime
import fcntl
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from solutions.grading.faults import CourseError

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
