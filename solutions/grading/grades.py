"""A class's grades by criterion: read from the records, written as CSV and JSON, shown as a table."""

import csv
import io
import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nbgrader.utils import is_grade
from rich.markup import escape
from rich.table import Table

from helpers.course.steps import BONUS, CELLS, COLUMNS, CRITERIA, STEPS
from helpers.tools.files import atomic_path
from solutions.checks.core.asked import points_of
from solutions.grading.course import Course
from solutions.grading.outcome import is_test_cell
from solutions.grading.step_record import GRADED, REFUSED, StepRecord, grades_folder
from solutions.grading.submissions import (
    Submission,
    check_files,
    check_notebook,
    find_submissions,
    note_strangers,
    read_roster,
)
from solutions.grading.untrusted.text import printable, text_cell
from trtcpu.errors import InputError

# The criterion of the part that a person grades.
MANUAL = "documentation"


@dataclass
class StudentGrades:
    """One student's points by criterion and by step, so far.

    Attributes:
        pending: the points that a person still has to give.
        late: the points that being late costs.
        ungraded: steps that were handed in and are not decided yet.
        absent: steps that were not handed in.
        unread: steps with points that a person still has to give.
    """

    student: str
    points: dict[str, float] = field(default_factory=lambda: dict.fromkeys(COLUMNS, 0.0))
    steps: dict[str, float] = field(default_factory=dict)
    pending: float = 0.0
    late: float = 0.0
    notes: list[str] = field(default_factory=list)
    ungraded: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    def shown(self) -> dict[str, Any]:
        """Return everything, with None for an ungraded step and for each sum that its points belong to."""
        return {
            **asdict(self),
            "points": {name: None if self.lacks(name) else points for name, points in self.points.items()},
            "steps": {step: None if step in self.ungraded else points for step, points in self.steps.items()},
            "total": None if self.lacks(*CRITERIA) else self.total,
        }

    def lacks(self, *criteria: str) -> bool:
        """Return whether an ungraded step has points in one of these criteria."""
        return any(cell.step in self.ungraded and cell.criterion in criteria for cell in CELLS.values())

    @property
    def total(self) -> float:
        """The points out of 100 so far, rounded to hundredths, minus late penalties; without the bonus."""
        return round(max(0.0, sum(self.points[criterion] for criterion in CRITERIA) - self.late), 2)


@dataclass
class ClassGrades:
    """Everybody's grades, and what each criterion is worth in this course's steps.

    `killed` names the steps that were not graded because their processes were killed. Either the machine lacked memory
    or the submission used it up; the other steps are graded, and the command exits with 1.
    """

    steps: list[str]
    worth: dict[str, float]
    students: list[StudentGrades] = field(default_factory=list)
    killed: list[str] = field(default_factory=list)

    @property
    def fault(self) -> str:
        """A line about what was killed; empty if nothing was."""
        return f"killed and not graded: {', '.join(self.killed)}; the same command grades it" if self.killed else ""


def class_grades(course: Course, submissions: list[Submission], steps: list[str]) -> ClassGrades:
    """Return the grades of these submissions in these steps, from the records."""
    rows = [_student(course, submission, steps) for submission in submissions]
    return ClassGrades(steps, worth_of(course, steps), rows)


def rebuilt(course: Course) -> ClassGrades:
    """Return everybody's grades from the records alone, without the gradebook and without running anything.

    Raises:
        InputError: there are no records.
    """
    known = {path.parent.name for path in course.autograded("").glob("*/grades") if path.is_dir()}
    if not known:
        raise InputError(f"no records to rebuild grades from: expected {course.autograded('<student>')}/grades/")
    everybody: list[Submission] = []
    with suppress(InputError):  # submitted/ may be elsewhere
        everybody += find_submissions(course, course.graded)
        note_strangers(read_roster(course.root), everybody)
    gone = known - {submission.student for submission in everybody}
    everybody += [Submission(student, course.graded) for student in gone]
    return class_grades(course, sorted(everybody, key=lambda one: one.student), course.graded)


def _student(course: Course, submission: Submission, steps: list[str]) -> StudentGrades:
    records, notes, ungraded = {}, [*submission.notes], steps if submission.refused else []
    for step in submission.steps:
        record, lines = _decided(course, submission.student, step)
        notes += [f"{step}: {line}" for line in lines]
        if record is None:
            ungraded.append(step)
        elif record.state == GRADED:
            records[step] = record
    grades = summed(submission.student, steps, records)
    grades.notes, grades.ungraded = list(dict.fromkeys(notes)), ungraded
    handed_in = {step for step in steps if course.submitted(submission.student, step).is_file()}
    grades.absent = [step for step in steps if step not in {*handed_in, *records, *ungraded}]
    return grades


def _decided(course: Course, student: str, step: str) -> tuple[StepRecord | None, list[str]]:
    """Return a step's record, None if it is not decided yet, and the notes about it."""
    folder, there = course.autograded(student), course.submitted(student, step).is_file()
    if not (grades_folder(folder) / f"{step}.json").exists():
        if not there:
            return StepRecord(student, step, REFUSED), []
        return None, ["no points: it was handed in and is not graded yet; grade the step"]
    try:
        record = StepRecord.read(folder, student, step)
    except InputError as error:
        return None, [f"no points: {error}"]
    if record.state == GRADED:
        return record, record.notes
    if record.state != REFUSED:
        stopped = "no points: it was being graded when grading stopped; grade the step again"
        return None, record.notes or [stopped]
    if there and _can_be_graded(course, student, step):
        return None, [*record.notes, "no points: it was refused, and what is handed in now is not graded yet"]
    return record, record.notes


