"""What a test cell is worth stands in two places: in its notebook, and in the claims that decide it."""

import math

from nbgrader.utils import is_grade, is_solution, is_task

from helpers.course.handout import read_notebook
from helpers.course.steps import CELLS
from solutions.checks.core.claim import claims_of
from solutions.grading.course import Course
from solutions.grading.layout import ROOT
from trtcpu.errors import InputError


def check_worth(course: Course) -> None:
    """Compare the points of every test cell with the sum of its claims; a cell that a person reads has none.

    A course whose configuration names a judge of its own has claims that only that judge knows: it is not looked at.

    Raises:
        InputError: a cell is worth more or less than its claims, or a notebook cannot be read.
    """
    if "judge" in course.config.GradeExecute:
        return
    if wrong := [line for step in course.graded for line in _differences(course, step)]:
        raise InputError(f"{'; '.join(wrong)}: set the same points in both files")


def _differences(course: Course, step: str) -> list[str]:
    room = f"solutions/checks/s{step}"
    files = course.source(step).relative_to(course.root), f"{room}/" if (ROOT / room).is_dir() else f"{room}.py"
    cells = [cell for cell in read_notebook(course.source(step)).cells if is_grade(cell)]
    worth = {
        cell.metadata.nbgrader.get("grade_id"): cell.metadata.nbgrader.get("points", 0)
        for cell in cells
        if not is_solution(cell) and not is_task(cell)
    }
    claimed = {name: sum(claim.points for claim in claims_of(name)) if name in CELLS else 0 for name in worth}
    return [
        f"the cell {name} has {points!r} points in {files[0]}, its claims in {files[1]} sum to {claimed[name]:g}"
        for name, points in worth.items()
        if not isinstance(points, (int, float)) or not math.isclose(points, claimed[name])
    ]
