"""Remembers what was graded from which files, so that an unchanged submission is not graded twice."""

import hashlib
import os
from copy import deepcopy
from functools import cache
from pathlib import Path

from nbgrader.api import Gradebook

from helpers.tools.files import read_regular, sha256
from solutions.grading.course import Course
from solutions.grading.gradebook import held, save
from solutions.grading.lateness import lateness
from solutions.grading.layout import ROOT
from solutions.grading.step_record import GRADED, REFUSED, UNDER_WAY, CellGrade, StepRecord
from solutions.grading.untrusted.limits import LARGEST_BYTES
from trtcpu.errors import InputError

_FOLDERS = ("helpers", "trtcpu", "trtlab", "solutions/checks", "solutions/grading", "solutions/sandbox")
# The variables that decide what is graded, and how.
SETTINGS = ("TRT_LAB_ENGINE", "TRT_LAB_API", "TRT_LAB_MODEL")


class Journal:
    """One student's graded steps: their records, and the keys of what they were graded from.

    A step's key covers what its artifacts are made from, and the code of its own checks. The former is its notebook,
    those of the steps before it (their artifacts are its input) and what these were made from when they were graded
    last, the source notebook, all code but the steps' checks, and the engine and model chosen.
    """

    def __init__(self, course: Course, student: str) -> None:
        self._course, self._student = course, student
        self._folder = course.autograded(student)
        self._begun: dict[str, tuple[str, str]] = {}

    def done(self, step: str) -> bool:
        """Return whether the step was graded from the files that are there now, and its notebook is still there."""
        notebook, record = self._folder / step / f"{step}.ipynb", self.record(step)
        return notebook.is_file() and (record.state, record.key) == (GRADED, self.key(step))

    def begin(self, step: str, seed: int | None = None) -> StepRecord:
        """Note that the step is being graded; return its record with what a person gave so far.

        Its inputs are drawn from the `seed`; without one from the seed of the last time, if there was one.
        """
        record = self.record(step)
        self._begun[step] = self.key(step), self.made(step)  # what is handed in meanwhile is to be graded again
        with self._course.gradebook() as gradebook:
            _take_by_hand(record, held(gradebook, record))
        record.state, record.key, record.made = UNDER_WAY, "", ""
        record.seed = seed if seed is not None else record.seed
        record.write(self._folder)
        return record

    def end(self, record: StepRecord) -> None:
        """Put the record of a step that has just been graded into the gradebook, and note that it is graded.

        What a person gave meanwhile stays in the gradebook; the record, like the feedback, has it from `settle`.
        """
        given = self.record(record.step)
        with self._course.gradebook() as gradebook:
            _take_by_hand(given, held(gradebook, given))
            save(gradebook, _with_by_hand(record, given), graded_now=True)
        record.state = GRADED
        record.key, record.made = self._begun.pop(record.step)
        record.write(self._folder)

    def refuse(self, step: str) -> None:
        """Note that the step could not be graded."""
        record = self.record(step)
        record.state, record.key, record.made = REFUSED, "", ""
        record.write(self._folder)

    def settle(self, gradebook: Gradebook, step: str) -> tuple[bool, str]:
        """Read into a graded step's record what a person gave and what being late costs now; make the gradebook say so.

        Returns:
            Whether the record was changed, and a line where it cannot be known what being late costs.
        """
        record, fault = self.record(step), ""
        before, found = deepcopy(record), held(gradebook, record)
        _take_by_hand(record, found)
        if found != record:
            save(gradebook, record)
        try:
            record.submitted, record.penalty = lateness(self._course, gradebook, self._student, step)
        except InputError as error:
            fault = str(error)
        if record != before:
            record.write(self._folder)
        return record != before, fault

    def record(self, step: str) -> StepRecord:
        """Return the step's record, an empty one where none can be used."""
        return StepRecord.known(self._folder, self._student, step)

    def key(self, step: str) -> str:
        """Return the key that the step would have, graded now."""
        return hashlib.sha256(f"{self.made(step)}{_digest(_checks(step))}".encode()).hexdigest()

    def made(self, step: str) -> str:
        """Return a digest of what the step's artifacts would be made from now."""
        digest = hashlib.sha256(_digest(_code() - _checks()).encode())
        for name in SETTINGS:
            digest.update(f"{name}={os.environ.get(name, '')};".encode())
        digest.update(sha256(self._course.source(step)).encode())
        for earlier in self._course.steps[: self._course.steps.index(step) + 1]:
            digest.update(_content(self._course.submitted(self._student, earlier)).encode())
            if earlier != step:  # graded later than this one, or from other files, it has made other artifacts
                digest.update(f"{self.record(earlier).made};".encode())
        return digest.hexdigest()

    def to_grade(self, steps: list[str], *, again: bool = False) -> list[str]:
        """Return those of the steps, in order, that are to be graded; all with `again`.

        After one that would make other artifacts than it did, these are all that follow.
        """
        found = []
        for step in steps:
            if again or not self.done(step):
                found.append(step)
                again = again or self.made(step) != self.record(step).made
        return found


def _content(path: Path) -> str:
    """Return a digest of a submitted notebook; "-" where there is none, or one that is refused before it is read."""
    try:
        return hashlib.sha256(read_regular(path, LARGEST_BYTES)).hexdigest()
    except InputError:
        return "-"


def _with_by_hand(record: StepRecord, given: StepRecord) -> StepRecord:
    """Return the record with the points and comments that a person gave in `given`."""
    record = deepcopy(record)
    for name in record.cells.keys() & given.cells.keys():
        record.cells[name].manual, record.cells[name].extra = given.cells[name].manual, given.cells[name].extra
    for name in record.comments.keys() & given.comments.keys():
        record.comments[name]["manual"] = given.comments[name].get("manual")
    return record


def _take_by_hand(record: StepRecord, found: StepRecord | None) -> None:
    """Take into the record what a person gave in the gradebook, if that has anything of the step.

    Where its other points are not the record's, it is an older copy, a new one, or was tampered with: what it lacks a
    person has not taken back.
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


@cache
def code_digest() -> str:
    """Return a digest of all code that decides points."""
    return _digest(_code())


@cache
def _code() -> frozenset[Path]:
    return frozenset(path for folder in _FOLDERS for path in (ROOT / folder).rglob("*.py"))


@cache
def _checks(step: str = "") -> frozenset[Path]:
    """Return the code of the step's own checks, or of all steps': other code imports none, and no step another's."""
    rooms = (ROOT / "solutions" / "checks").glob(f"s{step[:2] or '[0-9][0-9]'}_*")
    return frozenset(path for room in rooms for path in ([room] if room.suffix else room.rglob("*.py")))


@cache
def _digest(paths: frozenset[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path.relative_to(ROOT)}:{sha256(path)}\n".encode())
    return digest.hexdigest()
