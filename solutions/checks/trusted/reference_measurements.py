"""The reference latency.json and throughput.json: the pipeline's own measurements of the reference engines."""

from pathlib import Path
from typing import Any

from helpers.backend import DEVICE
from helpers.files import write_json
from helpers.lab import MODEL, PROFILE_BATCHES, QUICK, THROUGHPUT_SECONDS, iterations
from solutions.checks.trusted.stages import Reference, Stage
from solutions.pipeline.bench import BenchOptions, bench
from solutions.pipeline.runners import Runner, RunnerSpec, load_runner
from solutions.pipeline.throughput import measure_throughput

__all__ = ["MEASURED_ENGINES", "STAGES"]

MEASURED_ENGINES = {
    "fp32": "resnet50_fp32.engine",
    "fp16": "resnet50_dynamic_fp16.engine",
    "int8": "resnet50_int8.engine",
}
"""The engines that step 6 measures, beside PyTorch, by the names of their rows."""

_BATCHES = (PROFILE_BATCHES[0], 4, PROFILE_BATCHES[1], 16, PROFILE_BATCHES[2])
_STATISTICS = ("mean_ms", "median_ms", "p95_ms", "p99_ms", "std_ms")


def _measure(reference: Reference, folder: Path) -> None:
    """Measure PyTorch and the reference engines in turns."""
    runners = [load_runner(RunnerSpec("pytorch", MODEL, name="pytorch-fp32"))]
    for name, file in MEASURED_ENGINES.items():
        runners.append(load_runner(RunnerSpec("engine", str(reference.path(file)), name=name)))
    try:
        _write(folder / "latency.json", _latency(runners))
        _write(folder / "throughput.json", _throughput(runners))
    finally:
        for runner in runners:
            runner.close()


def _latency(runners: list[Runner]) -> list[dict[str, Any]]:
    rows = []
    for batch in _BATCHES:
        options = BenchOptions(batch_sizes=(batch,), iterations=iterations(batch), warmup_ms=100.0)
        for result in bench(runners, options):
            figures = {key: getattr(result.stats, key) for key in _STATISTICS}
            rows.append({"name": result.name, "batch": batch, **figures})
    return rows


def _throughput(runners: list[Runner]) -> list[dict[str, Any]]:
    found = measure_throughput(runners, _BATCHES, seconds=THROUGHPUT_SECONDS, rounds=2 if QUICK else 4)
    return [{"name": result.name, "batch": result.batch, "images_per_s": result.images_per_s} for result in found]


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    write_json(path, {"engine": DEVICE, "model": MODEL, "rows": rows})


STAGES = (Stage(("latency.json", "throughput.json"), tuple(MEASURED_ENGINES.values()), _measure),)
