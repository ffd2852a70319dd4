"""The points of a test cell, as the grader asks them."""

from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from itertools import accumulate

from helpers.checks.points.task import Point
from helpers.course.steps import CELLS
from helpers.tools.term import TERM


def points_of(cell: str) -> list[Point]:
    """Return the points of a test cell in order, scaled to what the course gives for the cell.

    Only the room of its own step is imported.
    """
    step = CELLS[cell].step
    if find_spec(f"solutions.checks.s{step}"):
        import_module(f"solutions.checks.s{step}")  # it adds the hidden points to the tasks
    tasks = import_module(f"helpers.checks.points.s{step}").TASKS
    points = [point for task in tasks if task.cell == cell for point in task.points]
    return _scaled(points, TERM.points[cell]) if cell in TERM.points else points


def _scaled(points: list[Point], worth: float) -> list[Point]:
    """Return points that sum to `worth`, each in hundredths."""
    sums = [0.0, *accumulate(point.worth for point in points)]
    ends = [round(reached * worth / sums[-1], 2) for reached in sums]
    shares = [round(end - begin, 2) for begin, end in zip(ends, ends[1:], strict=False)]
    return [replace(point, worth=share) for point, share in zip(points, shares, strict=True)]
