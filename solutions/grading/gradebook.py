"""The gradebook's file: looked at before each run, and copied to backups/ so that one can be lost."""

import datetime
import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

from helpers.tools.files import atomic_path
from solutions.grading.course import Course
from solutions.grading.faults import CourseError
from trtcpu.errors import InputError

BACKUPS, KEPT = "backups", 10
LOCK_WAIT_S = 5.0
"""For how long another process may be writing into the gradebook."""

_TABLES = {"assignment", "notebook", "student", "submitted_assignment", "grade"}
_GRADED = ("autograded/*/grades/[0-9][0-9]_*.json", "grades.csv", "grades.json")


def check_gradebook(course: Course, *, new: bool = False) -> None:
    """Return where the course's gradebook can be used, or where there is none yet and nothing was graded before.

    With `new`, one that is lost or damaged is begun anew: what is there is moved to backups/.

    Raises:
        CourseError: it is missing or empty although there are grades, damaged, locked, or cannot be written.
    """
    path = course.gradebook_file
    if path is None:
        return
    fault, lost = _fault(path)
    graded = next((found for pattern in _GRADED for found in course.root.glob(pattern)), None)
    if new:
        if not lost:
            raise CourseError(f"{path.name} {fault or 'is there and good'}: --new-gradebook is for one that is lost")
        _move_away(path, course.root / BACKUPS)
    elif fault and not (graded is None and lost == "nothing"):
        earlier = f" although there are grades of earlier runs ({graded.relative_to(course.root)})" if graded else ""
        raise CourseError(f"{path.name} {fault}{earlier if lost == 'nothing' else ''}; {_ways_out(course, lost)}")


def back_up(course: Course) -> Path | None:
    """Copy the gradebook to backups/gradebook-<UTC>.db and keep the last ten; return the copy's path.

    Raises:
        CourseError: it could not be copied.
    """
    path, folder = course.gradebook_file, course.root / BACKUPS
    if path is None or _fault(path)[0]:
        return None
    stamp = f"{datetime.datetime.now(datetime.timezone.utc):%Y%m%d-%H%M%S}"
    target, number = folder / f"gradebook-{stamp}.db", 2
    while target.exists():
        target, number = folder / f"gradebook-{stamp}-{number}.db", number + 1
    try:
        with atomic_path(target) as temporary:
            copy_gradebook(path, temporary)
    except (sqlite3.Error, InputError, OSError) as error:
        raise CourseError(f"{path.name} could not be copied to {BACKUPS}/: {error}; nothing was graded") from error
    for old in _backups(folder)[KEPT:]:
        with suppress(OSError):
            old.unlink()
    return target


def copy_gradebook(path: Path, target: Path) -> None:
    """Copy a gradebook, whole even while somebody writes into it.

    Raises:
        sqlite3.Error: it cannot be read, or the copy not be written.
    """
    with closing(_open(path)) as ours, closing(sqlite3.connect(target)) as copy:
        ours.backup(copy)


def newest_good(folder: Path) -> Path | None:
    """Return the newest backup in `folder` that is a whole gradebook."""
    return next((path for path in _backups(folder) if _fault(path)[0] is None), None)


def _backups(folder: Path) -> list[Path]:
    """Return the backups, the newest first."""
    return sorted(folder.glob("gradebook-*.db"), key=lambda path: (path.stat().st_mtime_ns, path.name), reverse=True)


def _fault(path: Path) -> tuple[str | None, str]:
    """Return what is wrong with a gradebook; and what is lost: "", "nothing" (there is none), or "damaged"."""
    if not os.path.lexists(path):
        return "is missing", "nothing"
    if not path.is_file():
        return "is no file", ""
    try:
        with closing(_open(path)) as database:
            names = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if not names:
                return "is empty", "nothing"
            if not _TABLES <= names:
                return "is a database, but no gradebook of nbgrader", "damaged"
            if (said := database.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
                return f"is damaged ({said.splitlines()[0]})", "damaged"
            if not database.execute("SELECT count(*) FROM assignment").fetchone()[0]:
                return "is empty", "nothing"
            database.execute("BEGIN IMMEDIATE")
            database.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            return f"is locked: another process has been writing into it for {LOCK_WAIT_S:g} s", ""
        return f"cannot be used ({error})", ""
    except sqlite3.DatabaseError as error:
        return f"is damaged ({error})", "damaged"
    return None, ""


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(path))}?mode=rw", uri=True, timeout=LOCK_WAIT_S, isolation_level=None)


def _ways_out(course: Course, lost: str) -> str:
    if not lost:
        return "no grades were touched; mend that and run the same command again"
    backup = newest_good(course.root / BACKUPS)
    copy = f"copy {backup.relative_to(course.root)} over it" if backup else "put a copy of it back (no backup is good)"
    return f"no grades were touched; {copy}, or make a new one from the records with --new-gradebook"


def _move_away(path: Path, folder: Path) -> None:
    if os.path.lexists(path):
        folder.mkdir(exist_ok=True)
        stamp = f"{datetime.datetime.now(datetime.timezone.utc):%Y%m%d-%H%M%S-%f}"
        path.rename(folder / f"damaged-{stamp}.db")
        with suppress(FileNotFoundError):  # of a run that was killed: it belongs to the old file
            Path(f"{path}-journal").rename(folder / f"damaged-{stamp}.db-journal")
