"""Which student a downloaded file belongs to: nbgrader's `zip_collect` asks `StudentCollector` (nbgrader_config.py).

A name counts whole or up to an underscore: "ada_l.zip", "ada_l_late.zip" and "ada_l_01_export.ipynb" are ada_l's where
students.csv names ada_l. Without the class list nobody can tell whether "ada_l" is a student or something of ada's.
"""

import re
import unicodedata
from contextlib import suppress
from pathlib import Path, PurePath

from nbgrader.plugins import FileNameCollectorPlugin

from solutions.grading.collected import Collected
from solutions.grading.roster import ROSTER, Student, read_roster
from trtcpu.errors import InputError, LabError

_NOTEBOOK = re.compile(r"(?:^|(?<=_))[01][0-9]_[a-z0-9]+[^/\\]*\.ipynb$", re.IGNORECASE)


def student_of(path: PurePath, roster: list[Student]) -> str:
    """Return the id of the student whom a notebook belongs to.

    Args:
        path: where it lies below the folder of extracted files: archives have become folders of their names.
        roster: the class list. Its ids and, as "Ada Lovelace", its full names are looked for, the longest first.

    Raises:
        InputError: the path names no student, or without a roster might name several.
    """
    names = [_composed(name) for name in (*path.parts[:-1], _NOTEBOOK.sub("", path.name).rstrip("_ -"))]
    if not roster:
        name = next(filter(None, names), "")
        if not name or name.endswith(".ipynb"):
            raise InputError("no student's name in it")
        if "_" in name:
            raise InputError(f"{name!r} may be a student, or a file of {name.split('_')[0]!r}: {ROSTER} must say")
        return name
    known = _names(roster)
    for name in names:
        for text in sorted(known, key=len, reverse=True):
            if name == text or name.startswith(f"{text}_"):
                return known[text]
    raise InputError(f"no student of {ROSTER} in its name")


def is_copy(path: PurePath) -> bool:
    """Return whether a program keeps this file beside the notebook: Jupyter its checkpoint, macOS its attributes."""
    return bool({".ipynb_checkpoints", "__MACOSX"} & set(path.parts)) or path.name.startswith("._")


def _names(roster: list[Student]) -> dict[str, str]:
    """Return the id behind each id and each full name that only one student has."""
    full = [_composed(f"{student.first_name} {student.last_name}".strip()) for student in roster]
    alone = {name: student.id for name, student in zip(full, roster, strict=True) if name and full.count(name) == 1}
    return alone | {_composed(student.id): student.id for student in roster}


def _composed(name: str) -> str:
    """Return the name with one character for a letter and its accent: macOS writes two."""
    return unicodedata.normalize("NFC", name)


def doubles(files: list[PurePath], roster: list[Student]) -> dict[PurePath, str]:
    """Return the files that nobody can choose between, since several would be one student's work, with a line each."""
    owners: dict[str, list[PurePath]] = {}
    for file in sorted(files):
        with suppress(InputError):
            owners.setdefault(student_of(file, roster), []).append(file)
    return {
        file: f"{' and '.join(map(str, own))} would both be the work of {student}: keep one of them"
        for student, own in owners.items()
        for file in own
        if len(own) > 1
    }


def candidates(folder: Path, step: str) -> list[PurePath]:
    """Return the files below a folder of extracted ones that may be somebody's notebook of the step."""
    found = (path.relative_to(folder) for path in sorted(folder.rglob("*.ipynb")) if path.is_file())
    return [path for path in found if not is_copy(path) and step in path.name.lower()]


class StudentCollector(FileNameCollectorPlugin):
    """nbgrader's collector with the class list. Files that would become one submission are all left out.

    What was taken before is left out too, since nbgrader would empty the submission's folder first.
    """

    def collect(self, submitted_file: str) -> dict[str, str] | None:
        """Return student and notebook of a file below downloaded/<step>/extracted/, None for one to be left out."""
        course = self.parent.coursedir
        step, folder = course.assignment_id, Path(self.parent._format_collect_path(self.parent.extracted_directory))
        below = Path(submitted_file).relative_to(folder)
        if below.suffix != ".ipynb" or is_copy(below) or step not in below.name.lower():
            return None
        try:
            roster = read_roster(Path(course.root))
            student = student_of(below, roster)
        except LabError:
            return None  # collect.py asks again and tells
        if "_doubles" not in self.__dict__:
            self.__dict__["_doubles"] = doubles(candidates(folder, step), roster)
        if below in self.__dict__["_doubles"] or is_linked(Path(course.root), student, step):
            return None
        submission = Path(course.format_path(course.submitted_directory, student, step)) / f"{step}.ipynb"
        if Collected.read(folder.parent).has(student, Path(submitted_file), submission):
            return None
        return {"student_id": student, "file_id": step}


def is_linked(root: Path, student: str, step: str) -> bool:
    """Return whether a submission would be written through a link."""
    folder = root / "submitted" / student
    return any(path.is_symlink() for path in (folder, folder / step, folder / step / f"{step}.ipynb"))
