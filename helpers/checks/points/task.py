"""A point of a task, declared once: its id, worth, title and predicate.

    LOOP = Task("evaluate_accuracy", check="check_accuracy", takes=("evaluate_accuracy",))

    @LOOP.point("accuracy.top1", 1.5, "Top-1 is exact on known answers")
    def top1(case: Case) -> str: ...                 # returns its evidence, or raises Missed

What only the grader can check is declared in solutions/checks, in the same form:

    @RESULTS.hidden("accuracy.figures", 3, "The figures match these engines")
    def figures(case: Case) -> Earned: ...

    @top1.in_grading                                 # the grader asks this instead of the visible predicate
    def measured(case: Case) -> str: ...
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.course.steps import CELLS


@dataclass(frozen=True)
class Earned:
    """A share of a point's worth, 0 to 1, with the evidence; `missed` explains what was lost."""

    share: float
    evidence: str
    missed: Missed | None = None


Judge = Callable[[Case], str | Earned]


def shared(parts: Sequence[Callable[[], str | Earned]]) -> Earned:
    """Run the parts of a point: each earns the same share, and the first message is kept."""
    found = [told(judge) for judge in parts]
    missed = next((part.missed for part in found if part.missed), None)
    evidence = "; ".join(part.evidence for part in found if part.evidence)
    return Earned(sum(part.share for part in found) / len(found), evidence, missed)


def told(judge: Callable[[], str | Earned]) -> Earned:
    """Return what a predicate earns: nothing if it raises Missed."""
    try:
        outcome = judge()
    except Missed as missed:
        return Earned(0.0, "", missed)
    return outcome if isinstance(outcome, Earned) else Earned(1.0, outcome)


@dataclass(eq=False)
class Point:
    """One point as declared.

    `visible`: the task's check in the notebook asks it too. `reported`: why the grader must believe the student's own
    process here, which could lie; empty if the grader sees it from outside (docs/security.md).
    """

    name: str
    worth: float
    title: str
    judge: Judge
    cell: str = ""
    visible: bool = True
    reported: str = ""
    graded: Judge | None = None

    def __call__(self, case: Case) -> str | Earned:
        """Return the evidence of the predicate that a notebook's check asks.

        Raises:
            Missed: the work does not do it.
        """
        return self.judge(case)

    @property
    def asked(self) -> Judge:
        """The predicate that the grader asks."""
        return self.graded or self.judge

    def in_grading(self, judge: Judge) -> Judge:
        """Have the grader ask `judge` for this point instead of the visible predicate."""
        self.graded = judge
        return judge


@dataclass(eq=False)
class Task:
    """What a student writes for one test cell, its visible check, and its points in the order they are asked.

    A notebook calls the check as `feedback.<check>(…)`, with the functions or classes that `takes` names, in order.
    """

    cell: str
    title: str = ""
    check: str = ""
    takes: tuple[str, ...] = ()
    points: list[Point] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.title = self.title or CELLS[self.cell].title

    @property
    def step(self) -> str:
        """The step of the test cell."""
        return CELLS[self.cell].step

    @property
    def visible(self) -> list[Point]:
        """The points that the visible check asks."""
        return [point for point in self.points if point.visible]

    def point(self, name: str, worth: float, title: str, reported: str = "") -> Callable[[Judge], Point]:
        """Make the decorated predicate a point that the visible check asks, too."""
        return lambda judge: self._add(Point(name, worth, title, judge, self.cell, reported=reported))

    def hidden(self, name: str, worth: float, title: str, reported: str = "") -> Callable[[Judge], Point]:
        """Make the decorated predicate a point that only the grader asks."""
        return lambda judge: self._add(Point(name, worth, title, judge, self.cell, False, reported))

    def _add(self, point: Point) -> Point:
        self.points.append(point)
        return point
