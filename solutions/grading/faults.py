"""Faults of the course's own disk and database: they end the run, since no submission must pay for them."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nbgrader.api import InvalidEntry
from sqlalchemy.exc import SQLAlchemyError

from helpers.tools.files import temporary_path
from trtcpu.errors import EngineError, LabError

# What must still fit on the course's disk after a submission has run: nothing can be judged if the disk was full.
ROOM_BYTES = 1 << 20

_OURS = {getattr(errno, name) for name in "ENOSPC EDQUOT EROFS EACCES EPERM EIO EMFILE ENFILE ENOMEM".split()}
DISK_FULL = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EROFS))


class CourseError(LabError):
    """The course's folder, disk or gradebook cannot be used: grading ends, and no grades are written."""


def course_fault(error: BaseException | None) -> CourseError | None:
    """Return the fault of the course that caused `error`; None if the submission caused it."""
    while error is not None:
        if isinstance(error, CourseError):
            return error
        if isinstance(error, SQLAlchemyError):
            said = str(getattr(error, "orig", None) or error).splitlines()[0]
            return CourseError(f"the gradebook cannot be used: {said}; mend that and run the same command again")
        full = isinstance(error, EngineError) and any(text in str(error) for text in DISK_FULL)
        if full or (isinstance(error, OSError) and error.errno in _OURS):  # not what a kernel's sockets may raise
            return CourseError(f"the course's disk or folder failed: {error}; mend that and run the same command again")
        error = error.__cause__ or (error.__context__ if isinstance(error, InvalidEntry) else None)
    return None


@contextmanager
def course_faults() -> Iterator[None]:
    """Raise a CourseError in place of an error in the block that the course's disk or gradebook caused."""
    try:
        yield
    except (LabError, OSError, SQLAlchemyError, InvalidEntry) as error:
        if isinstance(error, CourseError) or (fault := course_fault(error)) is None:
            raise
        raise fault from error


def need_room(folder: Path) -> None:
    """Raise OSError (no space, read-only, no permission) if a megabyte cannot be written into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with temporary_path(folder / "room") as path, path.open("wb") as file:
        file.write(bytes(ROOM_BYTES))
        file.flush()
        os.fsync(file.fileno())
