"""Writing a benchmark as trtexec would log it, so that one parser and one pair of eyes read both.

What is not trtexec's own stays recognisable: the banner says trtlab.bench, and the selected device is the one that ran.
"""

from collections.abc import Sequence
from datetime import datetime

import numpy as np

from trtlab.stats import TAILS, tail
from trtlab.timing.bench import BenchResult

RUNS_PER_AVERAGE = 10
_UNSTABLE_PERCENT = 1.0


def format_log(runs: Sequence[BenchResult], now: datetime | None = None) -> str:
    """Return the log of results, one trtexec-like section each."""
    stamp = (now or datetime.now()).strftime("[%m/%d/%Y-%H:%M:%S]")
    return "".join(_section(run, stamp) for run in runs)


def _section(run: BenchResult, stamp: str) -> str:
    version = f" [TensorRT v{run.tensorrt_version}]" if run.tensorrt_version else ""
    banner = f"trtlab.bench{version} # trtlab bench {run.name} --batch-sizes {run.batch}"
    lines = [*_described(run), *_trace(run), *_summary(run)]
    body = "".join(f"{stamp} [{level}] {text}\n" for level, text in lines)
    return f"&&&& RUNNING {banner}\n{body}&&&& PASSED {banner}\n"


def _described(run: BenchResult) -> list[tuple[str, str]]:
    shape = "x".join(map(str, (run.batch, *run.sample_shape)))
    texts = [
        "=== Model Options ===",
        f"Model: {run.name}",
        "=== Build Options ===",
        f"Precision: {run.precision.upper()}",
        "=== Inference Options ===",
        "Batch: Explicit",
        f"Input inference shape : {run.input_name}={shape}",
        f"Iterations: {len(run.times_ms)}",
        "Data transfers: Disabled",
        "=== Device Information ===",
        f"Selected Device: {run.device}",
    ]
    if run.tensorrt_version:
        texts.append(f"TensorRT version: {run.tensorrt_version}")
    return [("I", text) for text in texts]


def _trace(run: BenchResult) -> list[tuple[str, str]]:
    texts = [
        f"Warmup completed {run.warmup_queries} queries over {run.warmup_ms:g} ms",
        f"Timing trace has {len(run.times_ms)} queries over {_walltime_s(run):g} s",
        "",
        "=== Trace details ===",
        f"Trace averages of {RUNS_PER_AVERAGE} runs:",
    ]
    for start in range(0, len(run.times_ms) - RUNS_PER_AVERAGE + 1, RUNS_PER_AVERAGE):
        part = slice(start, start + RUNS_PER_AVERAGE)
        mean, enqueue = np.mean(run.times_ms[part]), np.mean(run.enqueue_ms[part])
        texts.append(
            f"Average on {RUNS_PER_AVERAGE} runs - GPU latency: {mean:g} ms - Host latency: {mean:g} ms "
            f"(enqueue {enqueue:g} ms)"
        )
    return [("I", text) for text in [*texts, ""]]


def _summary(run: BenchResult) -> list[tuple[str, str]]:
    none = [0.0] * len(run.times_ms)
    texts = [
        "=== Performance summary ===",
        f"Throughput: {len(run.times_ms) / _walltime_s(run):g} qps",
        f"Latency: {_statistics(run.times_ms)}",
        f"Enqueue Time: {_statistics(run.enqueue_ms)}",
        f"H2D Latency: {_statistics(none)}",
        f"GPU Compute Time: {_statistics(run.times_ms)}",
        f"D2H Latency: {_statistics(none)}",
        f"Total Host Walltime: {_walltime_s(run):g} s",
        f"Total GPU Compute Time: {_walltime_s(run):g} s",
    ]
    end = ("I", "Explanations of the performance metrics are printed in the verbose logs.")
    return [*(("I", text) for text in texts), *_stability(run), end, ("I", "")]


def _stability(run: BenchResult) -> list[tuple[str, str]]:
    variance = 100 * np.std(run.times_ms) / np.mean(run.times_ms)
    if variance <= _UNSTABLE_PERCENT:
        return []
    return [("W", f"* GPU compute time is unstable, with coefficient of variance = {variance:g}%.")]


def _walltime_s(run: BenchResult) -> float:
    return float(np.sum(run.times_ms)) / 1e3


def _statistics(times_ms: Sequence[float]) -> str:
    """Return the statistics as `trtlab bench` shows them, without percentiles that so few calls cannot give."""
    tails = [(percent, tail(times_ms, percent)) for percent in TAILS]
    percentiles = "".join(f", percentile({percent}%) = {value:g} ms" for percent, value in tails if value is not None)
    return (
        f"min = {np.min(times_ms):g} ms, max = {np.max(times_ms):g} ms, mean = {np.mean(times_ms):g} ms, "
        f"median = {np.median(times_ms):g} ms{percentiles}"
    )
