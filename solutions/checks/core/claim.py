"""What a claim is: one thing that earns points, in the test cell that it belongs to.

award("fp16.workspace", 0.75, s02_fp16.workspace, cell="fp16_engine")      # a step's point, on a fresh case

@claim("fp16.speed", cell="fp16_speed", points=3, title="As fast as the reference engine")
def speed(case: Case) -> str:          # what only the trusted side can judge
    ...                                # returns its evidence, or raises Missed (no points)
    return Earned(0.5, "…")            # or a share of the points
"""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from helpers.checks.missed import Missed
from helpers.checks.points.point import Point, Reported
from helpers.checks.points.task import Earned, Judge
from helpers.checks.points.task import Point as TaskPoint
from helpers.course.steps import CELLS


def shared(parts: Sequence[Callable[[], "str | Earned"]]) -> Earned:
    """Run the parts of a claim: each earns the same share, and the first thing that one missed is told."""
    found = [_part(judge) for judge in parts]
    missed = next((part.missed for part in found if part.missed), None)
    evidence = "; ".join(part.evidence for part in found if part.evidence)
    return Earned(sum(part.share for part in found) / len(found), evidence, missed)


def _part(judge: Callable[[], "str | Earned"]) -> Earned:
    try:
        outcome = judge()
    except Missed as missed:
        return Earned(0.0, "", missed)
    return outcome if isinstance(outcome, Earned) else Earned(1.0, outcome)


@dataclass(frozen=True)
class Claim:
    """One thing that is claimed of a submission, and what it is worth; `reported` is what nobody else can see."""

    name: str
    cell: str
    points: float
    title: str
    judge: Judge
    reported: Reported | None = None

    @property
    def self_reported(self) -> float:
        """The points of it that the student's side decides by what it says of itself."""
        return self.points * self.reported.share if self.reported else 0.0


_CLAIMS: dict[str, Claim] = {}


def award(name: str, points: float, point: Point, *, cell: str) -> None:
    """Register a step's point as a claim of `cell`, worth `points`; claims run in the order they are registered in."""
    claim(name, cell=cell, points=points, title=point.title, reported=point.reported)(point.judge)


def claim(
    name: str, *, cell: str, points: float, title: str, reported: Reported | None = None
) -> Callable[[Judge], Judge]:
    """Register the decorated function as a claim of `cell`; what it calls must not ask for what `reported` asks for."""

    def register(judge: Judge) -> Judge:
        if cell not in CELLS or name in _CLAIMS:
            raise ValueError(f"claim {name} of cell {cell}: the name is taken or the cell unknown")
        _CLAIMS[name] = Claim(name, cell, points, title, judge, reported)
        return judge

    return register


def claims_of(cell: str) -> list[Claim]:
    """Return the claims of a test cell in order; of the steps' rooms only its own is imported, and registers them."""
    step = CELLS[cell].step
    importlib.import_module(f"solutions.checks.s{step}")  # which adds the hidden points to the room's tasks
    tasks = getattr(importlib.import_module(f"helpers.checks.points.s{step}"), "TASKS", ())
    old = [found for found in _CLAIMS.values() if found.cell == cell]
    return old + [_claim(cell, point) for task in tasks if task.cell == cell for point in task.points]


def _claim(cell: str, point: TaskPoint) -> Claim:
    reported = Reported(point.reported) if point.reported else None
    return Claim(point.name, cell, point.worth, point.title, point.graded or point.judge, reported)
