"""Step 6: its points decide rightly for every seed, and a table is held to what this machine can do, whatever its load.

Nothing here measures time: the models run on simulated clocks, and fresh measurements are made up.
"""

import json
import math
import threading
import time

import numpy as np
import pytest

from helpers.checks.feedback import check_latency, check_measurements, check_throughput
from helpers.checks.feedback.check import NotYet
from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.s06_benchmark import latency, results, throughput
from helpers.checks.points.s06_benchmark.engines import ENGINE_BATCH
from helpers.checks.points.s06_benchmark.latency_run import Timed
from helpers.checks.points.s06_benchmark.timing import numbers
from helpers.checks.probes.student import Student
from helpers.course.settings import BATCHES, ENGINES, NAMES
from solutions.checks.s06_benchmark import table as judged_table
from solutions.checks.s06_benchmark.engine import _own_rate, agrees
from solutions.checks.s06_benchmark.table import Fresh, measured

SEEDS = (2026, 1, 2, 3, 4)


def benchmark_latency(
    model, input_data, num_iterations=1000, warmup=10, unit=1e3, wait=True, p95=lambda times: np.percentile(times, 95)
):
    for _ in range(warmup):
        model(input_data)
    model.synchronize()
    times = []
    for _ in range(num_iterations):
        start = time.perf_counter()
        model(input_data)
        if wait:
            model.synchronize()
        times.append((time.perf_counter() - start) * unit)
    figures = {"mean_ms": np.mean(times), "median_ms": np.median(times), "std_ms": np.std(times)}
    return {**figures, "p95_ms": p95(times), "p99_ms": np.percentile(times, 99)}


def benchmark_throughput(
    model, batch_size, duration_sec=60, counted=lambda n: n, given=lambda n: n, before=0, by_duration=False, wait=True
):
    """Count `counted(batch_size)` an execution of `given(batch_size)` images, beginning with `before` batches."""
    images = np.zeros((given(batch_size), 3, 224, 224), np.float32)
    model(images)
    model.synchronize()
    done, start = before * batch_size, time.perf_counter()
    while (passed := time.perf_counter() - start) < duration_sec:
        model(images)
        if wait:
            model.synchronize()
        done += counted(batch_size)
    return done / (duration_sec if by_duration else passed)


def case_of(seed=1, **changes):
    def timed(*args, **kwargs):
        return benchmark_latency(*args, **kwargs, **changes)

    def counted(*args, **kwargs):
        return benchmark_throughput(*args, **kwargs, **changes)

    return Case(Student.in_process({"benchmark_latency": timed, "benchmark_throughput": counted}), seed)


def missed(points, case):
    """Return the names of the points that a case misses."""
    found = set()
    for point in points:
        try:
            point(case)
        except Missed:
            found.add(point.judge.__name__)
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_right_functions_miss_nothing_whatever_the_seed(seed):
    assert missed((*latency.POINTS, *throughput.POINTS), case_of(seed)) == set()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("changes", "points"),
    [
        ({"unit": 1.0}, {"milliseconds"}),
        ({"wait": False}, {"synchronized"}),
        ({"p95": lambda times: sorted(times)[max(int(0.95 * len(times)) - 2, 0)]}, {"percentiles"}),
        (
            {"p95": lambda times: float(sorted(f"{ms:.3f}" for ms in times)[int(0.95 * len(times))])},
            {"percentiles"},
        ),
        ({"p95": lambda times: f"{np.percentile(times, 95):.2f}"}, {"percentiles"}),
    ],
    ids=["seconds", "no wait", "one rank too low", "sorted as text", "text"],
)
def test_a_wrong_latency_misses_what_it_breaks_whatever_the_seed(seed, changes, points):
    assert missed(latency.POINTS, case_of(seed, **changes)) == points


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("changes", "points"),
    [
        ({"counted": lambda n: 1}, {"images"}),
        ({"given": lambda n: 1}, {"images", "batch_size"}),
        ({"before": 1}, {"images"}),
        ({"before": -1}, {"images"}),
        ({"by_duration": True}, {"images"}),
        ({"wait": False}, {"synchronized"}),
    ],
    ids=["batches", "one image", "one too many", "one too few", "the duration asked for", "no wait"],
)
def test_a_wrong_throughput_misses_what_it_breaks_whatever_the_seed(seed, changes, points):
    assert missed(throughput.POINTS, case_of(seed, **changes)) == points


