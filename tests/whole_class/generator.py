"""Who of a class hands in what, drawn from the bank by a seed, and the points that must come of it."""

import random
from dataclasses import dataclass
from inspect import signature
from pathlib import Path

import nbformat

from helpers.checks.points.task import Point
from helpers.course.steps import BY_NAME, STEPS
from helpers.tools.files import atomic_write
from solutions.checks.core.asked import points_of
from tests.submissions.bank import Entry, load_bank
from tests.submissions.classroom import handed_in

SEED, STUDENTS = 15, 40

# Steps that are graded in seconds, measure no time, and of which the bank has many entries that run the whole step.
CHEAP = ("01_export", "05_inference", "12_layer_profiling")

_TWO_STEPS = 0.25
_KINDS = {"solution": 5, "right": 4, "wrong": 9, "skeleton": 2}

# Who hands in all eight steps, and how many of them solved; the others are left as they were handed out.
_SOLVED = {8: 8, 21: 4, 34: 0}


@dataclass
class Student:
    """One of the class: the bank's entry by step."""

    name: str
    steps: dict[str, Entry]

    @property
    def points(self) -> dict[str, float]:
        """The points that the checks must give, by test cell."""
        names = set().union(*map(kept, self.steps.values()))
        cells = [cell for entry in self.steps.values() for cell in entry.graded]
        earned = {cell: [point.worth for point in points_of(cell) if point.name in names] for cell in cells}
        return {cell: round(sum(points, 0.0), 2) for cell, points in earned.items()}


def generated(seed: int = SEED, number: int = STUDENTS) -> list[Student]:
    """Return the class of a seed: some submissions are equal, as in every class."""
    draws, bank = random.Random(seed), _predictable()
    students = []
    for index in range(number):
        if index in _SOLVED:
            kinds = ["solution" if place < _SOLVED[index] else "skeleton" for place in range(len(STEPS))]
            entries = [Entry(step, kind, kind) for step, kind in zip(STEPS, kinds, strict=True)]
        else:
            steps = sorted(draws.sample(CHEAP, 2 if draws.random() < _TWO_STEPS else 1))
            entries = [_drawn(draws, [entry for entry in bank if entry.step == step]) for step in steps]
        students.append(Student(f"s{index + 1:03d}", {entry.step: entry for entry in entries}))
    return students


def _drawn(draws: random.Random, entries: list[Entry]) -> Entry:
    kind = draws.choices(list(_KINDS), list(_KINDS.values()))[0]
    return draws.choice([entry for entry in entries if entry.kind == kind])


def hand_in(students: list[Student], folder: Path) -> None:
    """Write everybody's notebooks as `folder`/STUDENT/STEP/STEP.ipynb."""
    for student in students:
        for step, entry in student.steps.items():
            notebook = handed_in(step, None if entry.kind == "skeleton" else entry)
            atomic_write(folder / student.name / step / f"{step}.ipynb", nbformat.writes(notebook) + "\n")


def kept(entry: Entry) -> set[str]:
    """Return the points that an entry keeps."""
    names = {point.name for point in _points_of(entry.step)}
    return set() if entry.kind == "skeleton" else names.difference(entry.loses or ())


def _predictable() -> list[Entry]:
    """Return the entries of cheap steps that run the whole step, and lose each point that they lose wholly."""
    points = [point for step in CHEAP for point in _points_of(step)]
    whole = [point.name for point in points if signature(point.asked).return_annotation in (str, "str")]
    partly = {point.name for point in points}.difference(whole)
    entries = [entry for step in CHEAP for entry in load_bank(step)]
    return [entry for entry in entries if not entry.cells and partly.isdisjoint(entry.loses or ())]


def _points_of(step: str) -> list[Point]:
    return [point for cell in BY_NAME[step].cells for point in points_of(cell)]
