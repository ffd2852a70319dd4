"""A class's totals as files that Canvas' and Moodle's gradebooks import: `trtlab grade --export canvas`.

Canvas finds a student by the SIS login, Moodle by the ID number or the email address, as its import page is told; both
are those of students.csv. The total is a column, and the bonus, which is worth 0 points in Canvas, so that it can only
raise a grade. A total is empty while a person has still to give points or a step is not graded; a bonus is empty while
an optional step is not graded, and where it is 0. Neither platform takes an empty cell for a zero.
"""

import csv
import io
from collections.abc import Callable
from pathlib import Path

from helpers.course.steps import BONUS, CRITERIA
from helpers.tools.files import atomic_write
from solutions.grading.grades import StudentGrades
from solutions.grading.submissions import Student
from solutions.grading.untrusted.text import text_cell

_TOTAL = "TensorRT lab"


def _canvas(student: Student) -> list[str]:
    name = ", ".join(part for part in (student.last_name, student.first_name) if part)
    return [name or student.id, "", "", student.id, ""]


# The columns that say who a student is, and what makes them.
PLATFORMS: dict[str, tuple[list[str], Callable[[Student], list[str]]]] = {
    "canvas": (["Student", "ID", "SIS User ID", "SIS Login ID", "Section"], _canvas),
    "moodle": (
        ["First name", "Last name", "ID number", "Email address"],
        lambda student: [student.first_name, student.last_name, student.id, student.email],
    ),
}


def write_export(
    platform: str, folder: Path, grades: list[StudentGrades], worth: dict[str, float], roster: list[Student]
) -> Path:
    """Write grades-<platform>.csv into `folder`, a line a student, and return its path."""
    known = {student.id: student for student in roster}
    columns, person = PLATFORMS[platform]
    rows = [[*columns, _TOTAL, f"{_TOTAL}: bonus"]]
    if platform == "canvas":
        most = sum(points for criterion, points in worth.items() if criterion != BONUS)
        rows.append(["Points Possible", "", "", "", "", f"{most:g}", "0"])
    rows += [[*person(known.get(row.student, Student(row.student))), *_points(row)] for row in grades]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([[text_cell(cell) for cell in row] for row in rows])
    path = folder / f"grades-{platform}.csv"
    atomic_write(path, text.getvalue())
    return path


def _points(row: StudentGrades) -> list[str]:
    total = "" if row.pending or row.lacks(*CRITERIA) else f"{row.total:g}"
    return [total, "" if row.lacks(BONUS) or not row.points[BONUS] else f"{row.points[BONUS]:g}"]
