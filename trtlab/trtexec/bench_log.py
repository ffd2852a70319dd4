"""Writing a benchmark as trtexec would log it, so that one parser and one pair of eyes read both.

What is not trtexec's own stays recognisable: the banner says trtlab.bench, and the selected device is the one that ran.
"""

from collections.abc import Sequence
from datetime import datetime

import numpy as np

from trtlab.engines.tensors import shape_text
from trtlab.stats import TAILS, tail
from trtlab.timing.bench import BenchResult

_UNSTABLE_PERCENT = 1.0
_SECTION = """\
=== Model Options ===
Model: {run.name}
=== Build Options ===
Precision: {precision}
=== Inference Options ===
Batch: Explicit
Input inference shape : {input.name}={shape}
Iterations: {calls}
Data transfers: Disabled
=== Device Information ===
Selected Device: {run.device}
{version}Warmup completed {run.warmup_queries} queries over {run.warmup_ms:g} ms
Timing trace has {calls} queries over {walltime_s:g} s

=== Performance summary ===
Throughput: {qps:g} qps
Latency: {latency}
Enqueue Time: {enqueue}
H2D Latency: {nothing}
GPU Compute Time: {latency}
D2H Latency: {nothing}
Total Host Walltime: {walltime_s:g} s
Total GPU Compute Time: {walltime_s:g} s
{warning}Explanations of the performance metrics are printed in the verbose logs.
"""


def format_log(runs: Sequence[BenchResult], now: datetime | None = None) -> str:
    """Return the log of results, one trtexec-like section each."""
    stamp = (now or datetime.now()).strftime("[%m/%d/%Y-%H:%M:%S]")
    return "".join(_section(run, stamp) for run in runs)


def _section(run: BenchResult, stamp: str) -> str:
    version = f" [TensorRT v{run.tensorrt_version}]" if run.tensorrt_version else ""
    banner = f"trtlab.bench{version} # trtlab bench {run.name} --batch-sizes {run.batch}"
    first = next(iter(run.inputs.values()))
    calls, walltime_s = len(run.times_ms), float(np.sum(run.times_ms)) / 1e3
    variance = 100 * np.std(run.times_ms) / np.mean(run.times_ms)
    unstable = f"* GPU compute time is unstable, with coefficient of variance = {variance:g}%.\n"
    text = _SECTION.format(
        run=run,
        input=first,
        precision=run.precision.upper(),
        shape=shape_text((run.batch, *first.best[1:])),
        calls=calls,
        walltime_s=walltime_s,
        qps=calls / walltime_s,
        version=f"TensorRT version: {run.tensorrt_version}\n" if run.tensorrt_version else "",
        latency=_statistics(run.times_ms),
        enqueue=_statistics(run.enqueue_ms),
        nothing=_statistics([0.0] * calls),
        warning=unstable if variance > _UNSTABLE_PERCENT else "",
    )
    levels = ((line, "W" if line.startswith("* ") else "I") for line in text.split("\n"))
    body = "".join(f"{stamp} [{level}] {line}\n" for line, level in levels)
    return f"&&&& RUNNING {banner}\n{body}&&&& PASSED {banner}\n"


def _statistics(times_ms: Sequence[float]) -> str:
    """Return the statistics as `trtlab bench` shows them, without percentiles that so few calls cannot give."""
    tails = [(percent, tail(times_ms, percent)) for percent in TAILS]
    percentiles = "".join(f", percentile({percent}%) = {value:g} ms" for percent, value in tails if value is not None)
    return (
        f"min = {np.min(times_ms):g} ms, max = {np.max(times_ms):g} ms, mean = {np.mean(times_ms):g} ms, "
        f"median = {np.median(times_ms):g} ms{percentiles}"
    )
