"""The benchmark claims: what counts as agreement, which percentiles are sane, and which saved figures fit a machine."""

import json
import time
from itertools import count

import numpy as np
import pytest
from solutions.checks.trusted.agreement import agreement, first_kept, percentile_range

from helpers.missed import Missed
from helpers.points.case import Case
from helpers.probes.student import Student
from solutions.checks import measurements_claims, throughput_claims
from solutions.checks.core.claim import CELLS, claims_of


class Folder:
    """A submission that is nothing but its files."""

    def __init__(self, **files):
        self.files = files

    def artifact(self, name):
        return self.files.get(name.partition(".")[0])


def latency(scale=1.0, change=lambda name, batch, row: row):
    """Return latency.json of a machine on which each precision halves the time, in bytes."""
    rows = []
    for index, name in enumerate(measurements_claims.NAMES):
        for batch in measurements_claims.BATCHES:
            time = scale * 30.0 * batch / 2**index
            row = {
                "mean_ms": time * 1.1,
                "median_ms": time,
                "p95_ms": time * 1.3,
                "p99_ms": time * 2,
                "std_ms": time / 9,
            }
            rows.append({"name": name, "batch": batch, **change(name, batch, row)})
    return json.dumps({"rows": rows}).encode()


@pytest.fixture
def machine(monkeypatch):
    """Make the fresh measurement that of `latency()`'s machine."""
    rows = json.loads(latency())["rows"]
    fresh = {(row["name"], row["batch"]): row["median_ms"] for row in rows if row["batch"] in (1, 8, 16)}
    monkeypatch.setattr(measurements_claims, "_fresh", lambda student, case, attempt: fresh)


def test_the_cells_of_the_benchmark_step_are_worth_fifteen_points():
    cells = [cell for cell, belongs in CELLS.items() if belongs.step == "06_benchmark"]
    assert sum(claim.points for cell in cells for claim in claims_of(cell)) == 15


def test_noise_does_not_make_equal_figures_differ():
    random = np.random.default_rng(0)
    assert all(agreement(lambda _: float(np.exp(random.normal(0, 0.3)))).within for _ in range(50))


def test_a_figure_half_as_large_again_does_not_agree_though_there_is_noise():
    random = np.random.default_rng(0)
    assert not any(agreement(lambda _: float(1.5 * np.exp(random.normal(0, 0.1)))).within for _ in range(50))


def test_equal_ratios_are_decided_after_five_rounds():
    assert agreement(lambda _: 1.0).rounds == 5


def test_figures_of_different_sizes_are_decided_after_three_rounds():
    found = agreement(lambda round_: (0.02, 0.03, 0.025)[round_])
    assert found.rounds == 3 and not found.within and not found.comparable


def test_a_disturbed_measurement_is_repeated_and_a_wrong_one_stays_wrong():
    def judge(value):
        if value < 2:
            raise Missed("two or more", f"{value}", "wait")
        return f"{value}"

    assert first_kept(lambda attempt: attempt, judge) == "2"
    attempts = count()
    with pytest.raises(Missed, match="found 0"):
        first_kept(lambda attempt: 0 * next(attempts), judge)
    assert next(attempts) == 3


def test_every_definition_of_a_percentile_lies_in_its_range():
    times = np.random.default_rng(1).exponential(size=137)
    low, high = percentile_range(times, 95)
    for method in ("linear", "nearest", "lower", "higher", "weibull", "inverted_cdf"):
        assert low <= np.percentile(times, 95, method=method) <= high
    assert low <= np.sort(times)[int(0.95 * 137)] <= high
    assert not low <= np.percentile(times, 99) <= high


@pytest.mark.parametrize("load", [0.3, 1.0, 4.0])
def test_the_saved_latencies_of_a_busier_or_quieter_moment_fit(machine, load):
    assert measurements_claims.latency_measured(Folder(latency=latency(load)), None)


def shuffled(name, batch, row):
    return {**row, "median_ms": row["median_ms"] * (30 if batch % 8 else 1 / 30)}


@pytest.mark.parametrize(
    "saved",
    [
        latency(1e-3),
        latency(change=lambda name, batch, row: {**row, "median_ms": 12.0}),
        latency(change=shuffled),
        latency(change=lambda name, batch, row: {**row, "median_ms": 30.0 * batch}),
    ],
    ids=["seconds", "one figure for all", "mixed up", "one engine for all"],
)
def test_latencies_that_were_not_measured_so_are_refused(machine, saved):
    with pytest.raises(Missed):
        measurements_claims.latency_measured(Folder(latency=saved), None)


@pytest.mark.parametrize(
    "content", [None, b"not JSON", b"[]", b'{"rows": [1]}', b'{"rows": []}', latency().replace(b"mean_ms", b"mean")]
)
def test_a_file_that_is_incomplete_is_missed_and_not_an_error_of_the_check(content):
    with pytest.raises(Missed):
        measurements_claims.latency_complete(Folder(latency=content), None)


def test_swapped_percentiles_are_out_of_order():
    swapped = latency(change=lambda name, batch, row: {**row, "p95_ms": row["p99_ms"], "p99_ms": row["p95_ms"]})
    assert measurements_claims.order(Folder(latency=latency()), None)
    with pytest.raises(Missed, match="p95"):
        measurements_claims.order(Folder(latency=swapped), None)


def throughput(counted=lambda n: n, given=lambda n: n, before=0, by_duration=False):
    """Return a benchmark_throughput that counts `counted(batch_size)` an execution of `given(batch_size)` images.

    It begins with `before` batches counted, and may divide by the seconds that it was asked for.
    """

    def benchmark_throughput(model, batch_size, duration_sec=60):
        images = np.zeros((given(batch_size), 3, 224, 224), np.float32)
        model(images)
        model.synchronize()
        done, start = before * batch_size, time.perf_counter()
        while (passed := time.perf_counter() - start) < duration_sec:
            model(images)
            model.synchronize()
            done += counted(batch_size)
        return done / (duration_sec if by_duration else passed)

    return benchmark_throughput


@pytest.mark.parametrize("seed", [1, 2, 9])
@pytest.mark.parametrize(
    ("counted", "given"), [(lambda n: 1, lambda n: n), (lambda n: n, lambda n: 1)], ids=["batches", "one image"]
)
def test_what_is_counted_wrongly_is_missed_once_whatever_the_batches(seed, counted, given):
    student = Student.in_process({"benchmark_throughput": throughput(counted, given)})
    with pytest.raises(Missed):
        throughput_claims.images(student, Case(None, seed))
    throughput_claims.warm_up(student, Case(None, seed))
    throughput_claims.synchronized(student, Case(None, seed))


def test_every_image_of_the_timed_calls_counts_once():
    assert "images/s" in throughput_claims.images(
        Student.in_process({"benchmark_throughput": throughput()}), Case(None, 3)
    )


@pytest.mark.parametrize("mistake", [{"before": 1}, {"before": 3}, {"before": -1}, {"by_duration": True}])
def test_a_batch_too_many_or_too_few_shows(mistake):
    student = Student.in_process({"benchmark_throughput": throughput(**mistake)})
    with pytest.raises(Missed, match="57 ms a call"):
        throughput_claims.images(student, Case(None, 3))
