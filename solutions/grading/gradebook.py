"""The records of a class, and nbgrader's gradebook, which is made from them.

A step's record holds its points, those of the checks and those that a person gave in formgrader. Formgrader and
nbgrader's exports read the gradebook. If that is lost it is made again from the records; what a person gave since the
last run is in backups/.
"""

import datetime
import hashlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nbformat import NotebookNode
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.preprocessors import SaveAutoGrades
from nbgrader.utils import compute_checksum, determine_grade, is_grade, is_solution, is_task

from helpers.course.steps import CELLS
from helpers.tools.files import atomic_path, read_regular, sha256
from helpers.tools.term import TERM
from solutions.grading.course import Course
from solutions.grading.faults import CourseError, need_room
from solutions.grading.late import lateness
from solutions.grading.layout import checks_of, code, digest_of, remove_links, settings
from solutions.grading.step_record import GRADED, REFUSED, UNDER_WAY, CellGrade, StepRecord
from solutions.grading.untrusted.limits import LARGEST_BYTES
from trtcpu.errors import InputError

BACKUPS, KEPT = "backups", 10
# How long another process may be writing into the gradebook.
LOCK_WAIT_S = 5.0
_TABLES = {"assignment", "notebook", "student", "submitted_assignment", "grade"}


def made_ready(course: Course) -> str:
    """Register all steps in the gradebook. Make it again from the records if it is missing, empty or damaged.

    Returns:
        A line that says so if it was made again, else an empty string.

    Raises:
        CourseError: it is locked, cannot be written, or is another program's database.
    """
    path = course.gradebook_file
    if fault := _fault(path):
        _move_away(path, course.root / BACKUPS)
    for step in course.graded:
        course.register(step)
    known = list(_graded(course)) if fault else []
    with course.gradebook() as gradebook:
        for step, when in TERM.deadlines.items():
            gradebook.update_or_create_assignment(step, duedate=when)
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


def back_up(course: Course) -> Path:
    """Copy the gradebook to backups/gradebook-<UTC>.db, keep the last ten copies, and return the new one's path.

    Raises:
        CourseError: it could not be copied.
    """
    path, folder = course.gradebook_file, course.root / BACKUPS
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
    """Copy a gradebook. The copy is consistent even while somebody writes into the original.

    Raises:
        sqlite3.Error: it cannot be read, or the copy cannot be written.
    """
    with closing(_open(path)) as ours, closing(sqlite3.connect(target)) as copy:
        ours.backup(copy)


def _now() -> str:
    return f"{datetime.datetime.now(datetime.timezone.utc):%Y%m%d-%H%M%S-%f}"


def _fault(path: Path) -> str:
    """Return why a gradebook has to be made again, or an empty string; CourseError if it cannot be used now."""
    touched = "no grades were touched; mend that and run the same command again"
    if not os.path.lexists(path):
        return "was missing"
    try:
        with closing(_open(path)) as database:
            names = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if names and not _TABLES <= names:
                raise CourseError(f"{path.name} is a database, but no gradebook of nbgrader; {touched}")
            if (said := database.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
                return f"was damaged ({said.splitlines()[0]})"
            if not names or not database.execute("SELECT count(*) FROM assignment").fetchone()[0]:
                return "was empty"
            database.execute("BEGIN IMMEDIATE")
            database.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        locked = f"is locked: another process has been writing into it for {LOCK_WAIT_S:g} s"
        fault = locked if "locked" in str(error) else f"cannot be used ({error})"
        raise CourseError(f"{path.name} {fault}; {touched}") from error
    except sqlite3.DatabaseError as error:
        return f"was damaged ({error})"
    return ""


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(path))}?mode=rw", uri=True, timeout=LOCK_WAIT_S, isolation_level=None)


def _move_away(path: Path, folder: Path) -> None:
    """Move a lost gradebook to `folder`, with the SQLite journal that a killed run may have left."""
    for part in (path, Path(f"{path}-journal")):
        if os.path.lexists(part):
            folder.mkdir(exist_ok=True)
            part.rename(folder / f"damaged-{_now()}-{part.name}")


class SaveGrades(SaveAutoGrades):
    """nbgrader's SaveAutoGrades in one transaction, where nbgrader commits cell by cell: all points or none."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Save the grades of an executed notebook; `resources["nbgrader"]` has student and assignment."""
        about, folder = resources["nbgrader"], Path(resources["metadata"]["path"]).resolve().parent
        for place in (folder, Path(tempfile.gettempdir())):  # for records, for the kernel's scratch
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
    """Return a copy of the record with the gradebook's points, comments and times; None if it has none."""
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

    If the checks have just graded the step again, points that a person gave are marked for another look, as nbgrader
    does.
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


