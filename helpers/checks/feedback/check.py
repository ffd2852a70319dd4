"""Runs a visible check: asks its points on the case with the known seed, shows a card, raises what Validate sees."""

import os
import sys
from collections.abc import Callable
from typing import Any

from helpers.checks.card import Card, Line, show
from helpers.checks.feedback.progress import remember
from helpers.checks.missed import Missed
from helpers.checks.points.case import VISIBLE_SEED, Case
from helpers.checks.points.task import Task
from helpers.checks.probes.student import Student


class NotYet(Exception):
    """A visible check missed a point; the card above says which. Makes nbgrader's Validate fail."""

    def _render_traceback_(self) -> list[str]:
        """IPython's hook: show one line instead of a traceback into code that the student did not write."""
        return [f"NotYet: {self}"]


def visible(name: str, task: Task) -> Callable[..., None]:
    """Return the function `name` that students call with the arguments named in `task.takes`.

    It shows the card, remembers the result for `feedback.progress()`, and raises NotYet if a point was missed.
    While nbgrader grades it does nothing: the grader asks the points itself.
    """

    def run(*given: Any) -> None:
        if os.environ.get("NBGRADER_EXECUTION") == "autograde":
            return
        if len(given) != len(task.takes):
            raise TypeError(f"feedback.{name}({', '.join(task.takes)}) takes {len(task.takes)}, not {len(given)}")
        notebook = sys._getframe(1).f_globals  # the cell's globals: its other names, and the cells run so far
        card = judged(task, Student.in_process({**notebook, **dict(zip(task.takes, given, strict=True))}))
        show(card)
        remember(task.step, name, card.ok)
        if not card.ok:
            raise NotYet(_summary(card)) from None

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"Check {', '.join(task.takes) or 'the files'}: " + "; ".join(p.title for p in task.visible) + "."
    return run


def judged(task: Task, student: Student) -> Card:
    """Return the card of a check. A message that an earlier point gave is not repeated."""
    case, card, said = Case(student, VISIBLE_SEED), Card(task.title), set()
    for point in task.visible:
        try:
            card.lines.append(Line(True, point.title, point(case)))
        except Missed as missed:
            if str(missed) not in said:
                card.lines.append(Line(False, point.title, missed=missed))
                said.add(str(missed))
    return card


def _summary(card: Card) -> str:
    if os.environ.get("NBGRADER_EXECUTION") == "validate":  # Validate shows the exception, not the card
        return str(card)
    missed = sum(not line.ok for line in card.lines)
    return f"{card.title}: {missed} point{'s' if missed > 1 else ''} to fix, listed above"
