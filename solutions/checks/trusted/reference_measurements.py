"""The reference latency.json and throughput.json: the pipeline's own measurements of the reference engines."""

from pathlib import Path
from typing import Any

from helpers.checks.points.s06_benchmark.latency import STATISTICS
from helpers.course.settings import BASELINE, BATCHES, ENGINES, MODEL, QUICK, THROUGHPUT_SECONDS, iterations
from helpers.engine.backend import DEVICE
from helpers.tools.files import write_json
from solutions.checks.trusted.stages import Reference, Stage
from trtlab.stats import percentile
from trtlab.timing.bench import BenchOptions, bench
from trtlab.timing.runners import Runner, RunnerSpec, load_runner
from trtlab.timing.throughput import measure_throughput


def _measure(reference: Reference, folder: Path) -> None:
    """Measure PyTorch and the reference engines in turns."""
    runners = [load_runner(RunnerSpec("pytorch", MODEL, name=BASELINE))]
    for name, file in ENGINES.items():
        runners.append(load_runner(RunnerSpec("engine", str(reference.path(file)), name=name)))
    try:
        _write(folder / "latency.json", _latency(runners))
        _write(folder / "throughput.json", _throughput(runners))
    finally:
        for runner in runners:
            runner.close()


def _latency(runners: list[Runner]) -> list[dict[str, Any]]:
    rows = []
    for batch in BATCHES:
        (once,) = bench(runners[:1], BenchOptions(batch_sizes=(batch,), iterations=3, warmup_ms=1.0))
        times = iterations(once.stats.median_ms)
        for result in bench(runners, BenchOptions(batch_sizes=(batch,), iterations=times, warmup_ms=100.0)):
            figures = {key: getattr(result.stats, key) for key in STATISTICS}
            tails = {f"p{percent}_ms": percentile(result.times_ms, percent) for percent in (95, 99)}  # of few calls too
            rows.append({"name": result.name, "batch": batch, **figures, **tails})
    return rows


def _throughput(runners: list[Runner]) -> list[dict[str, Any]]:
    found = measure_throughput(runners, BATCHES, seconds=THROUGHPUT_SECONDS, rounds=2 if QUICK else 4)
    return [{"name": result.name, "batch": result.batch, "images_per_s": result.images_per_s} for result in found]


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    write_json(path, {"engine": DEVICE, "model": MODEL, "rows": rows})


STAGES = (Stage(("latency.json", "throughput.json"), tuple(ENGINES.values()), _measure),)
