"""The small network that step 9's checks keep layers of, drawn calibration caches for it, and which layers to keep."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from helpers.checks.probes.answer import probe
from helpers.engine.backend import trt
from helpers.toys.networks import tiny_onnx
from trtcpu.calibration_cache import CalibrationCache, format_cache

CONVOLUTIONS = ("conv0", "conv1", "conv2", "conv10")
LAST = "last"
"""The layer that makes the network's output."""

ACTIVATIONS = ("relu0", "relu1", "relu2", "relu10", LAST)


def mixed_onnx(seed: int) -> bytes:
    """Return a small network with CONVOLUTIONS and ACTIVATIONS: the name of one begins with another's."""
    model = onnx.load_from_string(tiny_onnx(seed))
    for node in model.graph.node:
        node.name = node.name.replace("3", "10")
    model.graph.node[-1].output[0] = "scores"
    model.graph.node.append(helper.make_node("Tanh", ["scores"], ["output"], name=LAST))
    return model.SerializeToString()


def chosen_layers(seed: int) -> list[str]:
    """Return the layers to keep: conv1, but not conv10, and another convolution, with their activations."""
    random = np.random.default_rng(seed)
    found = random.permutation([1, random.choice([0, 2])])
    return [name for index in found for name in (f"conv{index}", f"relu{index}")]


def drawn_cache(seed: int) -> bytes:
    """Return a calibration cache with a scale of its own for each tensor of the network."""
    made = [output for node in onnx.load_from_string(mixed_onnx(seed)).graph.node for output in node.output]
    scales = np.random.default_rng(seed).uniform(0.03, 0.06, len(made) + 1).tolist()
    content = CalibrationCache("EntropyCalibration2", dict(zip(("input", *made), scales, strict=True)))
    return format_cache(content, trt.__version__)


@probe
def cache_and_layers(notebook: Any, folder: Path, seed: int) -> tuple[Path, list[str]]:
    """Return what build_engine_mixed takes beside two paths: a cache's path, and the layers to keep."""
    path = folder / "model.cache"
    path.write_bytes(drawn_cache(seed))
    return path, chosen_layers(seed)
