"""Runs plans and ONNX files on the trusted side, for claims that are settled from an artifact."""

from collections.abc import Callable

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.case import Case
from helpers.checks.points.pure import outputs_near
from helpers.checks.probes.builds import computes_as
from helpers.engine.backend import ENGINE
from helpers.tools.outputs import onnx_outputs, relative_error
from helpers.toys.networks import EDGE
from trtcpu.errors import LabError
from trtlab.engines.served import batches_of, inferred, model_outputs, predicted

HALF_TOLERANCE = 0.02
"""For the probes' small networks, where right engines measured up to 0.1 % in FP16 and 0.6 % in BF16."""
FP32_TOLERANCE = 0.003
"""The same in FP32, which on a GPU is TF32, with FP16's ten bits. Weights cut to eight bits cost 0.7 % and more."""
_LEAST_TOLERANCE, _OWN_ERROR = 0.01, 2.0
"""An engine of the lab's model may be this far off, or so many times as far as the reference engine."""
INT8_TOLERANCE = 0.25

_BUILDS = 3  # three in FP32 one after the other: one right function in 2,700


def small_on_a_gpu(build: Callable[..., builders.Built], function: str, model: bytes, most: float) -> str:
    """Return evidence that an engine that `build` makes of the lab's model has weights of a small type, on TensorRT.

    TensorRT may find FP32 the fastest for a probe's small network, so that only what was asked for would tell: which
    the student's side says. The CPU engine's plans tell their layers' precisions, whatever the network.

    A probe's builds take the first kernels that work, now and then (one of 14 on an H200) in FP32 throughout. A small
    engine can only be where the type is allowed, so one of _BUILDS that is small tells.
    """
    if ENGINE != "tensorrt":
        return "read in the plan"
    for number in range(_BUILDS):
        plan = builders.plan_of(build(model, fresh=number > 0), function)
        if len(plan) <= most * len(model):
            break
    return builders.small_enough(plan, model, most)


def images(case: Case, purpose: str, number: int) -> np.ndarray:
    """Return float32 [number, 3, 224, 224] of noise."""
    return case.random(f"{purpose}.images").standard_normal((number, 3, EDGE, EDGE)).astype(np.float32)


def run_plan(plan: bytes, images: np.ndarray, by: Callable[[bytes, np.ndarray], np.ndarray] = inferred) -> np.ndarray:
    """Return a plan's outputs [N, classes]; raise Missed where it cannot take these images."""
    try:
        return by(plan, images)
    except LabError as error:
        found = str(error).partition("; ")[0]  # the rest is advice for the command line
        asked = f"the engine to run a batch of shape {images.shape}"
        raise Missed(asked, found, "check its input, output and profile") from error


def drift_of(plan: bytes, model: bytes, images: np.ndarray) -> float:
    """Return how far an engine's outputs on images [N, 3, 224, 224] are from the FP32 model's, relative to their size.

    Raises:
        Missed: it is no engine.
    """
    builders.facts_of(plan, "the engine")
    return relative_error(predicted(plan, images), model_outputs(model, images))


def largest_batch(plan: bytes, most: int = 8) -> int:
    """Return the largest batch that a plan takes, at most `most`: another profile is a point of its own."""
    return min(most, batches_of(plan)[-1])


def same_network(plan: bytes, other: bytes) -> bool:
    """Return whether two plans hold the same compiled network: what the one gives, and how fast, the other does too.

    The CPU engine's builds of one file are alike; TensorRT times its kernels anew, so of its plans this is never known.
    """
    return plan == other or (ENGINE == "cpu" and computes_as(plan, other))


def as_exact_as(trusted: bytes, plan: bytes, model: bytes, images: np.ndarray) -> str:
    """Return `check_outputs`'s evidence, with a limit that a trusted engine's own error sets.

    That error is a matter of the type that stands for half precision here, and of the model. A plan of the very network
    that the trusted engine holds is not run.
    """
    if same_network(plan, trusted):
        return "the same compiled network as the reference engine"
    own = relative_error(run_plan(trusted, images), onnx_outputs(model, images))
    return check_outputs(plan, model, images, max(_LEAST_TOLERANCE, _OWN_ERROR * own))


def check_outputs(plan: bytes, model: bytes, images: np.ndarray, tolerance: float) -> str:
    """Return evidence that the plan computes what the ONNX model does; raise Missed where it does not."""
    advice = "build from the ONNX file that is passed in, with its weights unchanged"
    return outputs_near(run_plan(plan, images), onnx_outputs(model, images), tolerance, "the model's outputs", advice)
