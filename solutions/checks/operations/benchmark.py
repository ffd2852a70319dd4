"""Calls a student's benchmark functions with models of known timing, and with a real engine."""

from numbers import Real
from typing import Any

import numpy as np

from helpers.probes.answer import Notebook as Submission
from helpers.probes.answer import probe as operation
from helpers.probes.timed import TimedModel, content_sum
from solutions.checks.operations.engine_model import EngineModel, LoggedModel

__all__ = ["engine_latency", "engine_throughput", "probe_latency", "probe_throughput"]

_SHAPE = (3, 224, 224)


@operation
def probe_latency(
    submission: Submission, *, model: dict[str, Any], batch: int, counts: dict[str, int], attempt: int
) -> dict[str, Any]:
    """Call benchmark_latency with a TimedModel.

    Args:
        model: TimedModel's arguments.
        counts: `num_iterations` and `warmup`; what is not there is left to the function's defaults.
        attempt: makes a repeated call another request.

    Returns:
        `returned`, the numbers that came back by name (None where it is no dictionary), `returned_type`, and `log`,
        whose `given` is the `content_sum` of the input.
    """
    benchmark, timed = submission["benchmark_latency"], TimedModel(**model)
    images = _images(batch, attempt)
    given = content_sum(images)
    returned = benchmark(timed, images, **counts)
    log = {**timed.log(), "given": given}
    return {"returned": _numbers(returned), "returned_type": type(returned).__name__, "log": log}


@operation
def probe_throughput(
    submission: Submission, *, model: dict[str, Any], batch: int, duration_sec: float, attempt: int
) -> dict[str, Any]:
    """Call benchmark_throughput with a TimedModel; `returned` is its number, or its numbers by name."""
    benchmark, timed = submission["benchmark_throughput"], TimedModel(**model)
    returned = benchmark(timed, batch, duration_sec=duration_sec)
    return {"returned": _number(returned), "returned_type": type(returned).__name__, "log": timed.log()}


@operation
def engine_latency(
    submission: Submission, *, plan: bytes, batch: int, counts: dict[str, int], attempt: int
) -> dict[str, Any]:
    """Call benchmark_latency with an engine; `log` holds when its executions started and were waited for."""
    benchmark = submission["benchmark_latency"]
    with EngineModel(plan, batch) as model:
        logged = LoggedModel(model)
        returned = benchmark(logged, _images(batch, attempt), **counts)
    return {"returned": _numbers(returned), "returned_type": type(returned).__name__, "log": logged.log()}


@operation
def engine_throughput(
    submission: Submission, *, plan: bytes, batch: int, duration_sec: float, attempt: int
) -> dict[str, Any]:
    """Call benchmark_throughput with an engine; `log` as for `engine_latency`."""
    benchmark = submission["benchmark_throughput"]
    with EngineModel(plan, batch) as model:
        logged = LoggedModel(model)
        returned = benchmark(logged, batch, duration_sec=duration_sec)
    return {"returned": _number(returned), "returned_type": type(returned).__name__, "log": logged.log()}


def _images(batch: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((batch, *_SHAPE), dtype=np.float32)


def _numbers(returned: Any) -> dict[str, float] | None:
    if not isinstance(returned, dict):
        return None
    found = {str(key): _real(value) for key, value in returned.items()}
    return {key: value for key, value in found.items() if value is not None}


def _number(returned: Any) -> float | dict[str, float] | None:
    return _numbers(returned) if isinstance(returned, dict) else _real(returned)


def _real(value: Any) -> float | None:
    """Return a number as a float: Python's, NumPy's, or a tensor's of one element; None for anything else."""
    if isinstance(value, (bool, str)):
        return None
    try:
        return float(value) if isinstance(value, Real) or getattr(value, "ndim", None) == 0 else None
    except (TypeError, ValueError):
        return None
