"""The steps' rooms in order, and every visible check by the name that notebooks call it by."""

from importlib import import_module

from helpers.checks.points.point import Check
from helpers.course.steps import GRADED

ROOMS = tuple(import_module(f"helpers.checks.points.s{step}") for step in GRADED)
CHECKS: dict[str, Check] = {name: check for room in ROOMS for name, check in room.CHECKS.items()}
