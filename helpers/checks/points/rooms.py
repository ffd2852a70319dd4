"""The steps' rooms in order, and every visible check by the name that notebooks call it by."""

from importlib import import_module
from typing import Any

from helpers.checks.points.point import Check
from helpers.course.steps import GRADED

ROOMS = {step: import_module(f"helpers.checks.points.s{step}") for step in GRADED}


def _checks(room: Any) -> dict[str, Check]:
    tasks = [task for task in getattr(room, "TASKS", ()) if task.check]
    return {task.check: Check(task.step, task.title, task.takes, tuple(task.visible)) for task in tasks} or room.CHECKS


CHECKS: dict[str, Check] = {name: check for room in ROOMS.values() for name, check in _checks(room).items()}
