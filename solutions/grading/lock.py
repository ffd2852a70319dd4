"""One run at a time grades a course: a lock on a file in its folder, which ends with the process that holds it."""

import datetime
import fcntl
import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from solutions.grading.faults import CourseError

LOCK_FILE = ".grading.lock"


@contextmanager
def course_lock(root: Path, *, wait: bool = False, say: Callable[[str], None] = print) -> Iterator[None]:
    """Hold the lock of the course in `root` while the block runs; with `wait`, say who holds it and wait for them.

    Raises:
        CourseError: another process holds it, or nothing can be written there.
    """
    with _opened(root) as file:
        if not _taken(file):
            if not wait:
                raise CourseError(f"{_holder(file)}; wait until it has ended, or use --wait")
            say(f"{_holder(file)}; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        since = datetime.datetime.now().astimezone().isoformat(" ", "seconds")
        try:
            _write(file, json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since}))
        except OSError as error:
            raise _unwritable(root, error) from error
        try:
            yield
        finally:
            file.truncate(0)


def other_holder(root: Path) -> str | None:
    """Return a line about another process that grades the course now; None where there is none."""
    if not (root / LOCK_FILE).is_file():
        return None
    with _opened(root) as file:
        line = None if _taken(file) else _holder(file)
    return None if line is None or f" process {os.getpid()} on {socket.gethostname()} " in line else line


@contextmanager
def _opened(root: Path) -> Iterator[TextIO]:
    try:
        descriptor = os.open(root / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise _unwritable(root, error) from error
    with open(descriptor, "r+", encoding="utf-8") as file:
        yield file


def _unwritable(root: Path, error: OSError) -> CourseError:
    return CourseError(f"cannot write into the course's folder {root}: {error.strerror or error}; nothing was graded")


def _taken(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(file: TextIO) -> str:
    try:
        found = json.loads(os.pread(file.fileno(), 4096, 0))
        who = f"process {found['pid']} on {found['host']} since {found['since']}"
    except (ValueError, KeyError, TypeError):
        who = "another process that began just now"
    return f"the course is being graded by {who}"


def _write(file: TextIO, text: str) -> None:
    file.truncate(0)
    os.pwrite(file.fileno(), text.encode(), 0)
