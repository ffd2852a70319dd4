"""Claims on latency.json and throughput.json: complete, in order, fitting each other, and measured on this machine."""

import statistics
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import psutil

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.s06_benchmark import results
from helpers.checks.points.s06_benchmark.timing import images
from helpers.checks.probes.builds import plan_facts
from helpers.course.settings import BATCHES, ENGINES, MODEL, NAMES
from helpers.data import models
from helpers.engine.backend import ENGINE
from helpers.engine.memory import keep_freed_memory
from solutions.checks.core.claim import award, claim
from solutions.checks.s06_benchmark.engine import FASTER
from solutions.checks.trusted.reference import reference
from solutions.checks.trusted.stillness import still
from trtlab.engines.timed import opened

_CELL = "benchmark_results"
_SLOWER, _MACHINE, _AS_FAST, _QUIET = 1.9, 30.0, 1.3, 1.15
_REPEATS, _PAUSE_S, _SHORT_BATCH = 12, 0.25, 8
_IDLE_S, _IDLE_PERCENT = 0.5, 10.0
_FITS_FLATTERED = 2**-0.5  # half way from throughputs that fit latencies of half the length, to true ones
_RUNS = {1: 8, 4: 4, 8: 4, 16: 2, 32: 2}

Key = tuple[str, int]
Take = Callable[[np.ndarray, int], list[float]]


class Fresh:
    """Times in ms of names at batches, taken when they are asked for; all that were taken count."""

    def __init__(self, take: Callable[[Key], list[float]], idle: Callable[[], bool] = lambda: True) -> None:
        self._take, self._idle = take, idle
        self._times: dict[Key, list[float]] = {}

    def again(self, key: Key) -> None:
        """Take some more."""
        self._times.setdefault(key, []).extend(self._take(key))

    def shortest(self, key: Key) -> float:
        """Return the shortest time: load makes an execution longer, never shorter."""
        if key not in self._times:
            self.again(key)
        return min(self._times[key])

    def judges(self, key: Key) -> bool:
        """Whether the shortest time of a row is found: beside other programs only that of a short execution.

        PyTorch's never is: its threads wait for each other, so that a busy core costs it many times as long.
        """
        return key[0] in ENGINES and (key[1] <= _SHORT_BATCH or self.quiet)

    @property
    def quiet(self) -> bool:
        """Whether nothing disturbs the machine: times are about as long as the shortest, and its cores have time."""
        spread = statistics.median(statistics.median(times) / min(times) for times in self._times.values())
        return spread < _QUIET and self._idle()


def measured(saved: Mapping[Key, float], fresh: Fresh, what: str) -> str:
    """Return evidence that saved times (ms a batch) are what this machine can measure.

    Raises:
        Missed: an engine's time is shorter than what the machine can do, whatever its load (a factor of 2 in a single
            row shows on a quiet machine; one in a whole engine or table also beside other programs, since it takes one
            row that was not disturbed); an engine is longer at all its batches than the others allow, on a quiet
            machine; or any name so much longer that the unit is wrong.
    """
    for key in sorted(saved, key=lambda key: (key[1], NAMES.index(key[0]))):
        fresh.shortest(key)
    short = sorted((key for key in saved if _too_short(saved, fresh, key)), key=fresh.shortest)
    for key in short:
        if fresh.judges(key):
            _take_again(saved, fresh, key, what)
    ratios = {name: [saved[name, batch] / fresh.shortest((name, batch)) for batch in BATCHES] for name in NAMES}
    least = {name: min(of_name) for name, of_name in ratios.items()}
    undisturbed = fresh.quiet and min(map(statistics.median, ratios.values())) < _AS_FAST
    most = _SLOWER if undisturbed else _MACHINE
    for name, ratio in least.items():
        if ratio > (most if name in ENGINES else _MACHINE):
            found = f"{ratio:.2f} times what it takes now, and more at other batches"
            advice = "check the unit, and measure each engine under its own name"
            raise Missed(f"{what} of {name} as this machine measures it", found, advice)
    said = ", ".join(f"{name} {ratio:.2f}" for name, ratio in least.items())
    return f"{what}, over the shortest time now, least of {len(BATCHES)} batches: {said}"


