"""Is trtexec run with the right arguments, and its log kept? Does our own log look as its does, and read back?

A script stands in for trtexec.
"""

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trtcpu.errors import EngineError, InputError
from trtlab.engines.tensors import InputSpec
from trtlab.stats import LatencyStats
from trtlab.timing.bench import BenchResult
from trtlab.trtexec.bench_log import format_log
from trtlab.trtexec.command import run_trtexec, trtexec_arguments
from trtlab.trtexec.log import STATISTICS, parse_log_text

FIXTURES = Path(__file__).parents[1] / "fixtures" / "trtexec"
TIMING = ["--warmUp=200", "--iterations=10", "--duration=3"]


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, log: str, code: int) -> Path:
    """Put a script in trtexec's place, which prints its arguments and a log; returns where to keep that."""
    script = folder / "trtexec"
    script.write_text(f'#!/bin/sh\necho "# arguments: $*"\ncat "{FIXTURES / log}"\nexit {code}\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder / "t.log"


def test_a_failure_names_its_first_error_and_keeps_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = install(tmp_path, monkeypatch, "v10.16_failed.log", 1)
    with pytest.raises(EngineError, match="exit code 1.*deserializeCudaEngine"):
        run_trtexec([], log, lambda line: None)
    assert "FAILED" in log.read_text()


def test_a_run_that_is_interrupted_keeps_the_log_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = install(tmp_path, monkeypatch, "v10.16_dynamic.log", 0)

    def interrupted(line: str) -> None:
        if "Throughput" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_trtexec(["--onnx=m.onnx", "--fp16"], log, interrupted)
    kept = log.read_text().splitlines()
    assert kept[0] == "# arguments: --onnx=m.onnx --fp16" and kept[-1].endswith("Throughput: 1200.5 qps")


@pytest.mark.parametrize(
    ("asked", "arguments"),
    [
        ({"onnx": "m", "engine": "e", "extra": ["--int8"]}, ["--onnx=m", "--saveEngine=e", *TIMING, "--int8"]),
        ({"engine": "e"}, ["--loadEngine=e", *TIMING]),
        ({"extra": ["--onnx=m", "--warmUp=5"]}, [*TIMING[1:], "--onnx=m", "--warmUp=5"]),
    ],
)
def test_building_saves_an_engine_loading_loads_it_and_what_is_passed_on_wins(asked: dict, arguments: list) -> None:
    assert trtexec_arguments(**asked, must_exist=False) == arguments


@pytest.mark.parametrize(("wrong", "said"), [({}, "needs a model"), ({"engine": "/no/such"}, "no such file")])
def test_impossible_calls_are_refused(wrong: dict, said: str) -> None:
    with pytest.raises(InputError, match=said):
        trtexec_arguments(**wrong)


TIMES = list(np.random.default_rng(0).gamma(4, 0.5, 205))


def logged(**changes: Any) -> BenchResult:
    """A made-up result."""
    times = changes.pop("times_ms", TIMES)
    told = dict(
        name="int8", batch=8, precision="int8",
        inputs={"x": InputSpec("x", np.dtype("float32"), *[(8, 3, 224, 224)] * 3)},
        device="CPU engine, test", tensorrt_version="10.16.1.11+cpu", enqueue_ms=[0.1] * len(times),
        warmup_queries=20, warmup_ms=200.0, images_per_s=0.0, size_bytes=None, peak_memory_bytes=None,
    )  # fmt: skip
    return BenchResult(**{**told, "stats": LatencyStats.from_ms(times), "times_ms": times, **changes})


def test_each_result_reads_back_to_its_figures_and_a_baseline_claims_no_tensorrt() -> None:
    results = [logged(), logged(batch=1, tensorrt_version=None), logged(times_ms=[1.0], enqueue_ms=[0.5])]
    runs = parse_log_text(format_log(results))
    assert [run.batch for run in runs] == [8, 1, 8] and runs[1].said["tensorrt_version"] is None
    said = {"gpu": "CPU engine, test", "tensorrt_version": "10.16.1.11+cpu", "logged_precision": "INT8", "passed": True}
    assert said.items() <= runs[0].said.items() and runs[0].metrics["enqueue"]["mean_ms"] == pytest.approx(0.1)
    assert runs[0].said["throughput_qps"] == pytest.approx(205 / sum(TIMES) * 1e3, rel=1e-5)


def test_every_line_has_trtexecs_prefix() -> None:
    lines = format_log([logged()], datetime(2026, 11, 20, 9, 5, 7)).splitlines()
    assert all(re.match(r"&&&& |\[11/20/2026-09:05:07\] \[[IW]\] ", line) for line in lines)


def test_unstable_times_are_warned_about_as_trtexec_does() -> None:
    assert "coefficient of variance" in format_log([logged()])
    assert "coefficient of variance" not in format_log([logged(times_ms=[1.0] * 20, enqueue_ms=[0.1] * 20)])


@pytest.mark.parametrize("number", [1, 19, 20, 99, 100, 205])
def test_the_log_tells_the_statistics_that_the_table_tells(number: int) -> None:
    times = TIMES[:number]
    (run,) = parse_log_text(format_log([logged(times_ms=times, enqueue_ms=times)]))
    stats = vars(LatencyStats.from_ms(times))
    assert run.metrics["latency"] == {name: stats[name] and float(f"{stats[name]:g}") for name in STATISTICS}
