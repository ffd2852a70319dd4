"""The record of one student's step: autograded/<student>/grades/<step>.json.

Records are the one truth about grades: gradebook, grades.csv, feedback and exports are made from them. Each run takes
the points that a person gave in formgrader into them.
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
    """A cell's points: its maximum, the checks' points (`auto`) and a person's (`manual`, `extra`); None: none yet."""

    points: float
    auto: float | None = None
    manual: float | None = None
    extra: float | None = None

    @property
    def score(self) -> float:
        """The points that count: a person's, else the checks', plus extra credit."""
        given = self.auto if self.manual is None else self.manual
        return 0.0 if given is None else given + (self.extra or 0.0)

    @property
    def pending(self) -> bool:
        """Whether a person still has to give its points."""
        return self.auto is None and self.manual is None


@dataclass
class StepRecord:
    """One student's step.

    Attributes:
        key: digest of everything it was graded from; empty if not known.
        made: digest of everything its artifacts were made from; empty if not known.
        submitted: when it was handed in, by its timestamp.txt (ISO 8601, UTC).
        penalty: the points that being late costs, by nbgrader's plugin.
        seconds: how long grading it took.
        seed: what its inputs were drawn from.
        notes: lines for the instructor.
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
        """The checks' points by cell."""
        return {name: cell.auto for name, cell in self.cells.items()}

    @classmethod
    def read(cls, folder: Path, student: str, step: str) -> "StepRecord":
        """Return the record of a step in autograded/<student>.

        Raises:
            InputError: there is none, or it is not valid.
        """
        path = grades_folder(folder) / f"{step}.json"
        found = checked_json(path, SCHEMA, "record", _LARGEST_BYTES)
        if (found["student"], found["step"]) != (student, step):
            found |= {"state": UNDER_WAY, "cells": {}}  # a copy of another step's
        return cls(**{**found, "cells": {name: CellGrade(**cell) for name, cell in found["cells"].items()}})

    @classmethod
    def known(cls, folder: Path, student: str, step: str) -> "StepRecord":
        """Return the record of a step, an empty one under way if there is none that can be used."""
        try:
            return cls.read(folder, student, step)
        except LabError:
            return cls(student, step, UNDER_WAY)

    def write(self, folder: Path) -> None:
        """Write the record into autograded/<student>, atomically."""
        write_json(grades_folder(folder) / f"{self.step}.json", asdict(self))


def grades_folder(student_folder: Path) -> Path:
    """Return where the records of a student's steps are; `student_folder` is autograded/<student>."""
    return student_folder / "grades"
