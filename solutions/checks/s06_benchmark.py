"""What only the grader knows of step 6: whether the figures in the two files are this machine's.

The machine may have been busy when the student measured, and may be so now. Load only makes an execution longer: so a
figure is held to the shortest time that the grader finds for the same engine.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np
import psutil

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.s06_benchmark.latency import SHAPE
from helpers.checks.points.s06_benchmark.results import RESULTS, fit, latency_rows, rates
from helpers.checks.probes.builds import plan_facts
from helpers.course.settings import BASELINE, BATCHES, ENGINES, MODEL, NAMES
from solutions.checks.trusted.reference import reference
from solutions.checks.trusted.stillness import still
from trtlab.engines.timed import opened
from trtlab.timing.runners import Runner, RunnerSpec, load_runner

FASTER = 1.5
"""How many times as fast as the grader's fastest execution a figure may be: half way to a factor of 2."""

_BUSY = 10.0
"""How many times as fast an execution of more than `_BRIEF_MS` may be while other programs keep the processor busy:
only the shortest time of a brief one is found beside them."""

_MACHINE, _SLOWER, _AS_FAST, _QUIET = 30.0, 1.9, 1.3, 1.15
_SHORT_BATCH, _BRIEF_MS, _REPEATS, _IDLE_PERCENT = 8, 5.0, 12, 10.0
_RUNS = {1: 8, 4: 4, 8: 4, 16: 2, 32: 2}
_PAUSE_S = 0.25

Key = tuple[str, int]


class Fresh:
    """Times in ms by name and batch, taken when they are asked for; all that were taken count."""

    def __init__(self, take: Callable[[Key], list[float]], idle: Callable[[], bool] = lambda: True) -> None:
        self._take, self.idle = take, idle
        self._times: dict[Key, list[float]] = {}

    def shortest(self, key: Key, *, again: bool = False) -> float:
        """Return the shortest time so far; `again` takes some more."""
        if again or key not in self._times:
            self._times.setdefault(key, []).extend(self._take(key))
        return min(self._times[key])

    @property
    def quiet(self) -> bool:
        """Whether nothing disturbs the machine: times are about as long as the shortest, and its cores have time."""
        spread = statistics.median(statistics.median(times) / min(times) for times in self._times.values())
        return spread < _QUIET and self.idle()


def measured(saved: Mapping[Key, float], fresh: Fresh, what: str) -> str:
    """Return evidence that saved times (ms a batch) are what this machine can measure.

    Raises:
        Missed: an engine is faster than the machine can be at a small batch, by far where it is busy now; or a name is
            slower at all its batches: by far, so that the unit is wrong, or on a quiet machine, on which another name
            was as fast as now, by what another engine takes.
    """
    ratios = {key: saved[key] / fresh.shortest(key) for key in sorted(saved, key=lambda key: key[1])}
    for key in ratios:
        if key[0] in ENGINES and key[1] <= _SHORT_BATCH:
            _long_enough(saved[key], fresh, key, what)
    by_name = {name: [ratios[name, batch] for batch in BATCHES] for name in NAMES}
    undisturbed = min(map(statistics.median, by_name.values())) < _AS_FAST and fresh.quiet
    for name, found in by_name.items():
        if min(found) > (_SLOWER if undisturbed and name in ENGINES else _MACHINE):
            text = f"{min(found):.2f} times what it takes now, and more at other batches"
            advice = "check the unit, and measure each engine under its own name"
            raise Missed(f"{what} of {name} as this machine measures it", text, advice)
    said = ", ".join(f"{name} {min(found):.2f}" for name, found in by_name.items())
    return f"{what}, over the shortest time now, least of {len(BATCHES)} batches: {said}"


def _long_enough(saved: float, fresh: Fresh, key: Key, what: str) -> None:
    """Measure again until a time can have been so short; raise Missed where it cannot."""
    for _ in range(_REPEATS):
        shortest = fresh.shortest(key)
        doubtful = shortest > _BRIEF_MS and saved >= shortest / _BUSY
        if saved >= shortest / FASTER or (doubtful and not fresh.idle()):
            return
        fresh.shortest(key, again=True)
    expected = f"{what} of {key[0]} at batch {key[1]} near {fresh.shortest(key):.4g} ms"
    found = f"{saved:.4g} ms, which is less than this machine needs"
    raise Missed(expected, found, "check the unit, and write what was measured, on this machine")


@lru_cache(maxsize=1)
def _fresh_times(case: Case) -> Fresh:
    """Return times of the engines that the submission measured and of PyTorch; the same for both points."""

    def take(key: Key) -> list[float]:
        time.sleep(_PAUSE_S)  # what disturbs the machine may be over by then
        with still():
            return _times(case, *key)

    return Fresh(take, _idle)


def _times(case: Case, name: str, batch: int) -> list[float]:
    """Return the ms of some calls of a name, after one that warms up."""
    if name == BASELINE:
        return _pytorch_times(batch)
    own = case.artifact(ENGINES[name])
    usable = own is not None and plan_facts(own) is not None
    noise = case.random(f"latency.images.{batch}").standard_normal((batch, *SHAPE), dtype=np.float32)
    return opened(own if usable else reference().bytes(ENGINES[name])).inferences(noise, _RUNS[batch])


def _pytorch_times(batch: int) -> list[float]:
    runner, times = _pytorch(), list[float]()
    runner.bind(batch)  # which runs it once
    for _ in range(_RUNS[batch]):
        start = time.perf_counter()
        runner.run()
        times.append((time.perf_counter() - start) * 1e3)
    return times


@lru_cache(maxsize=1)
def _pytorch() -> Runner:
    return load_runner(RunnerSpec("pytorch", MODEL, name=BASELINE))


def _idle() -> bool:
    """Return whether other programs leave the processor alone, while this one waits."""
    with still():
        return psutil.cpu_percent(0.5) < _IDLE_PERCENT


@RESULTS.hidden("results.latency_measured", 1, "The latencies are this machine's")
def latency_measured(case: Case) -> str:
    saved = {key: row["median_ms"] for key, row in latency_rows(case, ("median_ms",)).items()}
    return measured(saved, _fresh_times(case), "the median latency")


@fit.in_grading
def throughput_measured(case: Case) -> str:
    times = {key: key[1] * 1e3 / max(rate, 1e-9) for key, rate in rates(case).items()}
    said = measured(times, _fresh_times(case), "the time for a batch (batch / images per second)")
    try:
        latency_measured(case)
    except Missed:  # latency.json's own matter
        return said
    return f"{said}; {fit(case)}"
