"""Runs that were made up: what a student's functions are given, and what they must make of it.

The visible checks' runs are recorded data, their expected values with them. The graders' are drawn anew, by code that
students do not have. But for one of the lab's own batches and device, each has others, and other names and directions.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.point import Point, Reported
from helpers.course.settings import BASELINE

MEASUREMENTS = ("latency", "throughput", "accuracy")
Report = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """A run: the contents of the three files of measurements, and the artifact that each name of `files` stands for.

    `report` is what follows for build_report, its sizes and memory apart: they are made up, and given to the functions
    that take a report. `figures` are its key figures.
    """

    latency: dict[str, Any]
    throughput: dict[str, Any]
    accuracy: dict[str, Any]
    files: dict[str, str]
    report: Report
    figures: dict[str, Any]

    @property
    def names(self) -> list[str]:
        """The names of what was measured."""
        return list(self.report["throughput"])

    @property
    def batches(self) -> list[str]:
        """The batches, as a report's keys."""
        return list(self.report["throughput"][BASELINE])


EXAMPLES = [Run(**raw) for raw in json.loads((Path(__file__).parent / "examples.json").read_text())]
"""The runs of the visible checks."""


@dataclass(frozen=True)
class Part:
    """Something asked of a function, piece by piece: `judge(case, runs, piece)` returns evidence or raises Missed."""

    title: str
    pieces: Sequence[str]
    judge: Callable[[Case, Sequence[Run], str], str]
    examples: int = len(EXAMPLES)
    """How many of the recorded runs the visible check takes, so that it answers within seconds."""

    reported: Reported | None = None
    """What of it only the student's side can say."""

    def point(self) -> Point:
        """Return the point of a visible check: every piece, on the first `examples` of the recorded runs."""
        return Point(self.title, partial(self._all, runs=EXAMPLES[: self.examples]))

    def _all(self, case: Case, runs: Sequence[Run]) -> str:
        return "; ".join(dict.fromkeys(self.judge(case, runs, piece) for piece in self.pieces))

    def pieces_of(self, case: Case, runs: Sequence[Run]) -> tuple[list[str], list[Missed]]:
        """Return the evidence of the pieces that are there, and what was missed in the others."""
        kept, missed = [], []
        for piece in self.pieces:
            try:
                kept.append(self.judge(case, runs, piece))
            except Missed as found:
                missed.append(found)
        return kept, missed
