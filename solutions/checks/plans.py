"""Runs plans and ONNX files on the trusted side, for claims that are settled from an artifact."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime

from helpers.backend import ENGINE
from helpers.errors import LabError
from helpers.probes.builds import plan_facts
from solutions.checks.claims import Missed
from solutions.pipeline.inference import InferenceEngine

if TYPE_CHECKING:
    from helpers.cpu_engine.plan import Plan

__all__ = ["check_outputs", "check_size", "facts_of", "onnx_outputs", "relative_error", "run_plan", "same_network"]

HALF_TOLERANCE = 0.08
INT8_TOLERANCE = 0.25

HALF_SIZE, INT8_SIZE = 0.6, 0.45
"""Most of the ONNX file's size, which tells a plan's precision without layer details and on every processor."""


@lru_cache(maxsize=4)
def _session(model: bytes) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])


def onnx_outputs(model: bytes, images: np.ndarray) -> np.ndarray:
    """Return ONNX Runtime's float32 outputs [N, classes] for images [N, 3, H, W]."""
    session = _session(model)
    return session.run(None, {session.get_inputs()[0].name: images})[0]


def facts_of(plan: bytes | None, what: str) -> dict[str, Any]:
    """Return `plan_facts`; raise Missed where there is no plan or it is no engine of this TensorRT."""
    if not plan:
        raise Missed(f"{what} to be a serialized engine", "nothing", "return what build_serialized_network gives")
    facts = plan_facts(plan)
    if facts is None:
        raise Missed(
            f"{what} to be an engine that this TensorRT can load",
            f"{len(plan):,} bytes that it cannot deserialize",
            "write and return the serialized network itself, unchanged",
        )
    return facts


def run_plan(plan: bytes, images: np.ndarray) -> np.ndarray:
    """Return a plan's outputs [N, classes]; raise Missed where it cannot take these images."""
    try:
        with InferenceEngine(plan) as engine:
            return engine.infer(images)
    except LabError as error:
        raise Missed(
            f"the engine to run a batch of shape {images.shape}", str(error), "check its input, output and profile"
        ) from error


def same_network(plan: bytes, other: bytes) -> bool:
    """Return whether two plans hold the same compiled network: what the one gives, and how fast, the other does too.

    The CPU engine's builds of one file are alike; TensorRT times its kernels anew, so of its plans this is never known.
    """
    if plan == other or ENGINE != "cpu":
        return plan == other
    return _cpu_plan(plan).computes_as(_cpu_plan(other))


@lru_cache(maxsize=4)
def _cpu_plan(plan: bytes) -> "Plan":
    from helpers.cpu_engine.plan import Plan

    return Plan.deserialize(plan)


def relative_error(outputs: np.ndarray, expected: np.ndarray) -> float:
    """Return the L2 norm of the difference over the norm of what is expected."""
    return float(np.linalg.norm(outputs - expected) / max(np.linalg.norm(expected), 1e-12))


def check_size(plan: bytes, model: bytes, most: float) -> str:
    """Return evidence that a plan's weights are of a small type, by its size; raise Missed where they are not."""
    share = len(plan) / len(model)
    if share > most:
        width = "two bytes" if most == HALF_SIZE else "one byte"
        expected = f"less than {most:.0%} of the ONNX file's size: most weights take {width} instead of four"
        raise Missed(expected, f"{share:.0%}", "look at the precision flags of the configuration that is built")
    return f"{len(plan):,} bytes, {share:.0%} of the ONNX file's"


def check_outputs(plan: bytes, model: bytes, images: np.ndarray, tolerance: float) -> str:
    """Return evidence that the plan computes what the ONNX model does; raise Missed where it does not."""
    outputs, expected = run_plan(plan, images), onnx_outputs(model, images)
    if outputs.shape != expected.shape:
        raise Missed(
            f"outputs of shape {expected.shape} for a batch of {len(images)}",
            str(outputs.shape),
            "build from the network that the parser filled",
        )
    error = relative_error(outputs, expected)
    if not error <= tolerance:
        raise Missed(
            f"the model's outputs within {tolerance:.0%} at batch {len(images)}",
            f"a relative error of {error:.1%}",
            "build from the ONNX file that is passed in, with its weights unchanged",
        )
    return f"relative error {error:.2%} at batch {len(images)}"
