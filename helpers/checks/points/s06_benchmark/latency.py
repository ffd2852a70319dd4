"""The points of benchmark_latency(model, input_data, num_iterations=1000, warmup=10)."""

from typing import Any

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.task import Task
from helpers.checks.points.timed import (
    BRIEF,
    EARLY,
    SLOW_AT_FIRST,
    Ran,
    Timed,
    called,
    milliseconds,
    near,
    ran,
    rank_is,
    spread,
    timed,
    until_done,
    warm_up_left_out,
    warm_up_waited_for,
)
from helpers.checks.probes.answer import Notebook, probe
from helpers.toys.networks import EDGE

FUNCTION = "benchmark_latency"
_ITERATIONS, _WARM_UP = 1000, 10
STATISTICS = ("mean_ms", "median_ms", "p95_ms", "p99_ms", "std_ms")
PROMISES = (
    f"benchmark_latency(model, input_data, num_iterations={_ITERATIONS}, warmup={_WARM_UP})",
    ", ".join(f"`{name}`" for name in STATISTICS),
    "It must also work with `num_iterations=1`, with `warmup=0` and with `input_data=None`",
)

SHAPE = (3, EDGE, EDGE)
"""Channels, height and width of the images."""

LATENCY = Task("benchmark_latency", check="check_latency", takes=(FUNCTION,))

_EVEN = {"durations_ms": [70.0]}
"""A thousand calls take long enough to show a function that stops after some seconds."""


@probe
def time_latency(notebook: Notebook, *, batch: int, iterations: int, warmup: int) -> Ran:
    """Call benchmark_latency with the served model and `batch` images, or None for 0."""
    function, given = notebook[FUNCTION], np.zeros((batch, *SHAPE), np.float32) if batch else None
    return ran(notebook, function, lambda model: function(model, given, iterations, warmup), given=given)


def _timed(case: Case, model: dict[str, Any], iterations: int, warmup: int = 0, batch: int = 2) -> Timed:
    return timed(
        case,
        FUNCTION,
        time_latency,
        model,
        calls=(iterations, warmup),
        batch=batch,
        iterations=iterations,
        warmup=warmup,
    )


def _many(case: Case) -> Timed:
    """Time several hundred calls with a long tail."""
    number = 100 * int(case.random("latency.many").integers(6, 10))
    return _timed(case, {"durations_ms": spread(case, "latency.times", number)}, number)


@LATENCY.point("latency.mean_median", 1.25, "Mean and median are right")
def mean_median(case: Case) -> str:
    drawn = case.random("latency.few").uniform(0.9, 1.1) * np.array([20.0, 90.0, 200.0, 40.0, 60.0])
    found = _timed(case, {"durations_ms": drawn.tolist()}, 5)
    mean, median = float(found.times().mean()), float(np.median(found.times()))
    said = near("mean", found.in_ms("mean"), mean, mean, "divide the sum of the latencies by their number")
    hint = "take the middle one of the sorted latencies, not their mean"
    return f"{said}; {near('median', found.in_ms('median'), median, median, hint)}"


@LATENCY.point("latency.percentiles", 1.25, "p95 and p99 are right")
def percentiles(case: Case) -> str:
    found = _many(case)
    hints = {
        percent: f"take the one that {percent} % do not exceed: sort numbers, or give np.percentile {percent}"
        for percent in (95, 99)
    }
    return "; ".join(rank_is(found, f"p{percent}", percent, hint) for percent, hint in hints.items())


@LATENCY.point("latency.std", 0.5, "The standard deviation is right")
def std(case: Case) -> str:
    found, right = _many(case), float(_many(case).times().std())  # for so many calls, by either definition
    advice = "give the standard deviation of the latencies, not its square, nor the error of their mean"
    return near("std", found.in_ms("std"), right, right, advice)


@LATENCY.point("latency.milliseconds", 0.5, "The figures are in milliseconds, not rounded")
def figures_in_ms(case: Case) -> str:
    return milliseconds(_timed(case, BRIEF, 5))


def _asked(case: Case) -> tuple[int, int]:
    random = case.random("latency.calls")
    return int(random.integers(15, 30)), int(random.integers(3, 9))


@LATENCY.point("latency.calls", 1, "The model runs warmup + num_iterations times")
def calls(case: Case) -> str:
    found = [_timed(case, _EVEN, *counts) for counts in (_asked(case), (_ITERATIONS, _WARM_UP))]
    return ", ".join(map(called, [*found, _timed(case, _EVEN, 1, batch=0)]))


@LATENCY.point(
    "latency.input",
    0.25,
    "Each call gets input_data itself",
    reported="the object that the model is called with: the arrays never leave the student's process",
)
def given_input(case: Case) -> str:
    found = _timed(case, _EVEN, *_asked(case))
    if found.strangers:
        text = f"another array in {found.strangers} of {found.calls} calls"
        raise Missed("each call to get input_data itself, warm-up included", text, "pass input_data to every call")
    return f"{found.calls} calls with input_data"


@LATENCY.point("latency.warm_up", 0.75, "The warm-up is not in the statistics")
def warm_up(case: Case) -> str:
    return warm_up_left_out(_timed(case, SLOW_AT_FIRST, 4, 5), "mean")


@LATENCY.point("latency.synchronized", 0.75, "Each latency ends when the work is done")
def synchronized(case: Case) -> str:
    return until_done(_timed(case, EARLY, 30, 6))


@LATENCY.point("latency.warm_up_ends", 0.25, "The warm-up is over before the clock starts")
def warm_up_ends(case: Case) -> str:
    return warm_up_waited_for(_timed(case, EARLY, 30, 6))
