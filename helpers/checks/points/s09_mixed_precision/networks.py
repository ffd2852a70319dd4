"""The small network of step 9's checks, a calibration cache for it, and the layers to keep."""

from pathlib import Path
from typing import Any

import onnx
from onnx import helper

from helpers.checks.probes.answer import probe
from helpers.engine.backend import trt
from helpers.toys.networks import tiny_onnx
from trtcpu.calibration_cache import CalibrationCache, format_cache

CONVOLUTIONS = ("conv0", "conv1", "conv2", "conv10")
KEPT = ("conv2", "relu2", "conv1", "relu1")  # but not conv10
LAST = "last"  # it makes the network's output
ACTIVATIONS = ("relu0", "relu1", "relu2", "relu10", LAST)


def mixed_onnx(seed: int) -> bytes:
    """Return a small network with CONVOLUTIONS and ACTIVATIONS; one name begins with another."""
    model = onnx.load_from_string(tiny_onnx(seed))
    for node in model.graph.node:
        node.name = node.name.replace("3", "10")
    model.graph.node[-1].output[0] = "scores"
    model.graph.node.append(helper.make_node("Tanh", ["scores"], ["output"], name=LAST))
    return model.SerializeToString()


@probe
def cache_and_layers(notebook: Any, folder: Path, seed: int) -> tuple[Path, list[str]]:
    """Return the further arguments of build_engine_mixed: a cache's path, and the layers to keep."""
    path, nodes = folder / "model.cache", onnx.load_from_string(mixed_onnx(seed)).graph.node
    scales = dict.fromkeys(("input", *(output for node in nodes for output in node.output)), 0.04)
    path.write_bytes(format_cache(CalibrationCache("EntropyCalibration2", scales), trt.__version__))
    return path, [*KEPT]
