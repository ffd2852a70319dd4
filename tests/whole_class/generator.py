"""Who of a class hands in what, drawn from the bank by a seed, and the points that must come of it."""

import inspect
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import nbformat

from helpers.checks.points.task import Point
from helpers.course.steps import CELLS, STEPS
from helpers.tools.files import atomic_write
from solutions.checks.core.asked import points_of
from tests.submissions.bank import Entry, load_bank
from tests.submissions.classroom import handed_in

SEED, STUDENTS = 15, 40
CHEAP = ("01_export", "05_inference", "12_layer_profiling")
"""Steps that are graded in seconds, measure no time, and of which the bank has many entries that run the whole step."""

_TWO_STEPS = 0.25
_KINDS = {"solution": 5, "right": 4, "wrong": 9, "skeleton": 2}
_WHOLE_AT = (8, 21, 34)
"""Who hands in all eight steps: the solutions; those of half the steps and nothing in the others; nothing in any."""


@dataclass
class Student:
    """One of the class: the bank's entry by step."""

    name: str
    steps: dict[str, Entry] = field(default_factory=dict)

    @property
    def points(self) -> dict[str, dict[str, float]]:
        """The points that the checks must give, by step and cell."""
        return {step: _points(entry) for step, entry in self.steps.items()}


def generated(seed: int = SEED, number: int = STUDENTS) -> list[Student]:
    """Return the class of a seed: some submissions are equal, as in every class."""
    draws, bank = random.Random(seed), list(_predictable())
    students = []
    for index in range(number):
        student = Student(f"s{index + 1:03d}")
        if index in _WHOLE_AT:
            solved = (8, 4, 0)[_WHOLE_AT.index(index)]
            kinds = ["solution" if place < solved else "skeleton" for place in range(len(STEPS))]
            student.steps = {step: Entry(step, kind, kind) for step, kind in zip(STEPS, kinds, strict=True)}
        else:
            for step in sorted(draws.sample(CHEAP, 2 if draws.random() < _TWO_STEPS else 1)):
                kind = draws.choices(list(_KINDS), list(_KINDS.values()))[0]
                student.steps[step] = draws.choice([one for one in bank if (one.step, one.kind) == (step, kind)])
        students.append(student)
    return students


def hand_in(students: list[Student], folder: Path) -> None:
    """Write everybody's notebooks as `folder`/STUDENT/STEP/STEP.ipynb."""
    for student in students:
        for step, entry in student.steps.items():
            notebook = handed_in(step, None if entry.kind == "skeleton" else entry)
            atomic_write(folder / student.name / step / f"{step}.ipynb", nbformat.writes(notebook) + "\n")


def kept(entry: Entry) -> set[str]:
    """Return the points that an entry keeps."""
    if entry.kind == "skeleton":
        return set()
    return {point.name for point in _points_of(entry.step)} - set(entry.loses or ())


def _points(entry: Entry) -> dict[str, float]:
    found = {cell: 0.0 for cell, about in CELLS.items() if about.step == entry.step and points_of(cell)}
    for point in _points_of(entry.step):
        found[point.cell] += point.worth if point.name in kept(entry) else 0.0
    return {cell: round(points, 2) for cell, points in found.items()}


def _predictable() -> Iterator[Entry]:
    """Yield the entries of cheap steps that run the whole step, and lose each point that they lose wholly."""
    for step in CHEAP:
        partly = {point.name for point in _points_of(step) if not _whole(point)}
        for entry in load_bank(step):
            if not entry.cells and partly.isdisjoint(entry.loses or ()):
                yield entry


def _points_of(step: str) -> list[Point]:
    return [point for cell, about in CELLS.items() if about.step == step for point in points_of(cell)]


def _whole(point: Point) -> bool:
    """Return whether a point is earned wholly or not at all."""
    return inspect.signature(point.asked).return_annotation in (str, "str")
