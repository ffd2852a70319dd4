"""The class list and the submissions. A submission that cannot be graded gets one clear line.

The class list is students.csv in the course's folder. It names students for formgrader, and says who owns a downloaded
file.
"""

import csv
import os
import stat
import unicodedata
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from pathlib import Path

from nbgrader.api import Gradebook
from nbgrader.utils import find_all_files

from helpers.course.handout import read_notebook
from helpers.course.steps import STEPS
from solutions.grading.course import Course
from solutions.grading.late import due_steps
from solutions.grading.restore import restore
from solutions.grading.untrusted.limits import check_notebook_file
from solutions.grading.untrusted.text import printable
from trtcpu.errors import InputError

ROSTER = "students.csv"
LARGEST_BYTES = 200 << 20
MOST_FILES = 1_000


@dataclass(frozen=True)
class Student:
    """A line of the class list. Unknown fields are empty."""

    id: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    canvas_id: str = ""


@dataclass
class Submission:
    """One student's folder: the steps handed in, and notes about what was found there.

    `refused` folders are not graded: they are links, or their names cannot be a student's.
    """

    student: str
    steps: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refused: bool = False


def find_submissions(course: Course, steps: list[str]) -> list[Submission]:
    """Return every student's submission, sorted by name.

    Raises:
        InputError: submitted/ is not there or holds no folder.
    """
    root = course.root / "submitted"
    folders = sorted(path for path in root.glob("*") if path.is_dir() and not path.name.startswith("."))
    if not folders:
        raise InputError(f"nothing to grade: expected {root}/<student>/<step>/<step>.ipynb")
    due = due_steps(course)
    return [_submission(course, folder, steps, due) for folder in folders]


def chosen_part(
    everybody: list[Submission], all_steps: list[str], students: list[str] | None, steps: list[str] | None
) -> tuple[list[Submission], list[str]]:
    """Return the submissions and steps that were asked for, or all of them if none were named.

    Raises:
        InputError: there is no such student or step.
    """
    names = {found.student for found in everybody}
    if unknown := [name for name in students or [] if name not in names]:
        raise InputError(f"submitted/ has no folder {unknown[0]!r}")
    if unknown := [name for name in steps or [] if name not in all_steps]:
        raise InputError(f"there is no step {unknown[0]!r}; the steps are {', '.join(all_steps)}")
    chosen = [found for found in everybody if not students or found.student in students]
    for submission in chosen:
        submission.steps = [name for name in submission.steps if not steps or name in steps]
    return chosen, [name for name in all_steps if not steps or name in steps]


def _submission(course: Course, folder: Path, steps: list[str], due: Set[str]) -> Submission:
    fault = name_fault(folder.name)
    faults = [f"the student folder's name {fault}; rename the folder"] if fault else []
    if folder.is_symlink():
        faults.append("the student's folder is a link, and links are not followed; put the files there")
    if faults:
        return Submission(printable(folder.name), notes=[f"refused: {faults[0]}"], refused=True)
    found = Submission(folder.name, [step for step in steps if course.submitted(folder.name, step).is_file()])
    missing = [step for step in steps if step not in found.steps]
    notebooks = sorted(folder.rglob("*.[iI][pP][yY][nN][bB]*")) if missing else []
    absent = []
    for step in missing:
        stray = [path for path in notebooks if step in path.name.lower() and ".ipynb_" not in str(path)]
        if course.submitted(folder.name, step) in stray:
            found.notes.append(f"{step}: missing, since {step}/{step}.ipynb is a folder, or a link to nothing")
        elif stray:
            there = stray[0].relative_to(folder)
            found.notes.append(f"{step}: missing, but there is {there}; it belongs at {step}/{step}.ipynb")
        elif step in STEPS and step in due:
            absent.append(step)
    if absent:
        found.notes.append(f"not handed in: {', '.join(absent)}")
    return found


_NAME_FAULTS: dict[str, Callable[[str], object]] = {
    "begins with a dot or holds a /, so that it names another folder": lambda name: name[:1] == "." or "/" in name,
    "begins or ends with a space": lambda name: name != name.strip(),
    "holds one of [ ] * ?, which nbgrader takes for a pattern": lambda name: set(name) & set("[]*?"),
    'holds one of < > " \\, which pages would take for something else': lambda name: set(name) & set('<>"\\'),
    "is not UTF-8": lambda name: any("\ud800" <= letter <= "\udfff" for letter in name),
    "holds a character that cannot be printed": lambda name: not name.isprintable(),
}


def name_fault(name: str) -> str | None:
    """Return what is wrong with a student's id as the name of a folder; None if nothing is."""
    return next((fault for fault, has in _NAME_FAULTS.items() if has(name)), None)


