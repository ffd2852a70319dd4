"""Step 6: its figures are judged rightly for every seed, and a table by what this machine can do, whatever its load.

Nothing here measures time: the models run on simulated clocks, and fresh measurements are made up.
"""

import json
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.s06_benchmark import results
from helpers.checks.points.timed import Timed, rank_is
from helpers.course.settings import BATCHES, NAMES
from solutions.checks.s06_benchmark import Fresh, Key, measured

Change = Callable[[Key, float], float]
METHODS = ("linear", "nearest", "lower", "higher", "weibull", "inverted_cdf")


def _timed(times: np.ndarray, p: float) -> Timed:
    figures, log = {"median_ms": float(np.median(times)), "p_ms": p}, {"start_s": 0 * times, "end_s": times / 1e3}
    return Timed(figures, log, 0, {}, iterations=len(times))


@pytest.mark.parametrize("count", [100, 110, 600, 900])
@pytest.mark.parametrize("percent", [50, 95, 99])
def test_every_usual_percentile_is_right_and_a_rank_too_low_is_wrong(count: int, percent: int) -> None:
    times = np.geomspace(1, 1000, count)
    for method in METHODS:
        assert rank_is(_timed(times, float(np.percentile(times, percent, method=method))), "p", percent, "sort")
    with pytest.raises(Missed, match="sort"):
        rank_is(_timed(times, float(times[count * percent // 100 - 2])), "p", percent, "sort")


TRUE = {(name, batch): 30.0 * batch / 2**index for index, name in enumerate(NAMES) for batch in BATCHES}
"""Milliseconds of a machine on which each precision halves the time."""


def _case(latency_by: Change) -> Case:
    """Return a submission that is nothing but its files; the change makes its latencies."""
    rows = [
        {"name": key[0], "batch": key[1], "mean_ms": latency_by(key, ms), "images_per_s": key[1] * 1e3 / ms}
        for key, ms in TRUE.items()
    ]
    return Case(SimpleNamespace(artifact=lambda name: json.dumps({"rows": rows}).encode()), 1)


@pytest.mark.parametrize(("names", "factor"), [(("int8",), 3.0), (NAMES, 1e-3), (NAMES, 1e3)])
def test_latency_and_throughput_must_fit_each_other(names: tuple[str, ...], factor: float) -> None:
    assert results.fit(_case(lambda key, ms: ms))
    with pytest.raises(Missed, match="near the batch size"):
        results.fit(_case(lambda key, ms: ms * factor if key[0] in names else ms))


def _fresh(seed: int, load: float) -> Fresh:
    """Return measurements of the table's machine: `load` is the mean of what other programs add, as a share."""
    random = np.random.default_rng(seed)
    return Fresh(lambda key: (TRUE[key] * (1 + random.exponential(load, 6))).tolist())


def _saved(seed: int, load: float, change: Change = lambda key, ms: ms) -> dict[Key, float]:
    random = np.random.default_rng([seed, 1])
    return {key: change(key, float(np.median(ms * (1 + random.exponential(load, 3))))) for key, ms in TRUE.items()}


@pytest.mark.parametrize("load_then", [0.01, 0.5, 3.0])
@pytest.mark.parametrize("load_now", [0.01, 0.5, 3.0])
def test_an_honest_table_is_accepted_whatever_the_load_then_and_now(load_then: float, load_now: float) -> None:
    for seed in range(30):
        assert measured(_saved(seed, load_then), _fresh(seed, load_now), "the latency")


def test_a_machine_that_is_busy_now_costs_nothing() -> None:
    busy = Fresh(lambda key: [3 * TRUE[key]], idle=lambda: False)
    assert measured(TRUE, busy, "the latency")
    with pytest.raises(Missed, match="less than this machine needs"):
        measured({key: ms / 1e3 for key, ms in TRUE.items()}, busy, "the latency")


WRONG: dict[str, tuple[float, Change]] = {
    "all halved": (0.3, lambda key, ms: ms / 2),
    "INT8 by three": (0.3, lambda key, ms: ms / 3 if key[0] == "int8" else ms),
    "seconds": (0.3, lambda key, ms: ms / 1e3),
    "typed": (0.3, lambda key, ms: 12.0),
}


@pytest.mark.parametrize(("load", "change"), WRONG.values(), ids=WRONG)
def test_a_wrong_table_is_refused_and_a_wrong_unit_beside_other_programs_too(load: float, change: Change) -> None:
    for seed in range(30):
        with pytest.raises(Missed):
            measured(_saved(seed, load, change), _fresh(seed, load), "the latency")
