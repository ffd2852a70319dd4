"""A small engine that no student has seen, and the grader's own latency and throughput of it."""

import tempfile
import time
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np

from helpers.points.case import Case
from helpers.probes.networks import EDGE, tiny_onnx
from solutions.checks.operations.engine_model import EngineModel
from solutions.pipeline.build import build_engine
from solutions.pipeline.build_options import BuildOptions

__all__ = ["engine_plan", "trusted_images_per_s", "trusted_latency_ms"]

LARGEST = 8
_IN_FLIGHT = 4
_plans: "WeakKeyDictionary[Case, bytes]" = WeakKeyDictionary()


def engine_plan(case: Case) -> bytes:
    """Return a serialized FP32 engine of a network with fresh weights, for batches 1 to 8."""
    if case not in _plans:
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder) / "small.onnx", Path(folder) / "small.engine"
            source.write_bytes(tiny_onnx(case.number("benchmark.network")))
            build_engine(source, target, BuildOptions(precision="fp32", opt_batch=LARGEST, max_batch=LARGEST))
            _plans[case] = target.read_bytes()
    return _plans[case]


def trusted_latency_ms(plan: bytes, batch: int, num_iterations: int, warmup: int) -> dict[str, float]:
    """Return the engine's `mean` and `median` latency in milliseconds, copies included."""
    with EngineModel(plan, batch) as model:
        images = _images(batch)
        for _ in range(warmup):
            _run(model, images)
        times = [_run(model, images) * 1e3 for _ in range(num_iterations)]
    return {"mean": float(np.mean(times)), "median": float(np.median(times))}


def trusted_images_per_s(plan: bytes, batch: int, seconds: float) -> tuple[float, float]:
    """Return images a second with a wait after each execution, and with four executions in flight."""
    rates = []
    with EngineModel(plan, batch) as model:
        images = _images(batch)
        for group in (1, _IN_FLIGHT):
            _run(model, images, 3)
            executions, start = 0, time.perf_counter()
            while (elapsed := time.perf_counter() - start) < seconds or not executions:
                _run(model, images, group)
                executions += group
            rates.append(executions * batch / elapsed)
    return rates[0], rates[1]


def _run(model: EngineModel, images: np.ndarray, number: int = 1) -> float:
    """Return the seconds of `number` executions, until the last is done."""
    start = time.perf_counter()
    for _ in range(number):
        model(images)
    model.synchronize()
    return time.perf_counter() - start


def _images(batch: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((batch, 3, EDGE, EDGE), dtype=np.float32)
