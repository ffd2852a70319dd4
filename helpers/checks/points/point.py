"""A point, and a visible check: the points that one call in a notebook looks at.

@point("The workspace is limited to 2 GB")
def workspace(case: Case) -> str: ...              # returns its evidence, or raises Missed
"""

from collections.abc import Callable
from dataclasses import dataclass

from helpers.checks.points.case import Case

Judge = Callable[[Case], str]


@dataclass(frozen=True)
class Reported:
    """What of a point only the student's side can say of itself, so that who lies there keeps it.

    `reason` says what that is and why it cannot be seen from outside, for a reader of docs/threat-model-claims.md;
    `share` of the point's worth rests on it, 0 to 1; `judge` asks for it alone, None where it is the whole point.
    """

    reason: str
    share: float = 1.0
    judge: Judge | None = None


@dataclass(frozen=True)
class Point:
    """One thing that is asked: its title, and the function that judges a case. Calling a point judges all of it.

    `judge` goes by what can be seen from outside the student's process, `reported` by what that says of itself.
    """

    title: str
    judge: Judge
    reported: Reported | None = None

    def __call__(self, case: Case) -> str:
        """Return the evidence.

        Raises:
            Missed: the work does not do it.
        """
        evidence = self.judge(case)
        if self.reported and self.reported.judge:
            evidence = f"{evidence}; {self.reported.judge(case)}"
        return evidence


def point(title: str, reported: Reported | None = None) -> Callable[[Judge], Point]:
    """Turn the decorated function into a point."""
    return lambda judge: Point(title, judge, reported)


@dataclass(frozen=True)
class Check:
    """A visible check; its call in a notebook hands over, in order, what the student calls by the names of `takes`."""

    step: str
    title: str
    takes: tuple[str, ...]
    points: tuple[Point, ...]
