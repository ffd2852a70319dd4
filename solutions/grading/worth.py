"""What a test cell is worth stands in two places: in its notebook, and in the points that its task declares."""

import math

from helpers.course.handout import read_notebook
from helpers.course.steps import CELLS
from solutions.checks.core.asked import points_of
from solutions.grading.course import Course
from solutions.grading.outcome import is_test_cell
from trtcpu.errors import InputError


def check_worth(course: Course) -> None:
    """Compare the points of every test cell with the sum of its task's; a cell that a person reads has none.

    A course whose configuration names a judge of its own has points that only that judge knows: it is not looked at.

    Raises:
        InputError: a cell is worth more or less than its task, or a notebook cannot be read.
    """
    if "judge" in course.config.GradeExecute:
        return
    if wrong := [line for step in course.graded for line in _differences(course, step)]:
        raise InputError(f"{'; '.join(wrong)}: set the same points in both")


def _differences(course: Course, step: str) -> list[str]:
    source, rooms = course.source(step), f"helpers/checks/points/ and solutions/checks/, s{step}"
    labels = [cell.metadata.nbgrader for cell in read_notebook(source).cells if is_test_cell(cell)]
    worth = {label.get("grade_id"): label.get("points", 0) for label in labels}
    declared = {name: sum(point.worth for point in points_of(name)) if name in CELLS else 0 for name in worth}
    return [
        f"the cell {name} has {points!r} points in {source.relative_to(course.root)}, "
        f"those of its tasks ({rooms}) sum to {declared[name]:g}"
        for name, points in worth.items()
        if not isinstance(points, (int, float)) or not math.isclose(points, declared[name])
    ]
