"""nbgrader's gradebook, which is made from the records: a step's record has its points, and takes what a person gave.

Formgrader and nbgrader's exports read it. One that is lost is made again; backups/ keep what a person gave since.
"""

import datetime
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nbformat import NotebookNode
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.preprocessors import SaveAutoGrades
from nbgrader.utils import compute_checksum, determine_grade, is_grade, is_solution, is_task

from helpers.tools.files import atomic_path
from solutions.grading.course import Course
from solutions.grading.faults import CourseError, need_room
from solutions.grading.layout import remove_links
from solutions.grading.step_record import GRADED, CellGrade, StepRecord
from trtcpu.errors import InputError

BACKUPS, KEPT = "backups", 10
# For how long another process may be writing into the gradebook.
LOCK_WAIT_S = 5.0
_TABLES = {"assignment", "notebook", "student", "submitted_assignment", "grade"}


def made_ready(course: Course) -> str:
    """Make the course's gradebook from the records where it is missing, empty or damaged, and register all steps in it.

    Returns:
        A line about one that was lost although there are records; else nothing.

    Raises:
        CourseError: it is locked, cannot be written, or is another database.
    """
    path = course.gradebook_file
    fault, lost = _fault(path) if path else (None, False)
    if fault and not lost:
        raise CourseError(f"{path.name} {fault}; no grades were touched; mend that and run the same command again")
    if lost:
        _move_away(path, course.root / BACKUPS)
    for step in course.graded:
        course.register(step)
    known = list(_graded(course)) if lost else []
    with course.gradebook() as gradebook:
        for record in known:
            save(gradebook, record)
    if not known:
        return ""
    return f"{path.name} {fault}: made again from the records; {BACKUPS}/ has what a person gave since the last run"


def _graded(course: Course) -> Iterator[StepRecord]:
    for path in sorted(course.autograded("").glob("*/grades/[0-9][0-9]_*.json")):
        record = StepRecord.known(path.parents[1], path.parents[1].name, path.stem)
        if record.state == GRADED and record.step in course.graded:
            yield record


def back_up(course: Course) -> Path | None:
    """Copy the gradebook to backups/gradebook-<UTC>.db and keep the last ten; return the copy's path.

    Raises:
        CourseError: it could not be copied.
    """
    path, folder = course.gradebook_file, course.root / BACKUPS
    if path is None or _fault(path)[0]:
        return None
    target = folder / f"gradebook-{_now()}.db"
    try:
        with atomic_path(target) as temporary:
            copy_gradebook(path, temporary)
    except (sqlite3.Error, InputError, OSError) as error:
        raise CourseError(f"{path.name} could not be copied to {BACKUPS}/: {error}; nothing was graded") from error
    for old in sorted(folder.glob("gradebook-*.db"), reverse=True)[KEPT:]:
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


def _now() -> str:
    return f"{datetime.datetime.now(datetime.timezone.utc):%Y%m%d-%H%M%S-%f}"


def _fault(path: Path) -> tuple[str | None, bool]:
    """Return what is wrong with a gradebook, and whether it is lost."""
    if not os.path.lexists(path):
        return "was missing", True
    if not path.is_file():
        return "is no file", False
    try:
        with closing(_open(path)) as database:
            names = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if not names:
                return "was empty", True
            if not _TABLES <= names:
                return "is a database, but no gradebook of nbgrader", False
            if (said := database.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
                return f"was damaged ({said.splitlines()[0]})", True
            if not database.execute("SELECT count(*) FROM assignment").fetchone()[0]:
                return "was empty", True
            database.execute("BEGIN IMMEDIATE")
            database.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            return f"is locked: another process has been writing into it for {LOCK_WAIT_S:g} s", False
        return f"cannot be used ({error})", False
    except sqlite3.DatabaseError as error:
        return f"was damaged ({error})", True
    return None, False


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(path))}?mode=rw", uri=True, timeout=LOCK_WAIT_S, isolation_level=None)


def _move_away(path: Path, folder: Path) -> None:
    """Keep a lost gradebook, and the journal of a run that was killed, which belongs to it."""
    for part in (path, Path(f"{path}-journal")):
        if os.path.lexists(part):
            folder.mkdir(exist_ok=True)
            part.rename(folder / f"damaged-{_now()}-{part.name}")


class SaveGrades(SaveAutoGrades):
    """nbgrader's SaveAutoGrades, which commits cell by cell, in one transaction: all points are there or none."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Save the grades of an executed notebook of `resources["nbgrader"]`'s student and assignment."""
        about, folder = resources["nbgrader"], Path(resources["metadata"]["path"]).resolve().parent
        for place in (folder, Path(tempfile.gettempdir())):  # records and the kernel's scratch
            need_room(place)
        for note in remove_links(folder.parents[1], about["student"], about["assignment"]):
            self.log.warning(note)
        record = StepRecord.known(folder, about["student"], about["assignment"])
        with Gradebook(about["db_url"]) as gradebook:
            record = held(gradebook, record) or record
            for cell in nb.cells:
                name = cell.metadata.get("nbgrader", {}).get("grade_id")
                if is_grade(cell):
                    record.cells[name].auto = determine_grade(cell, self.log)[0]
                if is_solution(cell) or is_task(cell):
                    record.comments[name]["auto"] = _answered(cell)
            record.write(folder)
            save(gradebook, record, graded_now=True)
        return nb, resources


def held(gradebook: Gradebook, record: StepRecord) -> StepRecord | None:
    """Return a record with all that the gradebook has for its student and step; None where it has nothing."""
    try:
        found = gradebook.find_submission_notebook(record.step, record.step, record.student)
    except MissingEntry:
        return None
    cells = {
        grade.name: CellGrade(grade.max_score, grade.auto_score, grade.manual_score, grade.extra_credit)
        for grade in found.grades
    }
    comments = {note.name: {"auto": note.auto_comment, "manual": note.manual_comment} for note in found.comments}
    when = found.assignment.timestamp
    return replace(
        record,
        cells=cells,
        comments=comments,
        submitted=when and when.isoformat(),
        penalty=found.late_submission_penalty,
    )


def save(gradebook: Gradebook, record: StepRecord, *, graded_now: bool = False) -> None:
    """Put a record's points and comments into the gradebook in one transaction.

    As with nbgrader, points that a person gave are marked for another look where the checks have just graded again.
    """
    gradebook.update_or_create_student(record.student)
    when = record.submitted and datetime.datetime.fromisoformat(record.submitted)
    gradebook.update_or_create_submission(record.step, record.student, **({"timestamp": when} if when else {}))
    found = gradebook.find_submission_notebook(record.step, record.step, record.student)
    for grade in found.grades:
        cell = record.cells.get(grade.name, CellGrade(grade.max_score))
        grade.auto_score, grade.manual_score, grade.extra_credit = cell.auto, cell.manual, cell.extra
        grade.needs_manual_grade = cell.pending or (graded_now and cell.manual is not None)
    for comment in found.comments:
        said = record.comments.get(comment.name, {})
        comment.auto_comment, comment.manual_comment = said.get("auto"), said.get("manual")
    found.late_submission_penalty = record.penalty
    gradebook.db.commit()


def _answered(cell: NotebookNode) -> str | None:
    unchanged = cell.metadata.nbgrader.get("checksum") == compute_checksum(cell) and not is_task(cell)
    return "No response." if unchanged else None
