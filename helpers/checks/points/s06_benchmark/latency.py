"""What is asked of benchmark_latency(model, input_data, num_iterations=1000, warmup=10)."""

import math
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.point import Reported, point
from helpers.checks.points.s06_benchmark.latency_run import UNITS, Timed
from helpers.checks.points.s06_benchmark.timing import SHAPE, settled, time_latency, timed_reply

FUNCTION = "benchmark_latency"
ITERATIONS, WARM_UP = 1000, 10
STATISTICS = ("mean_ms", "median_ms", "p95_ms", "p99_ms", "std_ms")
PROMISES = (
    f"benchmark_latency(model, input_data, num_iterations={ITERATIONS}, warmup={WARM_UP})",
    ", ".join(f"`{name}`" for name in STATISTICS),
    "It must also work with `num_iterations=1`, with `warmup=0`, and with an `input_data` of `None`",
)

TOLERANCE = 0.01
"""Of every figure: far below what one latency more or less moves, far above what the clock's steps do."""

_FEW, _MANY, _TAIL = (20, 15), (100, 30), (200, 22)
"""Numbers of latencies, and the largest of them over the least.

Multiples of 20, and of 100, are where the definitions of p95, and of p99, lie between two ranks next to each other.
Of a hundred, the upper one is the largest of all, which is no p99: so a tail is judged on twice as many,
each so short that `timed` still tries them in real time.
"""

_LEAST_MS, _FAR, _DISTURBANCE = 2.0, 10.0, 10.0
_SLOW_MS, _SLOW_CALLS = 60.0, 5
_OUTLIERS_MS = [2.0, 40.0, 4.0, 25.0, 6.0, 3.0]
_ASYNCHRONOUS_CALLS, _ASYNCHRONOUS_WARM_UP = 30, 4
_IN_CALL = (0.0, 0.5, 0.25, 0.5, 1.0)
"""The share of its work that a call does itself, by turns: neither call nor wait alone, nor the longer, is its time."""

_RUNS = 3
_RAMP_MS, _DISTURBED = (8.0, 24.0), [100, 400, 700]
"""The first and the last of as many latencies as the default asks for, so that no part of them is a measure of all; and
which of them are `_DISTURBANCE` times as long: they count too."""


def timed(case: Case, attempt: int, *, batch: int | None, counts: dict[str, int], runs: int = 1, **model: Any) -> Timed:
    """Return what benchmark_latency does with a TimedModel of these arguments; raise Missed where it gives nothing."""
    iterations, warmup = counts.get("num_iterations", ITERATIONS), counts.get("warmup", WARM_UP)
    most_s = (sum(model.get("first_ms", ())) + runs * (iterations + warmup) * max(model["durations_ms"])) / 1e3
    asked = {"batch": batch, "counts": counts, "long": most_s > 10, "runs": runs, "attempt": attempt}
    reply, seen = timed_reply(case, time_latency, model, 1 + 5 * most_s, **asked)
    found = reply.require(FUNCTION if batch else f"{FUNCTION}(model, None, {_said(counts)})")
    known = found["known"] or not asked["long"]  # what is done in real time too is always known
    if not known and _called(case, *_asked_calls(case)[0]).simulated:
        raise Missed("the clock that it reads with other counts", "another one", "read time.perf_counter")
    own = {key: seen[key] for key in ("log", "simulated", "strangers")}
    result = Timed(found["numbers"], found["others"], iterations=iterations, known=known, **own)
    if known and (found["stopped"] or seen["stopped"]):
        expected = f"{FUNCTION} to return after {warmup} + {iterations} calls of the model ({_said(counts)})"
        raise Missed(expected, f"still running after {result.calls}", "let num_iterations end the timed loop")
    if known and "" in found["numbers"] | found["others"]:
        advice = f"return a dictionary with {', '.join(STATISTICS)}"
        raise Missed("a dictionary of statistics", f"a {found['type']}", advice)
    return result


