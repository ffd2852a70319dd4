"""The tasks of all steps, by the name of their visible check."""

from importlib import import_module

from helpers.checks.points.task import Task
from helpers.course.steps import GRADED

ROOMS = [import_module(f"helpers.checks.points.s{step}") for step in GRADED]
CHECKS: dict[str, Task] = {task.check: task for room in ROOMS for task in room.TASKS if task.check}
