"""Checks a function of the notebook that times a model: compares its figures with the model's own log.

The model belongs to the judge (helpers/checks/probes/timed_calls.py) and runs on a simulated clock, which the student's
function reads as time.perf_counter. So its times are exact, and nothing disturbs them.

    found = timed(case, "benchmark_latency", time_latency, {"durations_ms": [2.0, 3.0]}, calls=(300, 10), batch=2)
    found.in_ms("median"), found.times()          # the function's figure, and the true times
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
"""Relative error allowed in a figure: more than reading the clock takes, less than the gaps in `spread`."""

BRIEF = {"durations_ms": [0.3337]}
"""A model whose median shows a wrong unit or rounding."""

EARLY: dict[str, Any] = {"durations_ms": [3.0, 3.5, 2.5], "asynchronous": True, "in_call": [0.25, 1, 0], "queue": 40}
"""A model whose calls return before their work is done, each with another share of it done."""

_EARLY_MS = 3.0

SLOW_AT_FIRST = {"durations_ms": [2.5], "first_ms": [40.0] * 5}
"""A model whose first five calls are slow, as in a warm-up."""


class Ran(TypedDict):
    """The answer of the student's side of a run."""

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
    """A function's result, and the log of the model that it timed: the last `iterations` calls are the timed ones.

    `log` is TimedModel's; `strangers` counts calls with another input than the given one; `rest` is the probe's whole
    answer.
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
        """Return a statistic by its name; raise Missed if it is not a number."""
        value = self.returned.get(f"{name}_ms") if isinstance(self.returned, dict) else None
        return number(value, f"{name}_ms", self.returned, "return a dictionary with the keys that the task names")

    def in_ms(self, name: str) -> float:
        """Return a statistic in milliseconds, whatever its unit: a wrong unit loses a point of its own."""
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
    """Have a probe run `function` on a TimedModel with the arguments `model`; return its result and the model's log.

    `calls` are the numbers of timed calls and of warm-up calls.

    Raises:
        Missed: it raised, does not end, never calls the model, or does not read time.perf_counter.
    """
    reply = case.call(probe, serves=partial(ServedModel, model=model, limit_s=PATIENCE_S), **asked)
    found, own = reply.require(function), reply.served
    result = Timed(found["returned"], own.log(), own.strangers, found, *calls)
    if not result.calls or not found["followed"]:
        text = f"{result.calls} calls" + ", and time.perf_counter not read" * (not found["followed"])
        advice = "call the model and read time.perf_counter inside the function"
        raise Missed(f"{function} to call the model, timed by time.perf_counter", text, advice)
    return result


def number(value: Any, name: str, given: Any, advice: str) -> float:
    """Return a finite number, or raise Missed."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise Missed(f"a number for {name}", short(given if value is None else value), advice)
    return float(value)


def spread(case: Case, purpose: str, count: int) -> list[float]:
    """Return `count` times from 1 to 1000 ms in random order, no two of them close together."""
    random = case.random(purpose)
    steps = (np.arange(count) + random.uniform(-0.15, 0.15, count)) / (count - 1)
    return random.permutation(1e3**steps).tolist()


def near(name: str, found: float, low: float, high: float, advice: str) -> str:
    """Return evidence that a figure lies between two values, or raise Missed."""
    if not low * (1 - SLACK) <= found <= high * (1 + SLACK):
        truth = f"{low:.3f}" if high <= low * (1 + SLACK) else f"{low:.3f} to {high:.3f}"
        raise Missed(f"{name} of {truth} ms, the model's true value", f"{found:.4g} ms", advice)
    return f"{name} {found:.3f} ms"


def rank_is(found: Timed, name: str, percent: int, advice: str) -> str:
    """Return evidence that a figure is this percentile of the timed calls by any usual definition."""
    ordered, rank = np.sort(found.times()), found.times().size * percent / 100
    low, high = max(math.floor(rank) - 1, 0), min(math.ceil(rank), ordered.size - 1)
    return near(name, found.in_ms(name), float(ordered[low]), float(ordered[high]), advice)


def milliseconds(found: Timed) -> str:
    """Return evidence that the median of a BRIEF model is in milliseconds and not rounded."""
    (truth,) = BRIEF["durations_ms"]
    advice = "give milliseconds, and do not round: networks can be this fast"
    return near("median", found.figure("median"), truth, truth + 0.005, advice)


def called(found: Timed) -> str:
    """Return evidence that the model was called as often as requested."""
    what = f"warmup={found.warmup} and {found.iterations} iterations"
    right = {"calls of the model": found.warmup + found.iterations}
    agree({"calls of the model": found.calls}, right, what, "call the model warmup times, then once per iteration")
    return f"{found.calls} calls"


def warm_up_left_out(found: Timed, name: str) -> str:
    """Return evidence that a figure of a SLOW_AT_FIRST model leaves its five warm-up calls out."""
    (truth,) = SLOW_AT_FIRST["durations_ms"]
    advice = "run the warm-up before you start the clock, and leave it out of the statistics"
    return near(name, found.in_ms(name), truth, truth, advice)


def until_done(found: Timed) -> str:
    """Return evidence that each call of an EARLY model was timed until its work was done."""
    advice = "in every iteration, synchronize after the call and before you read the clock"
    return near("median, until the work is done,", found.in_ms("median"), _EARLY_MS, _EARLY_MS, advice)


def warm_up_waited_for(found: Timed) -> str:
    """Return evidence of a synchronisation between the warm-up and the first timed call."""
    before = found.calls - found.iterations
    if before < 1 or not {before, found.warmup} & set(found.log["waits"]):
        raise Missed(
            "a synchronisation between the warm-up and the first timed call",
            "none: the warm-up was still running",
            "synchronize after the warm-up, before the first timed call",
        )
    return f"synchronised after call {before}"
