"""What the claims of step 4 know of the lab's images: the FP32 model's answers."""

from pathlib import Path

import numpy as np

from helpers.data.datasets import load_dataset
from helpers.tools.outputs import onnx_outputs
from solutions.checks.trusted.stages import Reference, Stage
from trtlab.images.preprocessing import load_batch

HELD_OUT = 100
_BATCH = 20


def held_out_images() -> np.ndarray:
    """Return the validation images [100, 3, 224, 224] that `validation_outputs_100.npy` is of."""
    found = load_dataset("digits", progress=False).images("validation", limit=HELD_OUT, seed=1)
    return load_batch([path for path, _ in found])


def _outputs(reference: Reference, folder: Path) -> None:
    images, model = held_out_images(), reference.bytes("resnet50.onnx")
    parts = [onnx_outputs(model, images[start : start + _BATCH]) for start in range(0, len(images), _BATCH)]
    np.save(folder / OUTPUTS, np.concatenate(parts))


OUTPUTS = "validation_outputs_100.npy"
STAGES = (Stage((OUTPUTS,), ("resnet50.onnx",), _outputs),)
"""FP32 outputs [100, classes] on `held_out_images`."""
