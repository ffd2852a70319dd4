"""Claims on benchmark_latency and benchmark_throughput: their points, and what they find of an engine."""

import math
import statistics
import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.point import Reported
from helpers.checks.points.s06_benchmark import latency, throughput
from helpers.checks.points.s06_benchmark.engines import ENGINE_BATCH, QueuedEngine, engine_latency, engine_throughput
from helpers.checks.points.s06_benchmark.latency_run import Timed
from helpers.checks.points.s06_benchmark.timing import images
from helpers.engine.given import probe_engine
from helpers.toys.networks import tiny_onnx
from solutions.checks.core.claim import award, claim

OWN = 0.10
"""How far a figure may be from the log of the calls that it describes."""

FASTER = 1.5
"""How many times as fast as the grader's fastest execution a figure may be: half way to a factor of 2."""

SLOWER = 30.0
"""How many times as slow: beside other programs an execution takes long, but not so long."""

_ROUNDS, _STANDS, _TURNS, _IN_FLIGHT = 5, 2, 16, 4
_WARM_UP_SHARE = 0.7  # of the time: the calls of a warm-up may be queued in a moment, and then take long
_LONG_GAP = 0.15  # of the time from one call to the next, by the least of each
_COUNTS, _SECONDS = {"num_iterations": 15, "warmup": 3}, 0.2
_QUEUE_S, _MOST_UNDER_WAY = _SECONDS / 2, 1000  # on any machine, work that nobody waits for is a large part of all
_LATENCY, _THROUGHPUT = "benchmark_latency", "benchmark_throughput"
_LOG = "when each call of the engine began and ended, closer than the grader's own measurement can say"
_SHARE = 0.5


def _plan(case: Case) -> bytes:
    return probe_engine(tiny_onnx(case.number("benchmark.network")), (1, ENGINE_BATCH, ENGINE_BATCH))


