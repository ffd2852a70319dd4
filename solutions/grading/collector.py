"""Which student a downloaded file belongs to: nbgrader's `zip_collect` asks `StudentCollector` (nbgrader_config.py).

A name counts whole or up to an underscore: "ada_l.zip", "ada_l_late.zip" and "ada_l_01_export.ipynb" are ada_l's where
students.csv names ada_l. Without the class list nobody can tell whether "ada_l" is a student or something of ada's.
"""

import re
import unicodedata
from pathlib import Path, PurePath

from nbgrader.plugins import FileNameCollectorPlugin

from helpers.errors import InputError, LabError
from solutions.grading.roster import ROSTER, Student, read_roster

__all__ = ["StudentCollector", "is_copy", "student_of"]

_NOTEBOOK = re.compile(r"(?:^|(?<=_))[01][0-9]_[a-z0-9]+[^/\\]*\.ipynb$")


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


class StudentCollector(FileNameCollectorPlugin):
    """nbgrader's collector with the class list. Two files that would become one submission stop it, with both names."""

    def collect(self, submitted_file: str) -> dict[str, str] | None:
        """Return student and notebook of a file below downloaded/<step>/extracted/, None for one to be left out."""
        step = self.parent.coursedir.assignment_id
        below = Path(submitted_file).relative_to(self.parent._format_collect_path(self.parent.extracted_directory))
        if below.suffix != ".ipynb" or is_copy(below) or step not in below.name:
            return None
        try:
            student = student_of(below, read_roster(Path(self.parent.coursedir.root)))
        except LabError:
            return None  # collect.py asks again and tells
        seen = self.__dict__.setdefault("_seen", {})
        if student in seen:
            self.parent.fail(f"{seen[student]} and {below} would both be the {step} of {student}: keep one of them")
        seen[student] = below
        return {"student_id": student, "file_id": step}
