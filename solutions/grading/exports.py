"""Files for a learning platform: `trtlab grade --export canvas` writes the class's points and a feedback zip a step.

grades-<platform>.csv has everybody of students.csv and whoever else handed in, a column for each step and one for the
bonus. A cell is empty while its step is not due, not graded, or has points that a person still has to give: platforms
don't take an empty cell for a zero. Who handed in nothing gets a zero when the step is due; who handed in work of
which none could be taken does not. In Canvas the bonus is worth 0 points, so that it can only raise a grade. Canvas
finds a student by its own user number (canvas_id) or the SIS login, Moodle by the ID number or the e-mail address.

feedback/<step>-<platform>.zip, one for each step that is due, has each page under the name that the platform gave to
what the student handed in: Canvas takes it under "Upload submissions", Moodle under "Upload multiple feedback files in
a zip".
"""

import csv
import io
import zipfile
from collections.abc import Callable, Iterator, Mapping, Set
from pathlib import Path, PurePosixPath

from helpers.course.steps import BY_NAME, STEPS
from helpers.tools.files import atomic_path, atomic_write
from solutions.grading.collector import PLATFORM_NAMES, names_taken, work_left_out
from solutions.grading.course import Course
from solutions.grading.grades import ClassGrades, StudentGrades
from solutions.grading.late import due_steps
from solutions.grading.submissions import Student
from solutions.grading.untrusted.text import text_cell

_ITEM = "TensorRT lab"


def _canvas(student: Student) -> list[str]:
    name = ", ".join(part for part in (student.last_name, student.first_name) if part)
    return [name or student.id, student.canvas_id, "", student.id, ""]


# The columns that say who a student is, and what fills them.
PLATFORMS: dict[str, tuple[list[str], Callable[[Student], list[str]]]] = {
    "canvas": (["Student", "ID", "SIS User ID", "SIS Login ID", "Section"], _canvas),
    "moodle": (
        ["First name", "Last name", "ID number", "Email address"],
        lambda student: [student.first_name, student.last_name, student.id, student.email],
    ),
}


def write_export(platform: str, course: Course, result: ClassGrades, roster: list[Student]) -> list[Path]:
    """Write a platform's files of a graded class; return their paths."""
    path = course.root / f"grades-{platform}.csv"
    text = io.StringIO()
    due = due_steps(course)
    left_out = {step: work_left_out(course, step) for step in due}
    rows = _rows(platform, result, roster, left_out)
    csv.writer(text, lineterminator="\n").writerows([[text_cell(cell) for cell in row] for row in rows])
    atomic_write(path, text.getvalue())
    return [path, *_feedback(platform, course, [step for step in result.steps if step in due])]


def _rows(
    platform: str, result: ClassGrades, roster: list[Student], due: Mapping[str, Set[str]]
) -> Iterator[list[str]]:
    """Yield the table's lines; `due` has the steps, each with the students whose work was left out."""
    columns, person = PLATFORMS[platform]
    steps = [step for step in result.steps if step in STEPS]
    bonus = [step for step in result.steps if step not in STEPS]
    extra = [f"{_ITEM} bonus"] if bonus else []
    yield [*columns, *(f"{_ITEM} {step}" for step in steps), *extra]
    if platform == "canvas":
        worth = [f"{BY_NAME[step].points:g}" for step in steps]
        yield ["Points Possible", *[""] * (len(columns) - 1), *worth, *("0" for _ in extra)]
    rows = {row.student: row for row in result.students}
    others = [Student(name) for name in rows if name not in {student.id for student in roster}]
    for student in [*roster, *others]:
        row = rows.get(student.id) or StudentGrades(student.id, absent=result.steps)
        own = ["0" if _missing(row, step, due) else _points(row, [step], due.keys()) for step in steps]
        yield [*person(student), *own, *(_points(row, bonus, due.keys()) for _ in extra)]


def _missing(row: StudentGrades, step: str, due: Mapping[str, Set[str]]) -> bool:
    return step in due and step in row.absent and row.student not in due[step]


def _points(row: StudentGrades, steps: list[str], due: Set[str]) -> str:
    """Return the sum of the due steps that were handed in; nothing if there is none, or one is not wholly graded."""
    there = [step for step in steps if step in due and step not in row.absent]
    if not there or not {*row.ungraded, *row.unread}.isdisjoint(there):
        return ""
    return f"{sum(row.steps[step] for step in there):g}"


def _feedback(platform: str, course: Course, steps: list[str]) -> Iterator[Path]:
    """Write a zip of each step's pages for those whose work came from the platform."""
    for step in steps:
        places = {_place(platform, name): student for student, name in names_taken(course, step).items()}
        pages = {place: course.feedback_page(student, step) for place, student in places.items() if place}
        if there := {place: page for place, page in pages.items() if page.is_file()}:
            target = course.root / "feedback" / f"{step}-{platform}.zip"
            with atomic_path(target) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
                for place, page in there.items():
                    archive.write(page, place)
            yield target


def _place(platform: str, name: str) -> str:
    """Return where a student's page lies in the zip, by the name of what was handed in; empty if not the platform's."""
    form = PLATFORM_NAMES[platform]
    parts = PurePosixPath(name).parts
    start = next((at for at, part in enumerate(parts) if form.fullmatch(part)), len(parts))
    return str(PurePosixPath(*parts[start:]).with_suffix(".html")) if parts[start:] else ""
