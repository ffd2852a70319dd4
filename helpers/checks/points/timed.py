"""A function of the notebook that takes the time of a model: what it says is compared with what the model saw.

The model is the judge's own (helpers/checks/probes/timed_calls.py) and lives by a simulated clock, which the student's
function reads as time.perf_counter: exact, and nothing disturbs it.

    found = timed(case, "benchmark_latency", time_latency, {"durations_ms": [2.0, 3.0]}, calls=(300, 10), batch=2)
    found.in_ms("median"), found.times()          # what the function says, and what is true
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypedDict

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.pure import agree, plain, short
from helpers.checks.probes.answer import Notebook
from helpers.checks.probes.timed_calls import ServedModel, StandIn
from helpers.toys.clock import SimulatedClock

PATIENCE_S = 200.0
"""Seconds of the model's clock after which a function is stopped."""

SLACK = 0.002
"""Of a figure: above what reading the clock takes, below the distance of two neighbours in `spread`."""

BRIEF = {"durations_ms": [0.3337]}
"""A model whose median shows the unit, and whether it was rounded."""

EARLY: dict[str, Any] = {"durations_ms": [3.0, 3.5, 2.5], "asynchronous": True, "in_call": [0.25, 1, 0], "queue": 40}
"""A model whose calls return early, each with another share of its work done."""

_EARLY_MS = 3.0

SLOW_AT_FIRST = {"durations_ms": [2.5], "first_ms": [40.0] * 5}
"""A model whose first five calls are for the warm-up."""


class Ran(TypedDict):
    """What the student's half of a run answers."""

    returned: Any
    followed: bool


def ran(notebook: Notebook, function: Any, run: Callable[[StandIn], Any], **given: Any) -> Ran:
    """Run with a stand-in of the judge's model (StandIn's `given`), on a clock that `function` reads."""
    clock = SimulatedClock(PATIENCE_S)
    with clock.read_by(function):
        returned = run(StandIn(notebook, clock, **given))
    return {"returned": plain(returned), "followed": clock.followed}


@dataclass(frozen=True)
class Timed:
    """What a function returned, and what the model that it timed saw: the last `iterations` calls are the timed ones.

    `log` is TimedModel's; `strangers` counts the calls with another input than the one they were to get; `rest` is all
    that the probe answered.
    """

    returned: Any
    log: dict[str, Any]
    strangers: int
    rest: Any
    iterations: int = 0
    warmup: int = 0

    @property
    def calls(self) -> int:
        """How often the model was called."""
        return len(self.log["start_s"])

    def times(self) -> np.ndarray:
        """Return the true milliseconds of the timed calls."""
        return ((self.log["end_s"] - self.log["start_s"]) * 1e3)[-self.iterations :]

    def figure(self, name: str) -> float:
        """Return a statistic by its name; raise Missed where it is no number."""
        value = self.returned.get(f"{name}_ms") if isinstance(self.returned, dict) else None
        return number(value, f"{name}_ms", self.returned, "return a dictionary with the keys that the task names")

    def in_ms(self, name: str) -> float:
        """Return a statistic in milliseconds, whatever unit it came in: a wrong one costs its own point."""
        median = self.figure("median")
        factor = 1e3 ** round(math.log(float(np.median(self.times())) / median, 1e3)) if median > 0 else 1.0
        return factor * self.figure(name)


def timed(
    case: Case,
    function: str,
    probe: Any,
    model: dict[str, Any],
    *,
    calls: tuple[int, int] = (0, 0),
    **asked: Any,
) -> Timed:
    """Return what `function` says of a TimedModel of these arguments, by a probe that gives Ran, and what that saw.

    `calls` are how many it is to time, and how many to make before.

    Raises:
        Missed: it raised, does not end, never calls the model, or reads no clock that can be simulated.
    """
    reply = case.call(probe, serves=partial(ServedModel, model=model, limit_s=PATIENCE_S), **asked)
    found, own = reply.require(function), reply.served
    result = Timed(found["returned"], own.log(), own.strangers, found, *calls)
    if not result.calls or not found["followed"]:
        text = f"{result.calls} calls" + ", and another clock or none" * (not found["followed"])
        raise Missed(f"{function} to call the model, timed by time.perf_counter", text, "read it inside the function")
    return result


def number(value: Any, name: str, given: Any, advice: str) -> float:
    """Return a finite number; raise Missed where it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise Missed(f"a number as {name}", short(given if value is None else value), advice)
    return float(value)


def spread(case: Case, purpose: str, count: int) -> list[float]:
    """Return `count` times from 1 to 1000 ms in random order, no two of them near each other."""
    random = case.random(purpose)
    steps = (np.arange(count) + random.uniform(-0.15, 0.15, count)) / (count - 1)
    return random.permutation(1e3**steps).tolist()


def near(name: str, found: float, low: float, high: float, advice: str) -> str:
    """Return evidence that a figure lies between two values; raise Missed where it does not."""
    if not low * (1 - SLACK) <= found <= high * (1 + SLACK):
        truth = f"{low:.3f}" if high <= low * (1 + SLACK) else f"{low:.3f} to {high:.3f}"
        raise Missed(f"{name} of {truth} ms, as the model has it", f"{found:.4g} ms", advice)
    return f"{name} {found:.3f} ms"


def rank_is(found: Timed, name: str, percent: int, advice: str) -> str:
    """Return evidence that a figure is this percentile of the timed calls by any usual definition."""
    ordered, rank = np.sort(found.times()), found.times().size * percent / 100
    low, high = max(math.floor(rank) - 1, 0), min(math.ceil(rank), ordered.size - 1)
    return near(name, found.in_ms(name), float(ordered[low]), float(ordered[high]), advice)


def milliseconds(found: Timed) -> str:
    """Return evidence that the median of a BRIEF model is in milliseconds, and was not rounded."""
    (truth,) = BRIEF["durations_ms"]
    advice = "time.perf_counter counts seconds; a millisecond is a thousandth; do not round: networks can be this fast"
    return near("median", found.figure("median"), truth, truth + 0.005, advice)


def called(found: Timed) -> str:
    """Return evidence that the model was called as often as it was asked for."""
    what = f"the calls of the model with warmup={found.warmup} and {found.iterations} iterations"
    agree(found.calls, found.warmup + found.iterations, what, "warmup calls first, then one in each iteration")
    return f"{found.calls} calls"


def warm_up_left_out(found: Timed, name: str) -> str:
    """Return evidence that a figure of a SLOW_AT_FIRST model, after five calls to warm up, is that of the others."""
    (truth,) = SLOW_AT_FIRST["durations_ms"]
    advice = "run the warm-up before the clock starts, and count only what follows"
    return near(name, found.in_ms(name), truth, truth, advice)


def until_done(found: Timed) -> str:
    """Return evidence that each call of an EARLY model was timed until its work was done."""
    advice = "call, synchronize, and only then read the clock, in every iteration"
    return near("a median, until the work is done,", found.in_ms("median"), _EARLY_MS, _EARLY_MS, advice)


def warm_up_waited_for(found: Timed) -> str:
    """Return evidence that somebody waited between the warm-up and the first timed call."""
    before = found.calls - found.iterations
    if before < 1 or not {before, found.warmup} & set(found.log["waits"]):
        raise Missed(
            "a wait between the warm-up and the first timed call",
            "none: its work was still under way",
            "synchronize after the warm-up too",
        )
    return f"a wait after call {before}"
