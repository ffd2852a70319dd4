"""The class list, students.csv in the course's folder: names for formgrader, and whose a downloaded file is."""

import csv
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from nbgrader.api import Gradebook

from solutions.grading.submissions import Submission
from trtcpu.errors import InputError

ROSTER = "students.csv"


@dataclass(frozen=True)
class Student:
    """A line of the class list; what is not known is empty."""

    id: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""


def read_roster(course_folder: Path) -> list[Student]:
    """Return the students of students.csv, in its order; none where there is no such file.

    Its first line names the columns: id, and first_name, last_name, email in any order; others are ignored. Commas or
    semicolons separate them.

    Raises:
        InputError: it is not UTF-8, has no column id, or an id is missing or there twice.
    """
    path = course_folder / ROSTER
    if not path.is_file():
        return []
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8: save it again as CSV UTF-8") from error
    head = lines[0] if lines else ""
    rows = csv.DictReader(lines, delimiter=";" if head.count(";") > head.count(",") else ",")
    if "id" not in (rows.fieldnames or []):
        raise InputError(f"{path} has no column id: its first line is {head!r}, expected id,first_name,last_name,email")
    students: dict[str, Student] = {}
    for row in rows:
        known = {name: (row.get(name) or "").strip() for name in Student.__dataclass_fields__}
        if not known["id"] or known["id"] in students:
            fault = f"the id {known['id']!r} again" if known["id"] else "no id"
            raise InputError(f"{path}, line {rows.line_num}, has {fault}; every student needs an id of their own")
        students[known["id"]] = Student(**known)
    return list(students.values())


def note_strangers(roster: list[Student], submissions: list[Submission]) -> list[str]:
    """Return who handed in and is not in the roster; where there is one, their submissions get a note."""
    known = {student.id for student in roster}
    strangers = [one for one in submissions if one.student not in known and not one.refused]
    for stranger in strangers if roster else []:
        stranger.notes.append(f"not in {ROSTER}")
    return [stranger.student for stranger in strangers]


def enrol(gradebook: Gradebook, roster: list[Student], submissions: list[Submission]) -> list[str]:
    """Put everybody's names into the gradebook, where formgrader takes them from; return who handed in nothing.

    Who is not in the roster goes by their id, until somebody enters names in formgrader.
    """
    # Who has no name would be shown as "None, None".
    named = {one.id for one in gradebook.students if one.first_name is not None and one.last_name is not None}
    strangers = [Student(name) for name in note_strangers(roster, submissions) if name not in named]
    for student in [*roster, *strangers]:
        shown = student if student.first_name or student.last_name else replace(student, last_name=student.id)
        gradebook.update_or_create_student(**{"student_id" if k == "id" else k: v for k, v in asdict(shown).items()})
    handed_in = {submission.student for submission in submissions}
    return [student.id for student in roster if student.id not in handed_in]
