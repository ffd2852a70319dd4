"""What contradicts itself is measured once more, times and throughput both. Time is simulated."""

import pytest

from tests.trtlab.timing.simulated import Clock, Device
from trtlab.running.recipe import measure_again
from trtlab.timing import bench
from trtlab.timing.bench import BenchOptions, Throughput

OPTIONS = BenchOptions((1, 8), iterations=120, warmup_ms=0)


@pytest.fixture
def devices(monkeypatch) -> list[Device]:
    """Two devices of 2 ms and 4 ms an execution, at any batch."""
    clock = Clock()
    monkeypatch.setattr(bench, "time", clock)
    return [Device("a", 2.0, clock), Device("b", 4.0, clock)]


def latencies(**medians: float) -> list[dict]:
    return [{"name": name, "batch": 8, "median_ms": ms, "p99_ms": 9.0, "size_bytes": 7} for name, ms in medians.items()]


def test_only_what_contradicts_itself_is_measured_again(devices):
    sound, shown = Throughput("a", 8, 4000.0, executions=50, seconds=0.1), []
    rates = [sound, Throughput("b", 8, 100.0, executions=5, seconds=0.4)]
    rows = measure_again(devices, latencies(a=2.0, b=4.0), rates, OPTIONS, seconds=0.1, progress=shown.append)
    assert rows[0] == {"name": "a", "batch": 8, "images_per_s": 4000.0, "executions": 50, "seconds": 0.1}
    assert rows[1]["images_per_s"] == pytest.approx(8 / 0.004)
    assert rows[1]["median_ms"] == pytest.approx(4.0) and rows[1]["iterations"] == 120
    assert "size_bytes" not in rows[1], "sizes stay latency.json's"
    assert shown[0] == "batch 8: b again, times contradict throughput"


def test_disturbed_times_are_replaced_as_well(devices):
    sound = Throughput("b", 8, 2000.0, executions=50, seconds=0.2)
    (row,) = measure_again(devices, latencies(b=40.0), [sound], OPTIONS, seconds=0.1)
    assert row["median_ms"] == row["p99_ms"] == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("medians", "rate"),
    [({"b": 4.0}, 2000 / 2.9), ({"b": 4.0}, 2000 * 2.9), ({}, 100.0)],
)
def test_up_to_three_times_is_no_contradiction_and_what_has_no_latency_contradicts_nothing(devices, medians, rate):
    counted = Throughput("b", 8, rate, executions=5, seconds=1.0)
    (row,) = measure_again(devices, latencies(**medians), [counted], OPTIONS, seconds=0.1)
    assert row["images_per_s"] == rate
