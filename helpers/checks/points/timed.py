"""A function of the notebook that takes the time of a model: what it says is compared with what the model saw.

The model is the judge's own (helpers/checks/probes/timed_calls.py) and lives by a simulated clock, which the student's
function reads as time.perf_counter: exact, and nothing disturbs it.

    found = timed(case, "benchmark_latency", time_latency, {"durations_ms": spread(case, "figures", 300)}, batch=2)
    found.in_ms("median"), found.times()          # what the function says, and what is true
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypedDict

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.pure import plain, short
from helpers.checks.probes.answer import Notebook
from helpers.checks.probes.timed_calls import ServedModel, StandIn
from helpers.toys.clock import SimulatedClock, StillRunningError

PATIENCE_S = 1000.0
"""Seconds of the model's clock after which a function is stopped."""

SLACK = 0.002
"""Of a figure: above what reading the clock takes, below the distance of two neighbours in `spread`."""

_UNTIL_DONE = "call, synchronize, and only then read the clock, in every iteration"


class Ran(TypedDict):
    """What the student's half of a run answers."""

    returned: Any
    stopped: bool
    followed: bool


def ran(
    notebook: Notebook, function: Any, run: Callable[[StandIn], Any], patience_s: float = PATIENCE_S, **given: Any
) -> Ran:
    """Run with a stand-in of the judge's model (StandIn's `given`), on a clock that `function` reads."""
    clock, returned, stopped = SimulatedClock(patience_s), None, False
    try:
        with clock.read_by(function):
            returned = run(StandIn(notebook, clock, **given))
    except StillRunningError:
        stopped = True
    return {"returned": plain(returned), "stopped": stopped, "followed": clock.followed}


@dataclass(frozen=True)
class Timed:
    """What a function returned, and what the model that it timed saw: the last `iterations` calls are the timed ones.

    `log` is TimedModel's; `strangers` counts the calls with another input than the one they were to get; `rest` is what
    else the probe answered.
    """

    returned: Any
    log: dict[str, Any]
    strangers: int
    rest: dict[str, Any]
    iterations: int = 0
    warmup: int = 0

    @property
    def calls(self) -> int:
        """How often the model was called."""
        return len(self.log["start_s"])

    def times(self, until: str = "end_s") -> np.ndarray:
        """Return the true milliseconds of the timed calls: until the call returned, or until `waited_s`."""
        first = -self.iterations if self.calls >= self.iterations else min(self.warmup, self.calls - 1)
        return ((self.log[until] - self.log["start_s"]) * 1e3)[first:]

    def figure(self, name: str) -> float:
        """Return a statistic by its name, with or without _ms; raise Missed where it is no number."""
        given = self.returned if isinstance(self.returned, dict) else {"": self.returned}
        value = given.get(f"{name}_ms", given.get(name))
        return number(value, f"{name}_ms", given, "return a dictionary with the keys that the task names")

    @property
    def factor(self) -> float:
        """What turns the figures into milliseconds, whatever unit they came in: a wrong one costs its own point."""
        median = self.figure("median")
        return 1e3 ** round(math.log(float(np.median(self.times())) / median, 1e3)) if median > 0 else 1.0

    def in_ms(self, name: str) -> float:
        """Return a statistic in milliseconds, whatever unit it came in."""
        return self.factor * self.figure(name)


def timed(
    case: Case, function: str, probe: Any, model: dict[str, Any], patience_s: float = PATIENCE_S, **asked: Any
) -> Timed:
    """Return what `function` says of a TimedModel of these arguments, by a probe that gives Ran, and what that saw.

    Raises:
        Missed: it raised, does not end, never calls the model, or reads no clock that can be simulated.
    """
    serves = partial(ServedModel, model=model, limit_s=patience_s)
    reply = case.call(probe, serves=serves, patience_s=patience_s, **asked)
    found, own = dict(reply.require(function)), reply.served
    result = Timed(found.pop("returned"), own.log(), own.strangers, found)
    if found["stopped"] or own.stopped:
        advice = "let what was asked for, a number or a time, end the loop"
        raise Missed(f"{function} to return", f"still running after {result.calls} calls of the model", advice)
    if not result.calls or not found["followed"]:
        text = f"{result.calls} calls" + ", and another clock or none" * (not found["followed"])
        raise Missed(f"{function} to call the model, timed by time.perf_counter", text, "read it inside the function")
    return result


