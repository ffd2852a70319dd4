"""What a class's records say about the class and about the checks: the figures of class.html.

Difficulty and discrimination are those of classical test theory: the share of its points that a claim gave, and the
correlation of that share with the student's other points of the 100 (item-rest correlation). A claim that others were
asked gave 0 where a graded step has no record of it.
"""

import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from helpers.course.steps import BONUS, CELLS, CRITERIA
from solutions.checks.core.record import ClaimResult
from solutions.grading.course import Course
from solutions.grading.environment import records_of
from solutions.grading.grades import StudentGrades
from solutions.grading.outcome import usable_record
from solutions.grading.step_record import GRADED, StepRecord

_FEWEST = 5
"""Students without whom a correlation says nothing."""

_BINS = 10


@dataclass(frozen=True)
class ClaimFigures:
    """One claim among those whose step was graded: how many, the share of points that it gave, its correlation."""

    step: str
    claim: str
    title: str
    students: int
    difficulty: float
    discrimination: float | None
    errors: int


@dataclass
class ClassFigures:
    """The class: totals in ten equal parts of the points, claims by difficulty, slowest pieces, frequent messages."""

    students: int
    most: float
    totals: list[float]
    bins: list[int]
    claims: list[ClaimFigures] = field(default_factory=list)
    slowest: list[tuple[float, str, str]] = field(default_factory=list)
    messages: list[tuple[int, str, str, str]] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The median of the totals."""
        return statistics.median(self.totals) if self.totals else 0.0


def class_figures(
    course: Course, grades: list[StudentGrades], worth: dict[str, float], steps: list[str]
) -> ClassFigures:
    """Return the figures of a graded class, from its grades and the records in autograded/."""
    most = sum(points for criterion, points in worth.items() if criterion != BONUS)
    totals = [row.total for row in grades if not row.lacks(*CRITERIA)]
    bins, _ = np.histogram(np.clip(totals, 0, most), bins=_BINS, range=(0, most or 1))
    figures = ClassFigures(len(grades), most, totals, bins.tolist())
    shares: dict[tuple[str, str], dict[str, float]] = {}
    about: dict[tuple[str, str], tuple[str, ClaimResult]] = {}
    graded: dict[str, list[str]] = {step: [] for step in steps}
    errors: Counter[tuple[str, str]] = Counter()
    missed: Counter[tuple[str, str, str]] = Counter()
    for row in grades:
        for step in steps:
            record = StepRecord.known(course.autograded(row.student), row.student, step)
            if record.state != GRADED:
                continue
            graded[step].append(row.student)
            if record.seconds is not None:
                figures.slowest.append((record.seconds, row.student, step))
            for cell, result in _results(course, row.student, step):
                key = step, result.claim
                about[key] = CELLS[cell].criterion, result
                shares.setdefault(key, {})[row.student] = result.earned / result.points if result.points else 1.0
                errors[key] += result.status == "error"
                if result.missed:
                    missed[step, result.title, result.missed["try_this"]] += 1
    points = {row.student: row.total for row in grades}
    for key, by_student in shares.items():
        criterion, found = about[key]
        names = graded[key[0]]
        values = [by_student.get(name, 0.0) for name in names]  # what a kernel died before gave nothing
        own = 0.0 if criterion == BONUS else found.points  # a bonus is no part of the total
        rest = [points[name] - share * own for name, share in zip(names, values, strict=True)]
        figures.claims.append(
            ClaimFigures(
                key[0],
                found.claim,
                found.title,
                len(values),
                statistics.fmean(values),
                _correlation(values, rest),
                errors[key],
            )
        )
    figures.claims.sort(key=lambda one: one.difficulty)
    figures.slowest = sorted(figures.slowest, reverse=True)[:10]
    figures.messages = [(count, *said) for said, count in missed.most_common(15)]
    return figures


def _results(course: Course, student: str, step: str) -> Iterator[tuple[str, ClaimResult]]:
    for cell in (name for name, about in CELLS.items() if about.step == step):
        record = usable_record(records_of(course.autograded(student)) / f"{cell}.json")
        yield from ((cell, result) for result in (record.results if record else ()))


def _correlation(values: list[float], rest: list[float]) -> float | None:
    if len(values) < _FEWEST or len(set(values)) == 1 or len(set(rest)) == 1:
        return None
    return float(np.corrcoef(values, rest)[0, 1])
