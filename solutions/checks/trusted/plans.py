"""Runs plans and ONNX files on the trusted side, for points that are decided from an artifact."""

from collections.abc import Callable

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.case import Case
from helpers.checks.points.pure import outputs_near
from helpers.checks.probes.builds import computes_as
from helpers.engine.backend import ENGINE
from helpers.tools.outputs import onnx_outputs, relative_error
from helpers.toys.networks import EDGE, wide_onnx
from trtcpu.errors import LabError
from trtlab.engines.served import batches_of, inferred, model_outputs, predicted

HALF_TOLERANCE = 0.02
"""For the probes' small networks, where right engines measured up to 0.1 % in FP16 and 0.6 % in BF16."""
FP32_TOLERANCE = 0.003 if ENGINE == "tensorrt" else 0.0002
"""The same in FP32: on a GPU that is TF32 with FP16's ten bits. The CPU engine was off by 3e-7, and by 0.05 % or more
with weights in FP16. Weights cut to eight bits cost 0.7 % or more."""
_LEAST_TOLERANCE, _OWN_ERROR = 0.01, 2.0
"""An engine of the lab's model may be off by this, or by this many times the reference engine's error."""
INT8_TOLERANCE = 0.25

_BUILDS = 3  # all three in FP32: one right function in 2,700


def small_on_a_gpu(build: Callable[..., builders.Built], function: str, seed: int, most: float) -> str:
    """Return evidence that `build` makes an engine of a wide model with weights of a small type, on TensorRT.

    For a probe's usual network TensorRT may find FP32 fastest, and the plan is mostly kernels. Then only the requested
    precision would count, which the student's side reports. The CPU engine's plans have their layers' precisions.

    A probe's builds take the first kernels that work, sometimes (one of 14 on an H200) all in FP32. An engine can only
    be small if the type is allowed, so one small engine of _BUILDS is enough.
    """
    if ENGINE != "tensorrt":
        return "read in the plan"
    model = wide_onnx(seed)
    for number in range(_BUILDS):
        plan = builders.plan_of(build(model, fresh=number > 0), function)
        if len(plan) <= most * len(model):
            break
    return builders.small_enough(plan, model, most)


def images(case: Case, purpose: str, number: int) -> np.ndarray:
    """Return float32 [number, 3, 224, 224] of noise."""
    return case.random(f"{purpose}.images").standard_normal((number, 3, EDGE, EDGE)).astype(np.float32)


def run_plan(plan: bytes, images: np.ndarray, by: Callable[[bytes, np.ndarray], np.ndarray] = inferred) -> np.ndarray:
    """Return a plan's outputs [N, classes]; raise Missed if it cannot run these images."""
    try:
        return by(plan, images)
    except LabError as error:
        found = str(error).partition("; ")[0]  # the rest is advice for the command line
        asked = f"the engine to run a batch of shape {images.shape}"
        raise Missed(asked, found, "check its input, output and profile") from error


def drift_of(plan: bytes, model: bytes, images: np.ndarray) -> float:
    """Return the relative difference of an engine's outputs on images [N, 3, 224, 224] from the FP32 model's.

    Raises:
        Missed: it is not an engine.
    """
    builders.facts_of(plan, "the engine")
    return relative_error(predicted(plan, images), model_outputs(model, images))


def largest_batch(plan: bytes, most: int = 8) -> int:
    """Return the largest batch that a plan takes, at most `most`: a wrong profile loses another point."""
    return min(most, batches_of(plan)[-1])


def same_network(plan: bytes, other: bytes) -> bool:
    """Return whether two plans hold the same compiled network, so that their outputs and speed are the same.

    The CPU engine's builds of one file are equal. TensorRT times its kernels in each build, so its plans differ.
    """
    return plan == other or (ENGINE == "cpu" and computes_as(plan, other))


def as_exact_as(trusted: bytes, plan: bytes, model: bytes, images: np.ndarray) -> str:
    """Return the evidence of `check_outputs`, with a limit from a trusted engine's own error.

    That error depends on the half-precision type used here, and on the model. A plan with the trusted engine's
    compiled network is not run.
    """
    if same_network(plan, trusted):
        return "the same compiled network as the reference engine"
    own = relative_error(run_plan(trusted, images), onnx_outputs(model, images))
    return check_outputs(plan, model, images, max(_LEAST_TOLERANCE, _OWN_ERROR * own))


def check_outputs(plan: bytes, model: bytes, images: np.ndarray, tolerance: float) -> str:
    """Return evidence that the plan computes the same as the ONNX model, or raise Missed."""
    advice = "build from the ONNX file that is passed in, with its weights unchanged"
    return outputs_near(run_plan(plan, images), onnx_outputs(model, images), tolerance, "the model's outputs", advice)
