"""Hidden points of step 6: the figures in the two files were measured on this machine.

The machine may have been busy when the student measured, and may be busy now. Load only makes an execution longer, so
a figure is compared with the shortest time that the grader finds for the same engine.
"""

import itertools
import time
from collections.abc import Callable, Mapping
from functools import lru_cache, partial

import numpy as np
import psutil

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.s06_benchmark.latency import SHAPE
from helpers.checks.points.s06_benchmark.results import RESULTS, fit, latency_rows, rates
from helpers.checks.probes.builds import plan_facts
from helpers.course.settings import ENGINES
from solutions.checks.trusted.reference import reference
from solutions.checks.trusted.stillness import still
from trtlab.engines.served import opened

FASTER = 1.5
"""A figure may be this many times as fast as the grader's fastest execution: half way to a factor of 2."""

_BUSY = 10.0
"""The same for executions of more than `_BRIEF_MS` while other programs keep the processor busy: then only brief ones
reach their shortest time."""

_RUNS = {1: 8, 4: 4, 8: 4}
"""Executions at each batch that is measured again. For larger batches and PyTorch, throughput must fit latency."""

_BRIEF_MS, _REPEATS, _IDLE_PERCENT, _PAUSE_S = 5.0, 12, 10.0, 0.25

Key = tuple[str, int]


class Fresh:
    """Times in ms by name and batch, measured on request; all measurements count."""

    def __init__(self, take: Callable[[Key], list[float]], idle: Callable[[], bool] = lambda: True) -> None:
        self._take, self.idle = take, idle
        self._times: dict[Key, list[float]] = {}

    def shortest(self, key: Key, *, again: bool = False) -> float:
        """Return the shortest time so far; `again` measures some more."""
        if again or key not in self._times:
            self._times.setdefault(key, []).extend(self._take(key))
        return min(self._times[key])


def measured(saved: Mapping[Key, float], fresh: Fresh, what: str) -> str:
    """Return evidence that saved times (ms per batch) of the engines are not shorter than possible on this machine.

    A time that is far too long loses another point: then latency and throughput do not fit.

    Raises:
        Missed: an engine is faster than possible here, with a wider margin if the machine is busy now.
    """
    for key in itertools.product(ENGINES, _RUNS):
        _long_enough(saved[key], fresh, key, what)
    least = {name: min(saved[name, batch] / fresh.shortest((name, batch)) for batch in _RUNS) for name in ENGINES}
    said = ", ".join(f"{name} {ratio:.2f}" for name, ratio in least.items())
    return f"{what}, over the shortest time now, least of {len(_RUNS)} batches: {said}"


def _long_enough(saved: float, fresh: Fresh, key: Key, what: str) -> None:
    """Measure again until the saved time is plausible, or raise Missed."""
    for _ in range(_REPEATS):
        shortest = fresh.shortest(key)
        doubtful = shortest > _BRIEF_MS and saved >= shortest / _BUSY
        if saved >= shortest / FASTER or (doubtful and not fresh.idle()):
            return
        fresh.shortest(key, again=True)
    expected = f"{what} of {key[0]} at batch {key[1]} near {fresh.shortest(key):.4g} ms"
    found = f"{saved:.4g} ms, which is less than this machine needs"
    raise Missed(expected, found, "check the unit, and write what you measured on this machine")


@lru_cache(maxsize=1)
def _fresh_times(case: Case) -> Fresh:
    """Return times of the engines that the submission measured; the same for both points."""
    return Fresh(partial(_times, case), _idle)


def _times(case: Case, key: Key) -> list[float]:
    """Return the ms of some calls of an engine, after one that warms up."""
    name, batch = key
    own = case.artifact(ENGINES[name])
    plan = own if own and plan_facts(own) else reference().bytes(ENGINES[name])
    noise = case.random(f"latency.images.{batch}").standard_normal((batch, *SHAPE), dtype=np.float32)
    time.sleep(_PAUSE_S)  # a disturbance may be over by then
    with still():
        return opened(plan).inferences(noise, _RUNS[batch])


def _idle() -> bool:
    """Return whether other programs leave the processor alone, while this one waits."""
    with still():
        return psutil.cpu_percent(0.5) < _IDLE_PERCENT


@RESULTS.hidden("results.latency_measured", 1.5, "The latencies fit this machine")
def latency_measured(case: Case) -> str:
    saved = {key: row["median_ms"] for key, row in latency_rows(case, ("median_ms",)).items()}
    return measured(saved, _fresh_times(case), "the median latency")


@fit.in_grading
def throughput_measured(case: Case) -> str:
    said = fit.judge(case)
    times = {key: key[1] * 1e3 / rate for key, rate in rates(case).items()}
    return f"{said}; {measured(times, _fresh_times(case), 'the time for a batch (batch / images per second)')}"
