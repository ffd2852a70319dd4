"""Does our own log look as trtexec's does, and does it read back to the same figures?"""

import re
from datetime import datetime
from typing import Any

import numpy as np
import pytest

from trtlab.engines.tensors import InputSpec
from trtlab.stats import LatencyStats
from trtlab.timing.bench import BenchResult
from trtlab.trtexec.bench_log import format_log
from trtlab.trtexec.log import STATISTICS, parse_log_text

IMAGES = (8, 3, 224, 224)
TIMES = list(np.random.default_rng(0).gamma(4, 0.5, 205))


def logged(**changes: Any) -> BenchResult:
    """A made-up result."""
    times = changes.pop("times_ms", TIMES)
    told = dict(
        name="int8", batch=8, inputs={"x": InputSpec("x", np.dtype("float32"), *[IMAGES] * 3)}, precision="int8",
        device="CPU engine, test", tensorrt_version="10.16.1.11+cpu", enqueue_ms=[0.1] * len(times),
        warmup_queries=20, warmup_ms=200.0, images_per_s=0.0, size_bytes=None, peak_memory_bytes=None,
    )  # fmt: skip
    return BenchResult(**{**told, "stats": LatencyStats.from_ms(times), "times_ms": times, **changes})


def test_the_log_reads_back_to_the_measured_figures() -> None:
    (run,) = parse_log_text(format_log([logged()]))
    assert run.metrics["enqueue"]["mean_ms"] == pytest.approx(0.1)
    assert run.said["throughput_qps"] == pytest.approx(205 / sum(TIMES) * 1e3, rel=1e-5)
    said = {"gpu": "CPU engine, test", "tensorrt_version": "10.16.1.11+cpu", "logged_precision": "INT8", "passed": True}
    assert {key: run.said[key] for key in said} == said


def test_every_line_has_trtexecs_prefix() -> None:
    for line in format_log([logged()], datetime(2026, 11, 20, 9, 5, 7)).splitlines():
        assert line.startswith("&&&& ") or re.match(r"\[11/20/2026-09:05:07\] \[[IW]\] ", line)


def test_each_result_has_a_section_and_a_baseline_claims_no_tensorrt() -> None:
    results = [logged(), logged(batch=1, tensorrt_version=None), logged(times_ms=[1.0], enqueue_ms=[0.5])]
    runs = parse_log_text(format_log(results))
    assert [run.batch for run in runs] == [8, 1, 8] and runs[1].said["tensorrt_version"] is None


def test_unstable_times_are_warned_about_as_trtexec_does() -> None:
    assert "coefficient of variance" in format_log([logged()])
    assert "coefficient of variance" not in format_log([logged(times_ms=[1.0] * 20, enqueue_ms=[0.1] * 20)])


@pytest.mark.parametrize("number", [1, 19, 20, 99, 100, 205])
def test_the_log_tells_the_statistics_that_the_table_tells(number: int) -> None:
    times = TIMES[:number]
    (run,) = parse_log_text(format_log([logged(times_ms=times, enqueue_ms=times)]))
    stats = vars(LatencyStats.from_ms(times))
    assert run.metrics["latency"] == {name: stats[name] and float(f"{stats[name]:g}") for name in STATISTICS}