def _too_short(saved: Mapping[Key, float], fresh: Fresh, key: Key) -> bool:
    return saved[key] < fresh.shortest(key) / FASTER


def _take_again(saved: Mapping[Key, float], fresh: Fresh, key: Key, what: str) -> None:
    """Measure a row again until it can have been so short; raise Missed where it cannot."""
    for _ in range(_REPEATS):
        if _too_short(saved, fresh, key):
            fresh.again(key)
    if not _too_short(saved, fresh, key):
        return
    name, batch = key
    expected = f"{what} of {name} at batch {batch} near {fresh.shortest(key):.4g} ms"
    found = f"{saved[key]:.4g} ms, which is less than this machine needs"
    raise Missed(expected, found, "check the unit, and write what was measured, on this machine")


@lru_cache(maxsize=1)
def _fresh_times(case: Case) -> Fresh:
    """Return times of the engines that the submission measured and of PyTorch; the same for both claims."""
    takes: dict[str, Take] = {}
    taken: set[Key] = set()

    def take(key: Key) -> list[float]:
        name, batch = key
        if key in taken:
            time.sleep(_PAUSE_S)  # what disturbed it may be over
        taken.add(key)
        if name not in takes:
            takes[name] = _model(case, name)
        with still():
            return takes[name](images(batch, case.number(f"latency.images.{batch}")), _RUNS[batch])

    return Fresh(take, _idle)


def _idle() -> bool:
    """Return whether other programs leave the processor alone, while this one waits."""
    with still():
        return psutil.cpu_percent(_IDLE_S) < _IDLE_PERCENT


def _model(case: Case, name: str) -> Take:
    """Return what takes so many times (ms) of a name on some images, one after the other, after one that warms up."""
    if name not in ENGINES:
        return _pytorch()
    own = case.artifact(ENGINES[name])
    usable = own is not None and plan_facts(own) is not None
    return opened(own if usable else reference().bytes(ENGINES[name])).inferences


def _pytorch() -> Take:
    import torch

    device = "cuda" if ENGINE == "tensorrt" else "cpu"
    keep_freed_memory()
    model = models.load_model(MODEL).to(device).eval()

    def run(given: np.ndarray) -> Any:
        with torch.no_grad():
            return model(torch.from_numpy(given).to(device)).cpu()

    def take(given: np.ndarray, number: int) -> list[float]:
        run(given)
        times = []
        for _ in range(number):
            start = time.perf_counter()
            run(given)
            times.append((time.perf_counter() - start) * 1e3)
        return times

    return take


def _latencies(case: Case) -> dict[Key, float]:
    return {key: row["median_ms"] for key, row in results.latency_rows(case, ("median_ms",)).items()}


award("results.latency_complete", 1, results.latency_complete, cell=_CELL)
award("results.order", 0.75, results.order, cell=_CELL)
award("results.throughput_complete", 0.75, results.throughput_complete, cell=_CELL)


@claim("results.latency_measured", cell=_CELL, points=1, title="The latencies are this machine's")
def latency_measured(case: Case) -> str:
    return measured(_latencies(case), _fresh_times(case), "the median latency")


@claim(
    "results.throughput_measured",
    cell=_CELL,
    points=0.75,
    title="The throughputs are this machine's, and fit the latencies",
)
def throughput_measured(case: Case) -> str:
    rates = {key: row["images_per_s"] for key, row in results.throughput_rows(case).items()}
    times = {key: key[1] * 1e3 / max(rate, 1e-9) for key, rate in rates.items()}
    said = measured(times, _fresh_times(case), "the time for a batch (batch / images per second)")
    try:
        latencies, found = _latencies(case), results.in_flight(case)
    except Missed:  # latency.json's own matter
        return said
    fresh = _fresh_times(case)
    short = sorted({key[0] for key in latencies if fresh.judges(key) and _too_short(latencies, fresh, key)})
    if not short:
        return f"{said}; {results.fit(case)}"
    if len(short) > 1 and results.together(found, short) > _FITS_FLATTERED:
        text = f"{rates[short[0], 1]:.4g} at batch 1, which fits a latency that this machine cannot reach"
        raise Missed(f"images per second of {short[0]} as this machine measures them", text, "write what was measured")
    return said
