"""Engines of small random networks, built on the trusted side for claims that run them in the student's code."""

import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from helpers.probes.networks import EDGE, tiny_onnx
from solutions.checks.trusted.plans import onnx_outputs
from solutions.pipeline.build import build_engine
from solutions.pipeline.build_options import BuildOptions

__all__ = ["SmallPlan", "row_errors", "small_plan"]


@dataclass(frozen=True)
class SmallPlan:
    """A serialized engine, the ONNX model it was built from, and its images' edge in pixels."""

    plan: bytes
    onnx: bytes
    edge: int

    def expected(self, images: np.ndarray) -> np.ndarray:
        """Return ONNX Runtime's float32 outputs [N, classes]."""
        return onnx_outputs(self.onnx, images)


@lru_cache(maxsize=16)
def small_plan(
    seed: int,
    precision: str = "fp32",
    batches: tuple[int, int, int] = (1, 8, 32),
    *,
    edge: int = EDGE,
    classes: int = 10,
    fixed: bool = False,
) -> SmallPlan:
    """Build a small network with random weights; `fixed` gives a network of exactly the largest batch."""
    onnx = tiny_onnx(seed, classes, batches[2] if fixed else "batch", (3, edge, edge))
    sizes = {} if fixed else dict(zip(("min_batch", "opt_batch", "max_batch"), batches, strict=True))
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "small.onnx", Path(folder) / "small.engine"
        source.write_bytes(onnx)
        build_engine(source, target, BuildOptions(precision, **sizes))
        return SmallPlan(target.read_bytes(), onnx, edge)


def row_errors(outputs: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return each row's relative L2 error, [N]: a single wrong row must not drown among right ones."""
    expected = expected.astype(np.float64)  # memory that was never written may hold numbers whose square overflows
    return np.linalg.norm(outputs - expected, axis=1) / np.maximum(np.linalg.norm(expected, axis=1), 1e-12)
