"""What the claims of step 4 know of the lab's images: fingerprints of both splits, the FP32 model's answers."""

from functools import partial
from pathlib import Path

import numpy as np

from helpers.checks.points.s04_int8.calibration import print_of
from helpers.data.datasets import load_dataset
from helpers.tools.outputs import onnx_outputs
from solutions.checks.trusted.stages import Reference, Stage
from trtlab.images.preprocessing import load_batch

HELD_OUT, _PRINTED = 100, 2000
_BATCH = 20


def held_out_images() -> np.ndarray:
    """Return the validation images [100, 3, 224, 224] that `validation_outputs_100.npy` is of."""
    return load_batch([path for path, _ in _data().images("validation", limit=HELD_OUT, seed=1)])


def _outputs(reference: Reference, folder: Path) -> None:
    images, model = held_out_images(), reference.bytes("resnet50.onnx")
    parts = [onnx_outputs(model, images[start : start + _BATCH]) for start in range(0, len(images), _BATCH)]
    np.save(folder / OUTPUTS, np.concatenate(parts))


def _prints(reference: Reference, folder: Path, *, split: str, limit: int | None) -> None:
    paths = [path for path, _ in _data().images(split, limit=limit)]
    np.save(folder / f"{split}_prints.npy", np.stack([print_of(load_batch([path])[0]) for path in paths]))


def _data():
    return load_dataset("digits", progress=False)


OUTPUTS = "validation_outputs_100.npy"
STAGES = (
    Stage((OUTPUTS,), ("resnet50.onnx",), _outputs),
    Stage(("calibration_prints.npy",), (), partial(_prints, split="calibration", limit=None)),
    Stage(("validation_prints.npy",), (), partial(_prints, split="validation", limit=_PRINTED)),
)
"""FP32 outputs [100, classes]; fingerprints [N, 192] of the calibration split and of some validation images."""