def counted(found: Timed, iterations: int, warmup: int) -> Timed:
    """Return a run of which so many calls were to be timed, after so many to warm up."""
    return replace(found, iterations=iterations, warmup=warmup)


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
        raise Missed(f"{name} of {truth} ms, as the model has it", f"{found:.3f} ms", advice)
    return f"{name} {found:.3f} ms"


def rank_is(found: Timed, name: str, percent: int, advice: str) -> str:
    """Return evidence that a figure is this percentile of the timed calls by any usual definition."""
    ordered, rank = np.sort(found.times()), found.times().size * percent / 100
    low, high = max(math.floor(rank) - 1, 0), min(math.ceil(rank), ordered.size - 1)
    return near(name, found.in_ms(name), float(ordered[low]), float(ordered[high]), advice)


def milliseconds(found: Timed) -> str:
    """Return evidence that the median is in milliseconds, and was not rounded."""
    truth, median = float(np.median(found.times())), found.figure("median")
    if not 0.1 * truth < median < 10 * truth:
        hint = "time.perf_counter counts seconds; a millisecond is a thousandth"
        raise Missed(f"a median near {truth:.2f}, in milliseconds", f"{median:.6g}", hint)
    if round(median, 2) == median:
        advice = "do not round: a call of a small network on a GPU takes a fraction of a millisecond"
        raise Missed(f"the median as it was computed, near {truth:.4f} ms", f"{median}", advice)
    return f"median {median:.3f} ms"


def called(found: Timed) -> str:
    """Return evidence that the model was called as often as it was asked for."""
    expected = found.warmup + found.iterations
    if found.calls != expected:
        text = f"{expected} calls with warmup={found.warmup} and {found.iterations} iterations"
        raise Missed(text, f"{found.calls}", "warmup calls first, then one in each iteration")
    found.figure("median")
    return f"{found.calls} calls"


def warmed_up(name: str, found: float, without: float) -> str:
    """Return evidence that a figure is the same with slow first calls as `without`, since the warm-up has them."""
    if not 0.75 * without < found < 1.3 * without:
        expected = f"{name} near {without:.4g}, as without the slow first calls that the warm-up is for"
        advice = "run the warm-up before the clock starts, and count only what follows"
        raise Missed(expected, f"{found:.4g}", advice)
    return f"{name} {found:.4g}, slow first calls or not"


def until_done(found: Timed, name: str, factor: float) -> str:
    """Return evidence that each call of an asynchronous model was timed until its work was done.

    `factor` turns the figures into milliseconds.
    """
    truth, said = float(found.times("waited_s").mean()), factor * found.figure(name)
    if math.isnan(truth):
        raise Missed("a wait after each timed call of a model that returns early", "calls without one", _UNTIL_DONE)
    if not 0.9 * truth < said < 1.1 * truth:
        raise Missed(f"a {name} near {truth:.2f} ms, until the work is done", f"{said:.4f} ms", _UNTIL_DONE)
    return f"{name} {said:.2f} ms of calls that return early"


def warm_up_waited_for(found: Timed) -> str:
    """Return evidence that somebody waited between the warm-up and the first timed call."""
    before = found.calls - found.iterations
    if before < 1 or not {before, found.warmup} & set(found.log["waits"]):
        text = "no warm-up" if before < 1 else "none: its work was still under way"
        raise Missed("a wait between the warm-up and the first timed call", text, "synchronize after the warm-up too")
    return f"a wait after call {before}"