def _shortest_ms(plan: bytes) -> float:
    """Return the shortest time of an execution, of those that were waited for one by one and of four in flight."""
    with QueuedEngine(plan, ENGINE_BATCH) as model:
        given, times = images(ENGINE_BATCH, 0), []
        for number in (1, *[1, _IN_FLIGHT] * (_TURNS // 2)):
            start = time.perf_counter()
            for _ in range(number):
                model(given)
            model.synchronize()
            times.append((time.perf_counter() - start) * 1e3 / number)
    return min(times[1:])


@lru_cache(maxsize=1)
def _queue(plan: bytes) -> int:
    """Return how many calls may be under way; once, so that both judges of a claim meet the same measurement."""
    return min(math.ceil(_QUEUE_S * 1e3 / _shortest_ms(plan)), _MOST_UNDER_WAY)


def agrees(measure: Callable[[int], tuple[float, float]], shortest_ms: Callable[[], float], what: str) -> str:
    """Return the evidence of the second of up to five rounds in which a student's figure stands both tests.

    Args:
        measure: the figure as milliseconds an execution, and its ratio to the log of the same calls.
        shortest_ms: the grader's own measurement, taken in turns with it.

    Raises:
        Missed: fewer did; what they lacked.
    """
    shortest, stood, off = math.inf, 0, 1.0
    for attempt in range(_ROUNDS):
        found_ms, own = measure(attempt)
        shortest = min(shortest, shortest_ms())
        off = own if abs(own - 1) > OWN else off
        stood += abs(own - 1) <= OWN and found_ms >= shortest / FASTER
        if stood == _STANDS:
            return f"{own:.3f} of the log of its own calls; the shortest execution took {shortest:.3f} ms"
    if off != 1.0:
        expected = f"{what} of an engine as the log of the same calls has it, within {OWN:.0%}"
        advice = "only the model and the wait belong between the two clocks, and in what is counted"
        found = f"{off:.3g} times that" if off else "calls that nobody waited for, or of another batch"
        raise Missed(expected, found, advice)
    expected = f"{what} of an engine as the grader finds it: no less than {shortest / FASTER:.3f} ms an execution"
    raise Missed(expected, f"{found_ms:.3f} ms", "return what was measured")


def in_reach(measure: Callable[[int], tuple[float, float]], shortest_ms: Callable[[], float], what: str) -> str:
    """Return evidence that a student's figure is one that this engine can have here, by the grader's measurement alone.

    Args and what it raises are those of `agrees`.
    """
    shortest = math.inf
    for attempt in range(_ROUNDS):
        found_ms, _ = measure(attempt)
        shortest = min(shortest, shortest_ms())
        if shortest / FASTER <= found_ms <= shortest * SLOWER:
            return f"{found_ms:.3f} ms, where the grader's shortest execution took {shortest:.3f} ms"
    expected = f"{what} of an engine from {shortest / FASTER:.3f} to {shortest * SLOWER:.3f} ms an execution"
    raise Missed(f"{expected}, as the grader finds it", f"{found_ms:.3f} ms", "return what was measured")


award("latency.mean_median", 1, latency.mean_median, cell=_LATENCY)
award("latency.percentiles", 1, latency.percentiles, cell=_LATENCY)
award("latency.std", 0.5, latency.std, cell=_LATENCY)
award("latency.milliseconds", 0.5, latency.milliseconds, cell=_LATENCY)
award("latency.calls", 1, latency.calls, cell=_LATENCY)
award("latency.warm_up", 0.75, latency.warm_up, cell=_LATENCY)
award("latency.synchronized", 0.75, latency.synchronized, cell=_LATENCY)
award("latency.warm_up_ends", 0.25, latency.warm_up_ends, cell=_LATENCY)


def _latency(case: Case, judge: Callable[..., str]) -> str:
    plan = _plan(case)

    def measure(attempt: int) -> tuple[float, float]:
        found = _run(case, engine_latency, latency.FUNCTION, plan=plan, counts=_COUNTS, attempt=attempt)
        timed = Timed(found["numbers"], found["others"], found["log"], _COUNTS["num_iterations"])
        return timed.figure("median"), _own_latency(timed)

    return judge(measure, lambda: _shortest_ms(plan), "the latency")


@claim(
    "latency.engine",
    cell=_LATENCY,
    points=0.75,
    title="On an engine it finds what its calls took",
    reported=Reported(_LOG, _SHARE, partial(_latency, judge=agrees)),
)
def latency_of_an_engine(case: Case) -> str:
    return _latency(case, in_reach)


def _run(case: Case, probe: Any, function: str, **data: Any) -> dict[str, Any]:
    found = case.call(probe, **data).require(function)
    if found["stopped"]:
        text = f"still calling the model after many times that ({found['log']['start_s'].size} calls)"
        asked = data.get("counts") or f"duration_sec={data['seconds']}"
        raise Missed(f"{function} on an engine to end as asked for ({asked})", text, "let that end the timed loop")
    columns = list(found["log"].values())
    if any(column.dtype != np.float64 or column.shape != (columns[0].size,) for column in columns):
        raise Missed("a log of the engine's calls", "columns of no numbers", "restart the kernel, run all cells")
    return found


def _own_latency(timed: Timed) -> float:
    """Return the ratio to the log's that is nearest to 1; 0 where a call was not waited for, or not of the whole batch.

    A wrong median beside a right mean, and a wrong number of calls, are other claims' matters.
    """
    times, total = timed.true_ms("waited_s"), timed.calls
    if total < timed.iterations or not (timed.log["images"][-timed.iterations :] == ENGINE_BATCH).all():
        return 0.0
    ratios = [0.0]
    for last in {timed.iterations, *(total - first for first in (0, _COUNTS["warmup"], latency.WARM_UP))}:
        chosen = times[-last:]
        if last > 0 and np.isfinite(chosen).all() and (chosen > 0).all():
            ratios += [timed.figure("median") / statistics.median(chosen.tolist())]
            ratios += [timed.figure("mean") / float(chosen.mean())]
    return min(ratios, key=lambda ratio: abs(math.log(max(ratio, 1e-9))))


award("throughput.images", 1.25, throughput.images, cell=_THROUGHPUT)
award("throughput.duration", 0.75, throughput.duration, cell=_THROUGHPUT)
award("throughput.batch", 0.25, throughput.batch_size, cell=_THROUGHPUT)
award("throughput.warm_up", 0.5, throughput.warm_up, cell=_THROUGHPUT)
award("throughput.synchronized", 0.75, throughput.synchronized, cell=_THROUGHPUT)


def _throughput(case: Case, judge: Callable[..., str]) -> str:
    plan = _plan(case)

    def measure(attempt: int) -> tuple[float, float]:
        asked = {"plan": plan, "seconds": _SECONDS, "queue": _queue(plan), "attempt": attempt}
        found = _run(case, engine_throughput, throughput.FUNCTION, **asked)
        rate = max(throughput.rate_of(found), 1e-9)
        return ENGINE_BATCH * 1e3 / rate, _own_rate(throughput.Timed(rate, ENGINE_BATCH, found["log"]))

    return judge(measure, lambda: _shortest_ms(plan), "the throughput")


@claim(
    "throughput.engine",
    cell=_THROUGHPUT,
    points=0.75,
    title="On an engine it finds what its calls took",
    reported=Reported(_LOG, _SHARE, partial(_throughput, judge=agrees)),
)
def throughput_of_an_engine(case: Case) -> str:
    return _throughput(case, in_reach)


def _own_rate(timed: throughput.Timed) -> float:
    """Return a rate's ratio to the nearest that its log allows; 0 where work was not waited for.

    The log's seconds include what the loop did between two calls. Where even the least of these gaps is long, the loop
    does more than to run the model, and they are left out.
    """
    log = timed.log
    if timed.calls < 4 or not np.isfinite(log["waited_s"]).all():
        return 0.0
    low, high = timed.rates(column="waited_s", share=_WARM_UP_SHARE)
    own = timed.images_per_s / max(min(max(timed.images_per_s, low), high), 1e-9)
    ends = np.where(log["waited_s"][:-1] <= log["start_s"][1:], log["waited_s"][:-1], log["end_s"][:-1])
    gaps = (log["start_s"][1:] - ends)[-(timed.calls // 4) :]  # before these it may have been a warm-up
    gap, work = float(gaps.min()), float((log["waited_s"] - log["start_s"]).min())
    share = gap / max(gap + work, 1e-9)
    return own * (1 - share) if share > _LONG_GAP else own
