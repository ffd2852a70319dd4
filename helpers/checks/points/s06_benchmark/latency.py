"""What is asked of benchmark_latency(model, input_data, num_iterations=1000, warmup=10)."""

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.task import Task
from helpers.checks.points.timed import (
    Ran,
    Timed,
    called,
    counted,
    milliseconds,
    near,
    ran,
    rank_is,
    spread,
    timed,
    until_done,
    warm_up_waited_for,
    warmed_up,
)
from helpers.checks.probes.answer import Notebook, probe
from helpers.toys.networks import EDGE

FUNCTION = "benchmark_latency"
ITERATIONS, WARM_UP = 1000, 10
STATISTICS = ("mean_ms", "median_ms", "p95_ms", "p99_ms", "std_ms")
PROMISES = (
    f"benchmark_latency(model, input_data, num_iterations={ITERATIONS}, warmup={WARM_UP})",
    ", ".join(f"`{name}`" for name in STATISTICS),
    "It must also work with `num_iterations=1`, with `warmup=0` and with `input_data=None`",
)

SHAPE = (3, EDGE, EDGE)
"""Channels, height and width of the images."""

LATENCY = Task("benchmark_latency", check="check_latency", takes=(FUNCTION,))

_DEFAULT_MS = 70.0  # a thousand of them: who stops after some seconds is seen
_SLOW_CALLS, _ASYNCHRONOUS_CALLS = 5, 30
_IN_CALL = (0.0, 0.5, 0.25, 0.5, 1.0)
"""The share of its work that an asynchronous call does itself, by turns."""


@probe
def time_latency(notebook: Notebook, *, batch: int | None, counts: dict[str, int], patience_s: float) -> Ran:
    """Call benchmark_latency with the served model and `batch` images, None without; `counts`: what is no default."""
    function, given = notebook[FUNCTION], None
    if batch is not None:
        given = np.random.default_rng(batch).standard_normal((batch, *SHAPE), dtype=np.float32)
    return ran(notebook, function, lambda model: function(model, given, **counts), patience_s, given=given)


def _timed(case: Case, counts: dict[str, int], batch: int | None = 2, **model: object) -> Timed:
    name = FUNCTION if batch else f"{FUNCTION}(model, None, {', '.join(f'{key}={counts[key]}' for key in counts)})"
    found = timed(case, name, time_latency, model, batch=batch, counts=counts)
    return counted(found, counts.get("num_iterations", ITERATIONS), counts.get("warmup", WARM_UP))


def _few(case: Case) -> Timed:
    """Time five calls that differ so much that one more or one less shows in their mean."""
    times = case.random("latency.few").uniform(0.9, 1.1) * np.array([20.0, 90.0, 60.0, 40.0, 200.0])
    return _timed(case, {"num_iterations": 5, "warmup": 0}, durations_ms=times.tolist())


def _many(case: Case) -> Timed:
    """Time several hundred calls with a long tail."""
    number = 100 * int(case.random("latency.many").integers(6, 10))
    return _timed(case, {"num_iterations": number, "warmup": 0}, durations_ms=spread(case, "latency.times", number))


@LATENCY.point("latency.mean_median", 1.25, "Mean and median are right")
def mean_median(case: Case) -> str:
    said = []
    for found in (_few(case), _many(case)):
        mean, hint = float(found.times().mean()), "the middle latency of all, when they are sorted; it is not the mean"
        said.append(near("mean", found.in_ms("mean"), mean, mean, "the sum of the latencies over their number"))
        said.append(rank_is(found, "median", 50, hint))
    return "; ".join(said)


@LATENCY.point("latency.percentiles", 1.25, "p95 and p99 are right")
def percentiles(case: Case) -> str:
    found = _many(case)
    hints = {percent: f"{percent} % of the latencies, sorted as numbers, are no longer than it" for percent in (95, 99)}
    return "; ".join(rank_is(found, f"p{percent}", percent, hint) for percent, hint in hints.items())


@LATENCY.point("latency.std", 0.5, "The standard deviation is that of the latencies")
def std(case: Case) -> str:
    found, right = _many(case), float(_many(case).times().std())  # of so many, either definition
    return near("std", found.in_ms("std"), right, right, "the spread of the single latencies, not of their mean")


@LATENCY.point("latency.milliseconds", 0.5, "The figures are milliseconds, not rounded")
def figures_in_ms(case: Case) -> str:
    return milliseconds(_few(case))


def _asked(case: Case) -> dict[str, int]:
    random = case.random("latency.calls")
    return {"num_iterations": int(random.integers(15, 30)), "warmup": int(random.integers(3, 9))}


@LATENCY.point("latency.calls", 1, "The model runs warmup + num_iterations times")
def calls(case: Case) -> str:
    asked = _asked(case)
    found = [_timed(case, counts, durations_ms=[_DEFAULT_MS]) for counts in (asked, {**asked, "warmup": 0}, {})]
    found.append(_timed(case, {"num_iterations": 1, "warmup": 0}, batch=None, durations_ms=[_DEFAULT_MS]))
    return ", ".join(map(called, found))


@LATENCY.point(
    "latency.input",
    0.25,
    "Each call gets input_data itself",
    reported="which object the model is called with: the arrays never leave the student's process",
)
def given_input(case: Case) -> str:
    found = _timed(case, _asked(case), durations_ms=[_DEFAULT_MS])
    if found.strangers:
        text = f"another array in {found.strangers} of {found.calls} calls"
        raise Missed("each call to get input_data itself, warm-up included", text, "pass input_data as it is")
    return f"{found.calls} calls with input_data"


@LATENCY.point("latency.warm_up", 0.75, "The warm-up is not in the statistics")
def warm_up(case: Case) -> str:
    counts, slow = {"num_iterations": 4, "warmup": _SLOW_CALLS}, [40.0] * _SLOW_CALLS
    found, without = (_timed(case, counts, durations_ms=[2.5], first_ms=first) for first in (slow, []))
    return warmed_up("mean", found.figure("mean"), without.figure("mean"))


def _asynchronous(case: Case) -> Timed:
    counts, times = {"num_iterations": _ASYNCHRONOUS_CALLS, "warmup": 4}, [2.5, 3.5, 3.0]
    return _timed(case, counts, durations_ms=times, asynchronous=True, in_call=_IN_CALL, queue=_ASYNCHRONOUS_CALLS)


@LATENCY.point("latency.synchronized", 0.75, "Each time ends when the work is done")
def synchronized(case: Case) -> str:
    return until_done(_asynchronous(case), "mean", _few(case).factor)


@LATENCY.point("latency.warm_up_ends", 0.25, "The warm-up is over before the clock starts")
def warm_up_ends(case: Case) -> str:
    return warm_up_waited_for(_asynchronous(case))