def test_what_a_function_gives_is_told_by_name_and_type():
    found = numbers({"mean_ms": np.float32(2), "p95_ms": "3", "std_ms": True})
    assert found == {"numbers": {"mean_ms": 2.0}, "others": {"p95_ms": "str", "std_ms": "bool"}, "type": "dict"}
    assert numbers([1.0])["others"] == {"": "list"}


@pytest.mark.parametrize("number", [20, 40, 100, 120, 200])
@pytest.mark.parametrize("percent", [50, 95, 99])
def test_every_definition_of_a_percentile_lies_in_its_range(number, percent):
    times = np.geomspace(2, 60, number)
    low, high = latency._rank_range(times, percent)
    methods = ("linear", "nearest", "lower", "higher", "midpoint", "weibull", "hazen", "inverted_cdf")
    methods += ("averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "median_unbiased")
    for method in methods:
        assert low * (1 - 1e-9) <= np.percentile(times, percent, method=method) <= high * (1 + 1e-9)
    trtexec = number - 1 - int((1 - percent / 100) * number)
    for rank in (min(int(number * percent / 100), number - 1), trtexec):
        assert low <= times[rank] <= high
    assert times[max(math.floor(number * percent / 100) - 2, 0)] < low * (1 - latency.TOLERANCE) or number > 100


@pytest.mark.slow
def test_a_benchmark_without_an_end_is_told_what_does_not_end_it():
    def benchmark_throughput(model, batch_size, duration_sec=60):
        while True:
            model(np.zeros((batch_size, 3, 224, 224), np.float32))

    case = Case(Student.in_process({"benchmark_throughput": benchmark_throughput}), 1)
    with pytest.raises(Missed, match=r"to return after duration_sec=0.5 seconds; found still calling the model"):
        throughput.images(case)


def test_a_function_that_is_not_written_yet_is_named(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("TRT_LAB_ARTIFACTS", str(tmp_path))

    def benchmark_latency(model, input_data, num_iterations=1000, warmup=10):
        raise NotImplementedError

    with pytest.raises(NotYet):
        check_latency(benchmark_latency)
    printed = capsys.readouterr().out
    assert "fill in benchmark_latency" in printed and printed.count("✗") == 2


def test_a_clock_that_cannot_be_simulated_is_asked_in_real_time():
    started = []

    def benchmark_latency(model, input_data, num_iterations=1000, warmup=10):
        started.append(type(model._clock).__name__)
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()
        return {name: 1.0 for name in latency.STATISTICS}

    case = Case(Student.in_process({"benchmark_latency": benchmark_latency}), 1)
    counts = {"num_iterations": 1, "warmup": 0}
    assert not latency.timed(case, 0, batch=1, counts=counts, durations_ms=[0.1]).simulated
    assert started == ["SimulatedClock", "RealClock"]


@pytest.mark.parametrize("end", ["end_s", "waited_s"])
def test_in_real_time_a_latency_may_end_before_or_after_a_wait_that_is_answered_elsewhere(end):
    start = np.arange(20) * 0.1
    done = start + np.linspace(2e-3, 30e-3, 20)
    log = {"start_s": start, "end_s": done, "waited_s": done + 2e-4}
    times = (log[end] - start) * 1e3
    figures = {"mean_ms": times.mean(), "median_ms": np.median(times), "std_ms": times.std()}
    figures |= {f"p{percent}_ms": np.percentile(times, percent) for percent in (95, 99)}
    found = Timed(figures, {}, log, 20, simulated=False)
    assert latency._mean_median(found) and latency._percentiles(found) and latency._std(found)
    with pytest.raises(Missed, match="mean within 1% of the model's own 16.000 to 16.200 ms"):
        latency._mean_median(Timed({**figures, "mean_ms": 16.4}, {}, log, 20, simulated=False))


def test_in_real_time_a_wait_for_all_calls_together_ends_the_last_one_alone():
    start = np.arange(20) * 0.1
    log = {"start_s": start, "end_s": start + 0.016, "waited_s": np.full(20, start[-1] + 0.018)}
    found = Timed({}, {}, log, 20, simulated=False)
    assert found.bounds(latency._mean) == pytest.approx((16.0, 16.1))


def test_visible_checks_of_right_functions_pass(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("TRT_LAB_ARTIFACTS", str(tmp_path))
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    write(tmp_path, table())
    check_latency(benchmark_latency)
    check_throughput(benchmark_throughput)
    check_measurements()
    assert "✗" not in capsys.readouterr().out


class Folder:
    """A submission that is nothing but its files."""

    def __init__(self, **files):
        self.files = files

    def artifact(self, name):
        return self.files.get(name.partition(".")[0])


def table(scale=1.0, change=lambda name, batch, row: row):
    """Return both files of a machine on which each precision halves the time, as bytes by name."""
    times, rates = [], []
    for index, name in enumerate(NAMES):
        for batch in BATCHES:
            ms = scale * 30.0 * batch / 2**index
            row = dict(mean_ms=ms * 1.02, median_ms=ms, p95_ms=ms * 1.3, p99_ms=ms * 2, std_ms=ms / 9)
            times.append({"name": name, "batch": batch, **change(name, batch, row)})
            rates.append(
                {"name": name, "batch": batch, "images_per_s": batch * 1e3 / (30.0 * batch / 2**index) / scale}
            )
    return {"latency": json.dumps({"rows": times}).encode(), "throughput": json.dumps({"rows": rates}).encode()}


def write(folder, files):
    for name, content in files.items():
        (folder / f"{name}.json").write_bytes(content)


@pytest.mark.parametrize("content", [None, b"not JSON", b"[]", b'{"rows": [1]}', b'{"rows": []}'])
def test_a_file_that_is_incomplete_is_missed_and_not_an_error_of_the_check(content):
    for point in (*results.POINTS, results.fit):
        with pytest.raises(Missed):
            point(Case(Folder(latency=content, throughput=content), 1))


def test_swapped_percentiles_are_out_of_order():
    swapped = table(change=lambda name, batch, row: {**row, "p95_ms": row["p99_ms"], "p99_ms": row["p95_ms"]})
    assert results.order(Case(Folder(**table()), 1))
    with pytest.raises(Missed, match="p95"):
        results.order(Case(Folder(**swapped), 1))


@pytest.mark.parametrize("factor", [1e-3, 1 / 3, 3.0])
@pytest.mark.parametrize("name", ENGINES)
def test_latency_and_throughput_of_each_name_must_fit(name, factor):
    def change(row_name, batch, row):
        return {key: value * (factor if row_name == name else 1) for key, value in row.items()}

    with pytest.raises(Missed, match=name):
        results.fit(Case(Folder(**table(change=change)), 1))


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_latency_and_throughput_of_the_engines_must_fit_within_a_factor_of_two(factor):
    def change(name, batch, row):
        return {key: value * (1 if name == "pytorch-fp32" else factor) for key, value in row.items()}

    with pytest.raises(Missed, match="the engines together"):
        results.fit(Case(Folder(**table(change=change)), 1))


TRUE = {(name, batch): 30.0 * batch / 2**i for i, name in enumerate(NAMES) for batch in BATCHES}


def fresh(seed, load):
    """Return measurements of the table's machine: `load` is the mean of what other programs add, as a share."""
    random = np.random.default_rng(seed)
    return Fresh(lambda key: (TRUE[key] * (1 + random.exponential(load, 6))).tolist())


def saved(seed, load, change=lambda key, ms: ms):
    random = np.random.default_rng([seed, 1])
    honest = {key: float(np.median(ms * (1 + random.exponential(load, 3)))) for key, ms in TRUE.items()}
    return {key: change(key, ms) for key, ms in honest.items()}


@pytest.mark.parametrize("load_then", [0.01, 0.5, 3.0])
@pytest.mark.parametrize("load_now", [0.01, 0.5, 3.0])
def test_an_honest_table_is_accepted_whatever_the_load_then_and_now(load_then, load_now):
    for seed in range(30):
        assert measured(saved(seed, load_then), fresh(seed, load_now), "the latency")


FLATTERED = {
    "all halved": lambda key, ms: ms / 2,
    "engines halved": lambda key, ms: ms if key[0] == "pytorch-fp32" else ms / 2,
    "INT8 by three": lambda key, ms: ms / 3 if key[0] == "int8" else ms,
    "seconds": lambda key, ms: ms / 1e3,
    "one figure for all": lambda key, ms: 12.0,
}


@pytest.mark.parametrize("change", FLATTERED.values(), ids=FLATTERED)
@pytest.mark.parametrize("load", [0.01, 0.3])
def test_a_table_that_flatters_is_refused_beside_other_programs_too(change, load):
    for seed in range(30):
        with pytest.raises(Missed):
            measured(saved(seed, load, change), fresh(seed, load), "the latency")


SLOWED = {
    "FP32 doubled": lambda key, ms: 2 * ms if key[0] == "fp32" else ms,
    "PyTorch for all": lambda key, ms: 30.0 * key[1],
    "microseconds": lambda key, ms: 1e3 * ms,
}


@pytest.mark.parametrize("change", SLOWED.values(), ids=SLOWED)
def test_a_name_that_is_too_slow_is_refused_on_a_quiet_machine(change):
    for seed in range(30):
        with pytest.raises(Missed):
            measured(saved(seed, 0.01, change), fresh(seed, 0.01), "the latency")


def test_a_single_flattered_row_is_refused_on_a_quiet_machine():
    with pytest.raises(Missed, match="fp16 at batch 32"):
        measured(saved(1, 0.01, lambda key, ms: ms / 2 if key == ("fp16", 32) else ms), fresh(1, 0.01), "the latency")


@pytest.mark.parametrize(
    ("latency_by", "throughput_by", "refused"),
    [(1, 1, False), (0.5, 1, False), (0.5, 2, True), (1, 2, True), (1, 0.5, True)],
    ids=["honest", "only latencies", "both", "only throughputs", "throughputs halved"],
)
def test_throughputs_are_held_to_the_latencies_where_these_can_be_true(monkeypatch, latency_by, throughput_by, refused):
    """Beside programs that make an ordinary execution five times as long now, and mostly then."""
    busy = Fresh(lambda key: [TRUE[key] * factor for factor in (1.0, 5.0, 5.0)])
    monkeypatch.setattr(judged_table, "_fresh_times", lambda case: busy)
    load = 1 if latency_by < 1 else 5
    files = {**table(load / throughput_by), "latency": table(load * latency_by)["latency"]}
    case = Case(Folder(**files), 1)
    if refused:
        with pytest.raises(Missed):
            judged_table.throughput_measured(case)
    else:
        assert judged_table.throughput_measured(case)


def test_a_figure_is_held_to_the_log_of_its_own_calls_and_to_the_shortest_execution():
    assert agrees(lambda attempt: (10.0, 1.0 if attempt >= 3 else 2.0), lambda: 9.0, "the latency")
    with pytest.raises(Missed, match="log of the same calls"):
        agrees(lambda attempt: (5.0, 0.5), lambda: 9.0, "the latency")
    with pytest.raises(Missed, match="as the grader finds it"):
        agrees(lambda attempt: (5.0, 1.0), lambda: 9.0, "the latency")


def engine_log(gap_ms, waits=True, calls=40):
    start = np.arange(calls) * (10.0 + gap_ms) / 1e3
    waited = start + 0.010 if waits else np.full(calls, np.nan)
    return {"images": np.full(calls, ENGINE_BATCH), "start_s": start, "end_s": start + 1e-3, "waited_s": waited}


def test_a_rate_of_an_engine_counts_waited_work_and_no_other_work_of_the_loop():
    rate = ENGINE_BATCH * 1e3 / 10
    assert _own_rate(throughput.Timed(rate, ENGINE_BATCH, engine_log(0.01))) == pytest.approx(1, abs=0.02)
    assert _own_rate(throughput.Timed(2 * rate, ENGINE_BATCH, engine_log(0.01))) > 1.5
    assert _own_rate(throughput.Timed(rate, ENGINE_BATCH, engine_log(0.01, waits=False))) == 0
    assert _own_rate(throughput.Timed(rate / 2, ENGINE_BATCH, engine_log(10.0))) < 0.6