def check_files(course: Course, student: str, step: str) -> None:
    """Check the files of a submission that nbgrader would read or copy, before any of them is read.

    Raises:
        InputError: the step's folder, its notebook or another file is a link or not a regular file, or the files are
            too large or too many.
    """
    notebook = course.submitted(student, step)
    if notebook.parent.is_symlink():
        raise InputError(f"the folder {step} is a link, and links are not followed; put the files themselves there")
    number = sum(not name.endswith(".ipynb") for _, _, names in os.walk(notebook.parent) for name in names)
    if number > MOST_FILES:  # first, since nbgrader's search takes quadratic time
        raise InputError(f"the folder {step} has {number:,} files; at most {MOST_FILES:,} are taken")
    others = find_all_files(str(notebook.parent), [*course.config.CourseDirectory.ignore, "*.ipynb"])
    total = 0
    for path in [notebook, *map(Path, others)]:
        about = path.lstat()
        if not stat.S_ISREG(about.st_mode):
            kind = "a link, and links are not followed" if stat.S_ISLNK(about.st_mode) else "no plain file"
            raise InputError(f"{path.relative_to(notebook.parent)} is {kind}; put the file itself there")
        total += about.st_size
    if total > LARGEST_BYTES:
        raise InputError(f"the folder {step} has {total >> 20} MB; at most {LARGEST_BYTES >> 20} are taken")


def check_notebook(course: Course, student: str, step: str) -> list[str]:
    """Return what differs from the notebook that was handed out, one line each.

    Raises:
        InputError: it cannot be graded: too large, not JSON, not a notebook, a link.
    """
    path = course.submitted(student, step)
    check_notebook_file(path)
    notebook = read_notebook(path)
    return restore(notebook, course.notebook(step), course.config)


def read_roster(course_folder: Path) -> list[Student]:
    """Return the students in students.csv in order; an empty list if there is no such file.

    Its first line names the columns: id, and first_name, last_name, email in any order; others are ignored. Commas or
    semicolons separate them.

    Raises:
        InputError: it is not UTF-8, has no column id, an id is missing or cannot name a folder, or two students have
            the same id, e-mail or canvas_id.
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
    students: list[Student] = []
    taken: dict[tuple[str, bool], int] = {}
    for row in rows:
        student = Student(**{name: (row.get(name) or "").strip() for name in Student.__dataclass_fields__})
        if fault := _line_fault(student, rows.line_num, taken):
            raise InputError(f"{path}, line {rows.line_num}, has {fault}")
        students.append(student)
    return students


def _line_fault(student: Student, line: int, taken: dict[tuple[str, bool], int]) -> str:
    """Return why a line of the class list cannot be used; `taken` has the lines of what names the students so far."""
    if not student.id or (fault := name_fault(student.id)):
        given = f"the id {student.id!r}, which {fault}" if student.id else "no id"
        return f"{given}; every student needs an id that can name a folder"
    for column in ("id", "email", "canvas_id"):
        said = getattr(student, column)
        # An address may not be another's id either; Canvas' numbers are looked up apart from both.
        other = taken.setdefault((composed(said), column == "canvas_id"), line)
        if said and other != line:
            return f"the {column} {said!r} again, after line {other}; every student needs their own"
    return ""


def composed(name: str) -> str:
    """Return the name in lower case, with one character for a letter and its accent: macOS writes two."""
    return unicodedata.normalize("NFC", name).casefold().strip()


def note_strangers(roster: list[Student], submissions: list[Submission]) -> list[str]:
    """Return who handed in but is not in the roster. If there is a roster, add a note to their submissions."""
    known = {student.id for student in roster}
    strangers = [one for one in submissions if one.student not in known and not one.refused]
    for stranger in strangers if roster else []:
        stranger.notes.append(f"not in {ROSTER}")
    return [stranger.student for stranger in strangers]


def enrol(gradebook: Gradebook, roster: list[Student], submissions: list[Submission]) -> list[str]:
    """Write everybody's names to the gradebook, where formgrader reads them; return who handed in nothing.

    A student who is not in the roster is shown by id until somebody enters a name in formgrader.
    """
    # Without a name, formgrader would show "None, None".
    named = {one.id for one in gradebook.students if one.first_name is not None and one.last_name is not None}
    strangers = [Student(name) for name in note_strangers(roster, submissions) if name not in named]
    for student in [*roster, *strangers]:
        last = student.last_name if student.first_name or student.last_name else student.id
        gradebook.update_or_create_student(
            student.id, first_name=student.first_name, last_name=last, email=student.email
        )
    handed_in = {submission.student for submission in submissions}
    return [student.id for student in roster if student.id not in handed_in]
