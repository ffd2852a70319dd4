"""What the claims of step 4 know of the lab's images: fingerprints of both splits, the FP32 model's answers."""

from pathlib import Path

import numpy as np

from helpers.data import load_dataset
from helpers.files import atomic_path
from helpers.points.s04_int8.calibration import print_of
from solutions.checks.trusted.plans import onnx_outputs
from solutions.pipeline.preprocessing import load_batch

__all__ = ["IMAGE_ARTIFACTS", "held_out_images", "write_image_artifact"]

HELD_OUT, _PRINTED = 100, 2000
IMAGE_ARTIFACTS = ("calibration_prints.npy", "validation_prints.npy", "validation_outputs_100.npy")
"""Fingerprints [N, 192] of the calibration split and of some validation images; FP32 outputs [100, classes]."""

_BATCH = 20


def held_out_images() -> np.ndarray:
    """Return the validation images [100, 3, 224, 224] that `validation_outputs_100.npy` is of."""
    return load_batch([path for path, _ in _data().images("validation", limit=HELD_OUT, seed=1)])


def write_image_artifact(name: str, folder: Path) -> None:
    """Write one of IMAGE_ARTIFACTS to `folder`, which holds resnet50.onnx."""
    if name == "validation_outputs_100.npy":
        images, model = held_out_images(), (folder / "resnet50.onnx").read_bytes()
        parts = [onnx_outputs(model, images[start : start + _BATCH]) for start in range(0, len(images), _BATCH)]
        values = np.concatenate(parts)
    else:
        split = name.partition("_")[0]
        limit = None if split == "calibration" else _PRINTED
        paths = [path for path, _ in _data().images(split, limit=limit)]
        values = np.stack([print_of(load_batch([path])[0]) for path in paths])
    with atomic_path(folder / name) as temporary, temporary.open("wb") as file:
        np.save(file, values)


def _data():
    return load_dataset("digits", progress=False)
