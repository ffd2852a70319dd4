"""The lab's own ResNet-50 and 64 of its calibration images, as recorded with real TensorRT.

tests/fixtures/fidelity_lab holds what TensorRT wrote for them: the caches of three calibrators (batches of 8, in
order), the logits of its INT8 engines and PyTorch's. Images are rendered and weights shipped: no more is stored.
"""

import functools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from helpers.backend import trt

__all__ = ["LAB_RECORDING", "lab_images", "lab_network", "logits", "pytorch_logits", "without_long_builds"]

LAB_RECORDING = Path(__file__).resolve().parents[1] / "fixtures" / "fidelity_lab"
IMAGES = 64


@functools.cache
def lab_network() -> bytes:
    """Return the lab's ResNet-50 as ONNX with a dynamic batch, at opset 17."""
    from helpers.models import load_model
    from solutions.pipeline.export import export_onnx

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "resnet50.onnx")
        export_onnx(
            load_model("resnet50", "digits"), path, opset=17, dynamic_batch=True, input_size=224, simplify=False
        )
        return path.read_bytes()


@functools.cache
def lab_images() -> np.ndarray:
    """Return preprocessed calibration images: float32 [64, 3, 224, 224]."""
    from helpers.data import load_dataset
    from solutions.pipeline.preprocessing import load_batch

    return load_batch([path for path, _ in load_dataset("digits", progress=False).images("calibration", IMAGES)])


def pytorch_logits(images: np.ndarray) -> np.ndarray:
    """Return PyTorch's FP32 logits on the processor: [N, 10]."""
    import torch

    from helpers.models import load_model

    with torch.inference_mode():
        return load_model("resnet50", "digits")(torch.from_numpy(images)).numpy()


def logits(plan: Any, images: np.ndarray, batch: int) -> np.ndarray:
    """Return a serialized engine's logits on `images`: [N, 10]."""
    from solutions.pipeline.inference import InferenceEngine

    with InferenceEngine(bytes(plan)) as engine:
        return np.concatenate([engine.infer(images[i : i + batch]) for i in range(0, len(images), batch)])


def without_long_builds(level: int) -> Any:
    """Return a context in which builds use this optimisation level; scales don't depend on it, build time does."""
    from unittest import mock

    original = trt.Builder.create_builder_config

    def create(builder: Any) -> Any:
        config = original(builder)
        config.builder_optimization_level = level
        return config

    return mock.patch.object(trt.Builder, "create_builder_config", create)
