"""What a test cell is worth stands in two places: in its notebook, and in the points that its task declares."""

import math

from nbgrader.utils import is_grade, is_solution, is_task

from helpers.course.handout import read_notebook
from helpers.course.steps import CELLS
from solutions.checks.core.asked import points_of
from solutions.grading.course import Course
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
    notebook, rooms = (
        course.source(step).relative_to(course.root),
        f"helpers/checks/points/ and solutions/checks/, s{step}",
    )
    cells = [cell for cell in read_notebook(course.source(step)).cells if is_grade(cell)]
    worth = {
        cell.metadata.nbgrader.get("grade_id"): cell.metadata.nbgrader.get("points", 0)
        for cell in cells
        if not is_solution(cell) and not is_task(cell)
    }
    declared = {name: sum(point.worth for point in points_of(name)) if name in CELLS else 0 for name in worth}
    return [
        f"the cell {name} has {points!r} points in {notebook}, those of its tasks ({rooms}) sum to {declared[name]:g}"
        for name, points in worth.items()
        if not isinstance(points, (int, float)) or not math.isclose(points, declared[name])
    ]
