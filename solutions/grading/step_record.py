"""What is known of one student's graded step: autograded/<student>/grades/<step>.json.

The gradebook is made from these records, and grades.csv can be (`--rebuild`). A record is written before the gradebook
takes its points, and takes back what a person gave in formgrader.
"""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from helpers.tools.files import write_json
from solutions.checks.core.record_schema import checked_json
from trtcpu.errors import LabError

GRADED, REFUSED, UNDER_WAY = "graded", "refused", "under way"
_LARGEST_BYTES = 1 << 20

_POINTS = {"type": ["number", "null"], "minimum": -1000, "maximum": 1000}
_TEXT = {"type": ["string", "null"], "maxLength": 100_000}
_LINES = {"type": "array", "items": {"type": "string", "maxLength": 4_000}, "maxItems": 2_000}
_CELL = {
    "type": "object",
    "properties": {"points": _POINTS, "auto": _POINTS, "manual": _POINTS, "extra": _POINTS},
    "required": ["points", "auto", "manual", "extra"],
    "additionalProperties": False,
}
_COMMENT = {"type": "object", "properties": {"auto": _TEXT, "manual": _TEXT}, "additionalProperties": False}
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "A student's graded step",
    "type": "object",
    "properties": {
        "student": {"type": "string"},
        "step": {"type": "string"},
        "state": {"enum": [GRADED, REFUSED, UNDER_WAY]},
        "key": {"type": "string", "maxLength": 64},
        "made": {"type": "string", "maxLength": 64},
        "cells": {"type": "object", "additionalProperties": _CELL, "maxProperties": 200},
        "comments": {"type": "object", "additionalProperties": _COMMENT, "maxProperties": 200},
        "submitted": {"type": ["string", "null"], "maxLength": 40},
        "penalty": {"type": ["number", "null"], "minimum": 0, "maximum": 1000},
        "seconds": {"type": ["number", "null"], "minimum": 0},
        "seed": {"type": ["integer", "null"], "minimum": 0},
        "notes": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["student", "step", "state", "key", "cells", "comments"],
    "additionalProperties": False,
}


@dataclass
class CellGrade:
    """A cell's points: what it is worth, what the checks gave and what a person did; None is nothing yet."""

    points: float
    auto: float | None = None
    manual: float | None = None
    extra: float | None = None

    @property
    def score(self) -> float:
        """What counts: a person's points before the checks', and extra credit."""
        given = self.auto if self.manual is None else self.manual
        return 0.0 if given is None else given + (self.extra or 0.0)

    @property
    def pending(self) -> bool:
        """Whether a person has still to give its points."""
        return self.auto is None and self.manual is None


@dataclass
class StepRecord:
    """A graded step.

    `key` is a digest of all that it was graded from, and `made` of what its artifacts were made from; they are empty
    where that is not known. `submitted` is when it was handed in, as timestamp.txt beside it says (ISO 8601, UTC), and
    `penalty` what being late costs, as nbgrader's plugin says. `seconds` are those that grading it took, `seed` is what
    its inputs were drawn from, and `notes` are lines for who grades.
    """

    student: str
    step: str
    state: str = GRADED
    key: str = ""
    made: str = ""
    cells: dict[str, CellGrade] = field(default_factory=dict)
    comments: dict[str, dict[str, str | None]] = field(default_factory=dict)
    submitted: str | None = None
    penalty: float | None = None
    seconds: float | None = None
    seed: int | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def given(self) -> dict[str, float | None]:
        """The points that the checks gave, by cell."""
        return {name: cell.auto for name, cell in self.cells.items()}

    @classmethod
    def read(cls, folder: Path, student: str, step: str) -> "StepRecord":
        """Return the record of a step in autograded/<student>.

        Raises:
            InputError: there is none, or what is there is refused.
        """
        path = grades_folder(folder) / f"{step}.json"
        found = checked_json(path, SCHEMA, "record", _LARGEST_BYTES)
        if (found["student"], found["step"]) != (student, step):
            found |= {"state": UNDER_WAY, "cells": {}}  # copied from elsewhere: it says nothing about this one
        return cls(**{**found, "cells": {name: CellGrade(**cell) for name, cell in found["cells"].items()}})

    @classmethod
    def known(cls, folder: Path, student: str, step: str) -> "StepRecord":
        """Return the record of a step, an empty one under way where none can be used."""
        try:
            return cls.read(folder, student, step)
        except LabError:
            return cls(student, step, UNDER_WAY)

    def write(self, folder: Path) -> None:
        """Write the record into autograded/<student>, in one step."""
        write_json(grades_folder(folder) / f"{self.step}.json", asdict(self))


def grades_folder(student_folder: Path) -> Path:
    """Return where the records of a student's steps are; `student_folder` is autograded/<student>."""
    return student_folder / "grades"