def _said(counts: dict[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in counts.items()) or "the defaults"


def _spread(case: Case, number: int, largest: float, attempt: int) -> Timed:
    """Time a model whose latencies are well spaced, in random order, from 2 to more than 10 ms (as text 9.5 > 10.5).

    The one before the first that is timed, that one and the last are near the mean: whoever counts one call more or
    less there loses `calls`, and not the figures too.
    """
    random = case.random(f"latency.spread {number}")
    steps = (np.arange(number) + random.uniform(-0.15, 0.15, number)) / (number - 1)
    durations = random.uniform(0.95, 1.05) * _LEAST_MS * largest**steps
    ordered = durations[np.argsort(abs(durations - durations.mean()))]
    durations = np.concatenate([ordered[:1], random.permutation(ordered[2:]), ordered[1:2]])
    model = {"durations_ms": durations.tolist(), "first_ms": [float(durations.mean())]}
    found = timed(case, attempt, batch=2, counts={"num_iterations": number, "warmup": 1}, **model)
    if found.calls < number:
        expected = f"every timed iteration to run the model: {number} calls or more"
        raise Missed(expected, f"{found.calls} calls", "let the timed loop call the model num_iterations times")
    return found


def _factor(case: Case) -> float:
    """Return what turns the function's figures into milliseconds."""
    return 1e3 ** _spread(case, *_FEW, 0).unit


def _judged(case: Case, size: tuple[int, float], judge: Callable[[Timed], str]) -> str:
    return settled(lambda attempt: _spread(case, *size, attempt), judge)


def _compare(name: str, found: float, low: float, high: float, try_this: str) -> str:
    if not low * (1 - TOLERANCE) <= found <= high * (1 + TOLERANCE):
        truth = f"{low:.3f} ms" if high - low < 0.0005 else f"{low:.3f} to {high:.3f} ms"
        raise Missed(f"{name} within {TOLERANCE:.0%} of the model's own {truth}", f"{found:.3f} ms", try_this)
    return f"{name} {found:.3f} ms"


def _rank_range(times: np.ndarray, percent: int) -> tuple[float, float]:
    """Return the least and largest value that a common definition of a percentile gives, NumPy's thirteen among them.

    Counted from 0 among n ordered times, their ranks lie between one before n·percent/100, rounded down, and that.
    """
    ordered, rank = np.sort(times), len(times) * percent / 100
    low, high = math.floor(rank) - 1, min(rank, len(times) - 1)
    below, above = ordered[math.floor(high)], ordered[math.ceil(high)]
    return float(ordered[max(low, 0)]), float(below + (high - math.floor(high)) * (above - below))


def _mean(times: np.ndarray) -> tuple[float, float]:
    return (float(times.mean()),) * 2


def _mean_median(found: Timed) -> str:
    said = _compare("mean", found.in_ms("mean"), *found.bounds(_mean), "the sum of the latencies over their number")
    hint = "the middle latency, when they are sorted as numbers; it is not the mean"
    median = found.bounds(partial(_rank_range, percent=50))
    return f"{said}; {_compare('median', found.in_ms('median'), *median, hint)}"


def _ramp(case: Case, judge: Callable[[Timed], str]) -> str:
    """Judge the figures of many calls, each longer than the one before, but for the few that something disturbed.

    How many there were is another's matter.
    """
    durations, counts = np.linspace(*_RAMP_MS, ITERATIONS), {"num_iterations": ITERATIONS, "warmup": 1}
    durations[_DISTURBED] *= _DISTURBANCE
    model = {"durations_ms": durations.tolist(), "first_ms": [float(durations.mean())]}
    found = timed(case, 0, batch=2, counts=counts, **model)
    return judge(found) if found.known and found.calls > ITERATIONS else f"not judged with {ITERATIONS}"


@point("Mean and median are right")
def mean_median(case: Case) -> str:
    return "; ".join([_judged(case, size, _mean_median) for size in (_FEW, _MANY)] + [_ramp(case, _mean_median)])


def _percentiles(found: Timed) -> str:
    return "; ".join(
        _compare(
            f"p{percent} of {found.iterations} latencies",
            found.in_ms(f"p{percent}"),
            *found.bounds(partial(_rank_range, percent=percent)),
            f"sorted as numbers, {percent} % of the latencies are no longer than it",
        )
        for percent in (95, 99)
    )


@point("p95 and p99 are right")
def percentiles(case: Case) -> str:
    return "; ".join([_judged(case, size, _percentiles) for size in (_FEW, _TAIL)] + [_ramp(case, _percentiles)])


def _std_range(times: np.ndarray) -> tuple[float, float]:
    return float(times.std()), float(times.std(ddof=1))


def _std(found: Timed) -> str:
    hint = "the spread of single latencies, not of their mean; it does not shrink with more iterations"
    return _compare("std", found.in_ms("std"), *found.bounds(_std_range), hint)


@point("The standard deviation is that of the latencies")
def std(case: Case) -> str:
    return _judged(case, _MANY, _std)


def _milliseconds(found: Timed) -> str:
    truth, median, power = statistics.median(found.times.tolist()), found.figure("median"), found.unit
    if power or not truth / _FAR < median < truth * _FAR:
        unit = f", which would be {UNITS[power]}" if power else ""
        hint = "time.perf_counter counts seconds; a millisecond is a thousandth"
        raise Missed(f"a median near {truth:.2f}, in milliseconds", f"{median:.6g}{unit}", hint)
    if round(median, 2) == median:  # the calls take random times
        advice = "do not round: a call of a small network on a GPU takes a fraction of a millisecond"
        raise Missed(f"the median as it was computed, near {truth:.4f} ms", f"{median:.4f}", advice)
    return f"median {median:.3f} ms"


@point("All figures are milliseconds")
def milliseconds(case: Case) -> str:
    return _judged(case, _FEW, _milliseconds)


def _asked_calls(case: Case) -> list[tuple[dict[str, int], int | None]]:
    """Return counts to ask for, each with the images of the input; the last are the defaults."""
    random = case.random("latency.calls")
    iterations, warmup, batch = (int(random.integers(*bounds)) for bounds in ((15, 30), (3, 9), (2, 5)))
    asked = ({"num_iterations": iterations, "warmup": warmup}, batch), ({"num_iterations": iterations, "warmup": 0}, 1)
    return [*asked, ({"num_iterations": 1, "warmup": 0}, None), ({}, batch)]


def _on_its_input(case: Case) -> str:
    """Return evidence that each call got the input as it is; raise Missed where one did not."""
    asked = _asked_calls(case)
    for counts, batch in asked:
        found = _called(case, counts, batch)
        if not found.known:
            continue
        wrong = [shape for shape in found.log["shapes"] if shape != ([] if batch is None else [batch, *SHAPE])]
        if wrong:
            given = f"input_data {[batch, *SHAPE] if batch else None}"
            raise Missed(f"each call to get {given}", f"an input of shape {wrong[0]}", "pass input_data as it is")
        if found.strangers:
            text = f"another object, such as a copy, in {found.strangers} of {found.calls} calls"
            raise Missed("each call to get input_data, warm-up included", text, "pass input_data as it is")
    return f"input_data itself, with {len(asked)} counts"


@point(
    "The model runs warmup + num_iterations times, each time on input_data",
    Reported("which object the model is called with: an address of the student's process", 0.15, _on_its_input),
)
def calls(case: Case) -> str:
    evidence = [_counted(case, counts, batch) for counts, batch in _asked_calls(case)]
    return "; ".join([*evidence, settled(partial(_outliers, case), _one_more_or_less)])


def _called(case: Case, counts: dict[str, int], batch: int | None) -> Timed:
    """Time a model whose calls are counted; with counts of ours several times in a row."""
    runs = _RUNS if counts else 1
    return timed(case, 0, batch=batch, counts=counts, runs=runs, durations_ms=[400.0 if not counts else 3.0])


def _counted(case: Case, counts: dict[str, int], batch: int | None) -> str:
    """Return evidence that the calls are as many as asked for."""
    found, runs = _called(case, counts, batch), _RUNS if counts else 1
    expected = runs * (counts.get("num_iterations", ITERATIONS) + counts.get("warmup", WARM_UP))
    if not found.known:
        return "the defaults were not tried: it reads a clock that cannot be simulated"
    if found.calls != expected:
        advice = f"warmup calls, then num_iterations timed ones; the defaults are {ITERATIONS} and {WARM_UP}"
        often = f", {runs} times in a row" if runs > 1 else ""
        raise Missed(f"{expected} calls of the model with {_said(counts)}{often}", f"{found.calls}", advice)
    found.figure("mean")
    return f"{found.calls} call{'s' * (found.calls != 1)} with {_said(counts)}{'' if batch else ', input_data=None'}"


def _outliers(case: Case, attempt: int) -> Timed:
    """Time four calls that differ so much that one more or one less shows in their mean."""
    counts = {"num_iterations": len(_OUTLIERS_MS) - 2, "warmup": 2}
    return timed(case, attempt, batch=2, counts=counts, durations_ms=_OUTLIERS_MS)


def _one_more_or_less(found: Timed) -> str:
    if found.calls < len(_OUTLIERS_MS):
        advice = "call the model in every iteration"
        raise Missed(f"{len(_OUTLIERS_MS)} calls of the model", f"{found.calls}", advice)
    mean, (truth, most), number, every = found.in_ms("mean"), found.bounds(_mean), found.iterations, found.true_ms()
    others = [float(chosen.mean()) for chosen in (every[1:], every[3:], every[2:-1])]
    others += [truth * number / (number - 1), truth * number / (number + 1)]
    near = truth * (1 - TOLERANCE) <= mean <= most * (1 + TOLERANCE)
    if any(abs(mean / other - 1) < TOLERANCE for other in others) and not near:
        expected = f"the statistics of the {number} calls after the warm-up, with a mean of {truth:.2f} ms"
        advice = "call the model warmup times without the clock, then time each of num_iterations calls"
        raise Missed(expected, f"{mean:.2f} ms, as if one call more or less had been timed", advice)
    return f"mean {mean:.2f} ms of {number} calls"


@point("The warm-up is not in the statistics")
def warm_up(case: Case) -> str:
    factor, slow = _factor(case), [_SLOW_MS] * _SLOW_CALLS
    counts = {"num_iterations": 20, "warmup": _SLOW_CALLS}
    model = {"durations_ms": [2.0, 3.0], "first_ms": slow}

    def judge(found: Timed) -> str:
        if found.calls <= _SLOW_CALLS:
            expected = f"more calls than the {_SLOW_CALLS} of the warm-up"
            raise Missed(expected, f"{found.calls}", "call the model inside the timed loop, once an iteration")
        (low, high), mean = found.bounds(_mean, first=_SLOW_CALLS), factor * found.figure("mean")
        if not 0.8 * low < mean < 1.25 * high:
            only = f"a mean near {low:.2f} ms: only this model's first {_SLOW_CALLS} calls are slow"
            advice = "run the model warmup times without the clock, and keep only the times of what follows"
            raise Missed(only, f"{mean:.2f} ms", advice)
        return f"mean {mean:.2f} ms though the first {_SLOW_CALLS} calls took {_SLOW_MS:.0f} ms"

    return settled(lambda attempt: timed(case, attempt, batch=1, counts=counts, **model), judge)


def _asynchronous(case: Case, attempt: int, in_call: Sequence[float] = (0.0,)) -> Timed:
    counts = {"num_iterations": _ASYNCHRONOUS_CALLS, "warmup": _ASYNCHRONOUS_WARM_UP}
    model = {"durations_ms": [2.5, 3.5, 3.0], "asynchronous": True, "in_call": list(in_call)}
    return timed(case, attempt, batch=1, counts=counts, **model)


@point("Each time ends when the work is done")
def synchronized(case: Case) -> str:
    factor, hint = _factor(case), "synchronize after the call and before you read the clock, in every iteration"

    def judge(found: Timed) -> str:
        first = max(0, found.calls - _ASYNCHRONOUS_CALLS)
        missing = _without_wait(found.log["waits"], first, found.calls)
        if missing or not found.calls:
            text = f"{missing} of {found.calls - first} timed calls that the next one followed without a wait"
            raise Missed("a wait after each timed call of an asynchronous model", text, hint)
        expected, mean = float(found.true_ms("waited_s")[first:].mean()), factor * found.figure("mean")
        if not 0.9 * expected < mean < 1.1 * expected:
            truth = f"a mean near {expected:.2f} ms, the time until the work is done"
            raise Missed(truth, f"{mean:.4f} ms", hint)
        return f"mean {mean:.2f} ms, {len(found.log['waits'])} waits"

    ways = ((0.0,), _IN_CALL)
    return "; ".join(settled(lambda attempt, way=way: _asynchronous(case, attempt, way), judge) for way in ways)


def _without_wait(waits: Sequence[int], first: int, last: int) -> int:
    return len(set(range(first + 1, last + 1)) - set(waits))


@point("The warm-up is over before the clock starts")
def warm_up_ends(case: Case) -> str:
    found = _asynchronous(case, 0)
    before = found.calls - _ASYNCHRONOUS_CALLS
    if before < 1 or not {before, _ASYNCHRONOUS_WARM_UP} & set(found.log["waits"]):
        text = "no warm-up" if before < 1 else "none: its work was still under way when the first timed call came"
        raise Missed("a wait between the warm-up and the first timed call", text, "synchronize after the warm-up too")
    return f"a wait after call {before}"


POINTS = (mean_median, percentiles, std, milliseconds, calls, warm_up, synchronized, warm_up_ends)
