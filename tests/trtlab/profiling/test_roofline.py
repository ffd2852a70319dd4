"""Does the roofline follow its formula, and is the measured peak near what NumPy reaches?"""

import time

import numpy as np
import pytest

from trtlab.profiling.roofline import Roofline, measure_roofline

ROOF = Roofline("test", {"fp32": 100.0}, 10.0)


def test_the_ridge_separates_memory_from_compute() -> None:
    assert ROOF.ridge("fp32") == 10.0
    assert [ROOF.bound("fp32", intensity) for intensity in (9.9, 10.0, 50.0)] == ["memory", "compute", "compute"]


def test_the_least_time_is_the_slower_of_arithmetic_and_memory() -> None:
    assert ROOF.least_ms("fp32", 100e6, 1e6) == pytest.approx(1.0)
    assert ROOF.least_ms("fp32", 1e6, 100e6) == pytest.approx(10.0)


def test_a_precision_that_was_not_measured_has_no_bound() -> None:
    assert ROOF.ridge("int8") is ROOF.bound("int8", 5.0) is ROOF.least_ms("int8", 1, 1) is None
    assert ROOF.bound("fp32", None) is None


def test_a_rate_that_was_attained_raises_the_peak_of_its_precision_alone() -> None:
    raised = ROOF.raised([("fp32", 50.0), ("fp32", 150.0), ("int8", 900.0)])
    assert raised.peak_gflops == {"fp32": 150.0}
    assert ROOF.peak_gflops == {"fp32": 100.0}


def test_the_measured_peaks_are_near_numpys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("helpers.engine.peaks.COPY_BYTES", {"cpu": 1 << 26})
    roof = measure_roofline(["fp32", "fp16", "int8", "other"], "cpu")
    assert sorted(roof.peak_gflops) == ["fp16", "fp32", "int8"]
    left = np.ones((1024, 1024), np.float32)
    source = np.ones(1 << 26, np.uint8)
    gflops = 2 * 1024**3 / _best(lambda: left @ left) / 1e9
    copied = 2 * source.nbytes / _best(lambda: source.copy()) / 1e9
    assert gflops / 10 < roof.peak_gflops["fp32"] < gflops * 10
    assert all(peak > gflops / 10 for peak in roof.peak_gflops.values())  # no slow kernel of an odd type
    assert copied / 10 < roof.bandwidth_gb_s < copied * 10


def _best(work) -> float:
    times = []
    for _ in range(6):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