class Journal:
    """One student's step records, and what each step was graded from.

    A step's key is a digest of what its artifacts are made from, of the code of its own checks and of its cells'
    points. Its artifacts are made from its notebook, the earlier steps' notebooks (whose artifacts it reads) and what
    those were made from, the source notebook, all code except the steps' checks, and the engine and model chosen.
    """

    def __init__(self, course: Course, student: str) -> None:
        self._course, self.student = course, student
        self._folder = course.autograded(student)

    def done(self, step: str) -> bool:
        """Return whether the step was graded from the files that are there now, and the graded notebook is there."""
        notebook, record = self._folder / step / f"{step}.ipynb", self.record(step)
        return notebook.is_file() and (record.state, record.key) == (GRADED, self.key(step))

    def begin(self, step: str, seed: int | None = None) -> StepRecord:
        """Mark the step as being graded; return its record with the points that a person gave so far.

        Its inputs are drawn from `seed`, by default from the seed of the last time.
        """
        record = self.record(step)
        with self._course.gradebook() as gradebook:
            _take_by_hand(record, held(gradebook, record))
        record.state, record.notes = UNDER_WAY, []
        record.key, record.made = self.key(step), self.made(step)  # a file handed in meanwhile changes it
        record.seed = seed if seed is not None else record.seed
        record.write(self._folder)
        return record

    def end(self, record: StepRecord) -> None:
        """Put the record of a step that has just been graded into the gradebook, and mark the step as graded.

        Points that a person gave meanwhile stay in the gradebook; `settle` takes them into the record.
        """
        given = deepcopy(record)
        with self._course.gradebook() as gradebook:
            _take_by_hand(given, held(gradebook, record))
            save(gradebook, given, graded_now=True)
        record.state = GRADED
        record.write(self._folder)

    def refuse(self, step: str, lines: list[str], *, decided: bool = True) -> None:
        """Note why the step was not graded. Unless that is `decided`, the next run grades it."""
        record = self.record(step)
        record.state, record.key, record.made = REFUSED if decided else UNDER_WAY, "", ""
        record.notes = lines
        record.write(self._folder)

    def note(self, step: str, lines: list[str]) -> None:
        """Add notes to the step's record."""
        if lines:
            record = self.record(step)
            record.notes += lines
            record.write(self._folder)

    def settle(self, gradebook: Gradebook, step: str, notes: list[str]) -> bool:
        """Take the points that a person gave and the late penalty into a graded step's record and the gradebook.

        The record gets `notes`, and one more if the penalty is not known.

        Returns:
            Whether anything changed that the feedback shows.
        """
        record = self.record(step)
        before, found = deepcopy(record), held(gradebook, record)
        _take_by_hand(record, found)
        if found != record:
            save(gradebook, record)
        record.notes = notes
        try:
            record.submitted, record.penalty = lateness(self._course, gradebook, self.student, step)
        except InputError as error:
            record.notes = [*notes, str(error)]
        if record != before:
            record.write(self._folder)
        return replace(record, notes=before.notes) != before

    def record(self, step: str) -> StepRecord:
        """Return the step's record, an empty one if there is none that can be used."""
        return StepRecord.known(self._folder, self.student, step)

    def key(self, step: str) -> str:
        """Return the key that the step would have if it were graded now."""
        worth = {name: cell.points for name, cell in CELLS.items() if cell.step == step}
        return hashlib.sha256(f"{self.made(step)}{digest_of(checks_of(step))}{worth}".encode()).hexdigest()

    def made(self, step: str) -> str:
        """Return a digest of what the step's artifacts would be made from if it were graded now."""
        digest = hashlib.sha256(f"{digest_of(code() - checks_of())}{settings()}".encode())
        digest.update(sha256(self._course.source(step)).encode())
        for earlier in self._course.steps[: self._course.steps.index(step) + 1]:
            digest.update(_content(self._course.submitted(self.student, earlier)).encode())
            if earlier != step:  # its artifacts change when it is graded again
                digest.update(f"{self.record(earlier).made};".encode())
        return digest.hexdigest()

    def to_grade(self, steps: list[str], *, again: bool = False) -> list[str]:
        """Return the steps that have to be graded, in order; all of them with `again`.

        After a step that would make other artifacts than before, all that follow have to be.
        """
        found = []
        for step in steps:
            if again or not self.done(step):
                found.append(step)
                again = again or self.made(step) != self.record(step).made
        return found


def _content(path: Path) -> str:
    """Return a digest of a submitted notebook, "-" if there is none that may be read."""
    try:
        return hashlib.sha256(read_regular(path, LARGEST_BYTES)).hexdigest()
    except InputError:
        return "-"


def _take_by_hand(record: StepRecord, found: StepRecord | None) -> None:
    """Take the points and comments that a person gave from the gradebook's record into ours.

    If the checks' points differ between the two, the gradebook is an older copy, a new one or was tampered with. Then
    points missing from it do not count as taken back.
    """
    if found is None:
        return
    whole = found.given == record.given
    for name, cell in found.cells.items():
        own = record.cells.setdefault(name, CellGrade(cell.points))
        own.points = cell.points
        if whole or cell.manual is not None or cell.extra is not None:
            own.manual, own.extra = cell.manual, cell.extra
    for name, said in found.comments.items():
        if whole or said["manual"] is not None:
            record.comments[name] = {**record.comments.get(name, said), "manual": said["manual"]}
