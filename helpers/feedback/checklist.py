"""What every visible check shares: a list of points, the card at the end, and the exception that Validate sees."""

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar

from helpers.feedback.card import Card, Line, show
from helpers.feedback.progress import remember
from helpers.missed import Missed
from helpers.probes.capture import captured
from helpers.probes.frames import where

__all__ = ["Checklist", "NotYet", "visible_check"]

Value = TypeVar("Value")


class NotYet(Exception):
    """A visible check that has something to say; the card above it says what. It keeps nbgrader's Validate honest."""

    def _render_traceback_(self) -> list[str]:
        """IPython's hook: one line in place of a traceback into code that the student did not write."""
        return [f"NotYet: {self}"]


class _Stop(Exception):
    """Ends a check at a point that the following ones need."""


class Checklist:
    """The points of one check, in order. `verify` goes on after a miss, `require` ends the check there."""

    def __init__(self, title: str) -> None:
        self.card = Card(title)

    def verify(self, title: str, point: Callable[[], str | None]) -> bool:
        """Run `point`, which returns its evidence or raises Missed; return whether it was kept."""
        try:
            self.card.lines.append(Line(True, title, point() or ""))
        except Missed as missed:
            self.card.lines.append(Line(False, title, missed=missed))
        return self.card.lines[-1].ok

    def require(self, title: str, point: Callable[[], str | None]) -> None:
        """Like `verify`, but the check ends here where it is missed, since what follows would fail for that reason."""
        if not self.verify(title, point):
            raise _Stop

    def call(self, title: str, function: Callable[..., Value], *args: Any, **kwargs: Any) -> Value:
        """Call the student's function, its output captured, and return what it returns; end the check if it raises."""
        try:
            with captured() as output:
                value = function(*args, **kwargs)
        except (Exception, SystemExit) as error:
            missed = _raised(function, error, output.text)
            self.card.lines.append(Line(False, title, missed=missed))
            raise _Stop from error
        self.card.lines.append(Line(True, title))
        return value


def _raised(function: Callable[..., Any], error: BaseException, output: str) -> Missed:
    name = getattr(function, "__name__", repr(function))
    if type(error) is NotImplementedError:  # not what is derived from it, such as the CPU engine's UnsupportedError
        return Missed(f"{name} to be written", "the TODO is still there", f"fill in {name} above, then run this again")
    line = where(error, most=1)
    place = f" ({line})" if line else ""
    said = f"; it printed: {output.strip()[-300:]}" if output.strip() else ""
    found = f"{type(error).__name__}: {str(error) or 'without a message'}{place}{said}"
    return Missed(f"{name} to run without an exception", found, "call it in a cell of its own to see the traceback")


def visible_check(step: str, title: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Turn `check(checklist, student's function, …)` into a visible check of `step`.

    It shows the card, remembers the outcome for `feedback.progress()`, and raises NotYet where a point was missed.
    While nbgrader grades it does nothing: the hidden checks decide there, and the time is theirs.
    """

    def decorate(check: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(check)
        def run(*args: Any, **kwargs: Any) -> None:
            if os.environ.get("NBGRADER_EXECUTION") == "autograde":
                return
            checklist = Checklist(title)
            try:
                check(checklist, *args, **kwargs)
            except _Stop:
                pass
            show(checklist.card)
            remember(step, check.__name__, checklist.card.ok)
            if not checklist.card.ok:
                missed = sum(not line.ok for line in checklist.card.lines)
                if os.environ.get("NBGRADER_EXECUTION") == "validate":  # Validate shows the exception, not the card
                    raise NotYet(str(checklist.card)) from None
                raise NotYet(f"{title}: {missed} point{'s' if missed > 1 else ''} to mend, named above") from None

        return run

    return decorate