def _can_be_graded(course: Course, student: str, step: str) -> bool:
    try:
        check_files(course, student, step)
        check_notebook(course, student, step)
    except InputError:
        return False
    return True


def worth_of(course: Course, steps: list[str]) -> dict[str, float]:
    """Return what each criterion is worth, from the source notebooks."""
    worth = dict.fromkeys(COLUMNS, 0.0)
    for step in steps:
        for cell in filter(is_grade, course.notebook(step).cells):
            about = cell.metadata.nbgrader
            worth[CELLS[about.grade_id].criterion] += about.points
    return worth


def check_worth(course: Course) -> None:
    """Check that every test cell is worth the sum of its task's points.

    A course with a judge of its own is skipped, since only that judge knows the points.

    Raises:
        InputError: a cell is worth more or less than its task, or a notebook cannot be read.
    """
    if "judge" in course.config.GradeExecute:
        return
    if wrong := [line for step in course.graded for line in _differences(course, step)]:
        raise InputError(f"{'; '.join(wrong)}: set the same points in both")


def _differences(course: Course, step: str) -> list[str]:
    source, rooms = course.source(step), f"helpers/checks/points/ and solutions/checks/, s{step}"
    labels = [cell.metadata.nbgrader for cell in course.notebook(step).cells if is_test_cell(cell)]
    worth = {label.get("grade_id"): label.get("points", 0) for label in labels}
    declared = {name: sum(point.worth for point in points_of(name)) if name in CELLS else 0 for name in worth}
    return [
        f"the cell {name} has {points!r} points in {source.relative_to(course.root)}, "
        f"those of its tasks ({rooms}) sum to {declared[name]:g}"
        for name, points in worth.items()
        if not isinstance(points, (int, float)) or not math.isclose(points, declared[name])
    ]


def summed(student: str, steps: list[str], records: Mapping[str, StepRecord]) -> StudentGrades:
    """Return a student's grades from the records of their graded steps.

    As in nbgrader's export, a late step loses no more than it earned. A late optional step loses points of the bonus.
    """
    grades = StudentGrades(student, steps=dict.fromkeys(steps, 0.0))
    for step, record in records.items():
        for name, cell in record.cells.items():
            if name not in CELLS:  # of an older version of the course
                continue
            grades.points[CELLS[name].criterion] += cell.score
            grades.steps[step] += cell.score
            if cell.pending:
                grades.pending += cell.points
                grades.unread += [step] if step not in grades.unread else []
        penalty = min(record.penalty or 0.0, grades.steps[step])
        grades.steps[step] -= penalty
        if step in STEPS:
            grades.late += penalty
        else:
            grades.points[BONUS] -= penalty
    grades.points = {criterion: round(points, 2) for criterion, points in grades.points.items()}
    grades.steps = {step: round(points, 2) for step, points in grades.steps.items()}
    grades.late = round(grades.late, 2)
    return grades


def table(grades: list[StudentGrades], worth: dict[str, float]) -> Table:
    """Return a table with a row per student, a column per criterion, and the bonus if the course has one."""
    shown = Table(title="Points", title_justify="left")
    shown.add_column("student", overflow="fold")
    criteria = [criterion for criterion in CRITERIA if worth[criterion]]
    for criterion in criteria:
        shown.add_column(f"{criterion}\n/{worth[criterion]:g}", justify="right")
    shown.add_column(f"total\n/{sum(worth[criterion] for criterion in criteria):g}", justify="right")
    bonus = [BONUS] if worth[BONUS] else []
    for column in bonus:
        shown.add_column(f"{column}\n/{worth[column]:g}", justify="right")
    for row in grades:
        cells = [_cell(row, criterion) for criterion in criteria]
        total = (
            "" if row.lacks(*CRITERIA) else f"{row.total:g}" + (f" + {row.pending:g} pending" if row.pending else "")
        )
        shown.add_row(_plain(row.student), *cells, total, *(_cell(row, column) for column in bonus))
    return shown


def write_grades(folder: Path, grades: list[StudentGrades], worth: dict[str, float], steps: list[str]) -> None:
    """Write grades.csv (a line per student) and grades.json (the same, with all notes) into `folder`: both or neither.

    An ungraded step is an empty cell or null, and so is each sum that its points belong to. A value that a spreadsheet
    would take for a formula is written as text.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["student", *CRITERIA, "pending", "late", "total", BONUS, *steps, "notes"])
    for row in grades:
        known = row.shown()
        numbers = [*(known["points"][criterion] for criterion in CRITERIA), row.pending, row.late, known["total"]]
        numbers += [known["points"][BONUS], *(known["steps"][step] for step in steps)]
        shown = ("" if number is None else f"{number:g}" for number in numbers)
        writer.writerow([text_cell(row.student), *shown, text_cell(printable("; ".join(row.notes)))])
    whole = [row.shown() for row in grades]
    with atomic_path(folder / "grades.csv") as lines, atomic_path(folder / "grades.json") as notes:
        lines.write_text(text.getvalue(), encoding="utf-8")
        notes.write_text(json.dumps({"maximum": worth, "steps": steps, "students": whole}, indent=2) + "\n")


def _cell(row: StudentGrades, criterion: str) -> str:
    if row.lacks(criterion):
        return ""
    pending = f" + {row.pending:g} pending" if criterion == MANUAL and row.pending else ""
    return f"{row.points[criterion]:g}{pending}"


def _plain(value: str) -> str:
    return escape(printable(value))
