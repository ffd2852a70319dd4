"""A point, and a visible check: the points that one call in a notebook looks at.

@point("The workspace is limited to 2 GB")
def workspace(case: Case) -> str: ...              # returns its evidence, or raises Missed
"""

from collections.abc import Callable
from dataclasses import dataclass

from helpers.points.case import Case

__all__ = ["Check", "Judge", "Point", "point"]

Judge = Callable[[Case], str]


@dataclass(frozen=True)
class Point:
    """One thing that is asked: its title, and the function that judges a case. Calling a point judges."""

    title: str
    judge: Judge

    def __call__(self, case: Case) -> str:
        """Return the evidence.

        Raises:
            Missed: the work does not do it.
        """
        return self.judge(case)


def point(title: str) -> Callable[[Judge], Point]:
    """Turn the decorated function into a point."""
    return lambda judge: Point(title, judge)


@dataclass(frozen=True)
class Check:
    """A visible check; its call in a notebook hands over, in order, what the student calls by the names of `takes`."""

    step: str
    title: str
    takes: tuple[str, ...]
    points: tuple[Point, ...]
