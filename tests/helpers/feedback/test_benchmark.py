"""The visible checks of the benchmark step: a right function passes, a wrong one is told what was expected."""

import json
import time

import numpy as np
import pytest

from helpers.feedback import check_latency, check_measurements, check_throughput
from helpers.feedback.checklist import NotYet

NAMES, BATCHES = ("pytorch-fp32", "fp32", "fp16", "int8"), (1, 4, 8, 16, 32)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TRT_LAB_ARTIFACTS", str(tmp_path))
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    return tmp_path


def latency(model, input_data, num_iterations=1000, warmup=10, unit=1e3, wait=True, p95=95):
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
    return {**figures, "p95_ms": np.percentile(times, p95), "p99_ms": np.percentile(times, 99)}


def throughput(model, batch_size, duration_sec=60, images=None, wait=True):
    batch = np.zeros((batch_size, 3, 224, 224), np.float32)
    model(batch)
    model.synchronize()
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < duration_sec:
        model(batch)
        done += images or batch_size
        if wait:
            model.synchronize()
    return done / (time.perf_counter() - start)


def test_right_functions_pass(capsys):
    check_latency(latency)
    check_throughput(throughput)
    assert "✗" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "missed"),
    [
        ({"unit": 1.0}, "✗ milliseconds"),
        ({"wait": False}, "✗ every time ends with a wait"),
        ({"p95": 99}, "✗ 95 % of the latencies lie below p95"),
    ],
)
def test_a_wrong_latency_is_told_apart(capsys, change, missed):
    with pytest.raises(NotYet):
        check_latency(lambda *args, **kwargs: latency(*args, **kwargs, **change))
    assert missed in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "missed"),
    [({"images": 1}, "✗ images, not batches, per second"), ({"wait": False}, "✗ only finished work counts")],
)
def test_a_wrong_throughput_is_told_apart(capsys, change, missed):
    with pytest.raises(NotYet):
        check_throughput(lambda *args, **kwargs: throughput(*args, **kwargs, **change))
    assert missed in capsys.readouterr().out


def test_a_function_that_is_not_written_yet_is_named(capsys):
    def benchmark_latency(model, input_data, num_iterations=1000, warmup=10):
        raise NotImplementedError

    with pytest.raises(NotYet):
        check_latency(benchmark_latency)
    assert "the TODO is still there" in capsys.readouterr().out


def write(folder, milliseconds=1.0):
    keys = {"mean_ms": 10.5, "median_ms": 10.0, "p95_ms": 12.0, "p99_ms": 15.0, "std_ms": 1.0}
    rows = [{"name": name, "batch": batch} for name in NAMES for batch in BATCHES]
    slow = [{**row, **{key: value * row["batch"] * milliseconds for key, value in keys.items()}} for row in rows]
    (folder / "latency.json").write_text(json.dumps({"rows": slow}))
    fast = [{**row, "images_per_s": 95.0} for row in rows]
    (folder / "throughput.json").write_text(json.dumps({"rows": fast}))
    return folder / "latency.json", folder / "throughput.json"


def test_files_that_fit_each_other_pass(folder):
    check_measurements(*write(folder))


def test_seconds_in_the_file_do_not_fit_the_throughput(folder, capsys):
    with pytest.raises(NotYet):
        check_measurements(*write(folder, milliseconds=1e-3))
    assert "✗ latency and throughput fit each other" in capsys.readouterr().out


def test_a_missing_file_is_named(folder, capsys):
    with pytest.raises(NotYet):
        check_measurements(folder / "latency.json", folder / "throughput.json")
    assert "✗ latency.json is complete" in capsys.readouterr().out
