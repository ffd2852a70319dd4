"""What an engine or a model gives, asked for in one call, so that it can run where strangers' files are loaded."""

import numpy as np

from helpers.checks.probes.loads import loads
from helpers.tools.outputs import onnx_outputs
from trtlab.engines.inference import InferenceEngine


@loads
def inferred(plan: bytes, images: np.ndarray) -> np.ndarray:
    """Return `InferenceEngine.infer`'s outputs [N, …] of a plan.

    Raises:
        LabError: as that does.
    """
    with InferenceEngine(plan) as engine:
        return engine.infer(images)


@loads
def predicted(plan: bytes, images: np.ndarray) -> np.ndarray:
    """Return `InferenceEngine.predict`'s outputs [N, …] of a plan.

    Raises:
        LabError: as that does.
    """
    with InferenceEngine(plan) as engine:
        return engine.predict(images)


@loads
def ran(plan: bytes, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return `InferenceEngine.run`'s outputs of a plan by name.

    Raises:
        LabError: as that does.
    """
    with InferenceEngine(plan) as engine:
        return engine.run(feeds)


@loads
def batches_of(plan: bytes) -> list[int]:
    """Return the least, best and largest batch of a plan.

    Raises:
        LabError: it is no engine of this TensorRT.
    """
    with InferenceEngine(plan) as engine:
        return [engine.min_batch, engine.opt_batch, engine.max_batch]


@loads
def model_outputs(model: bytes, images: np.ndarray) -> np.ndarray:
    """Return ONNX Runtime's outputs [N, classes] of an ONNX model."""
    return onnx_outputs(model, images)
