"""The small network that step 9's checks keep layers of, drawn calibration caches for it, and which layers to keep."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx

from helpers.checks.points.case import Case
from helpers.checks.probes.answer import probe
from helpers.engine.backend import trt
from helpers.tools.outputs import onnx_session
from helpers.toys.networks import EDGE, tiny_onnx
from trtcpu.calibration_cache import CalibrationCache, format_cache

CONVOLUTIONS = ("conv0", "conv1", "conv2", "conv10")
_TENSORS = ("input", *(f"{kind}{index}" for index in range(4) for kind in ("conv", "relu")), "pooled", "flat", "output")
_IMAGES = 2


def mixed_onnx(seed: int) -> bytes:
    """Return a small network with CONVOLUTIONS: the name of one begins with another's."""
    model = onnx.load_from_string(tiny_onnx(seed))
    for node in model.graph.node:
        node.name = node.name.replace("3", "10")
    return model.SerializeToString()


def chosen_layers(seed: int) -> list[str]:
    """Return the layers to keep: conv1, but not conv10, and another convolution, with their activations."""
    random = np.random.default_rng(seed)
    found = random.permutation([1, random.choice([0, 2])])
    return [name for index in found for name in (f"conv{index}", f"relu{index}")]


def drawn_cache(seed: int) -> bytes:
    """Return a calibration cache with a scale of its own for each tensor of the network."""
    scales = np.random.default_rng(seed).uniform(0.03, 0.06, len(_TENSORS))
    content = CalibrationCache("EntropyCalibration2", dict(zip(_TENSORS, scales.tolist(), strict=True)))
    return format_cache(content, trt.__version__)


@probe
def cache_and_layers(notebook: Any, folder: Path, seed: int) -> tuple[Path, list[str]]:
    """Return what build_engine_mixed takes beside two paths: a cache's path, and the layers to keep."""
    path = folder / "model.cache"
    path.write_bytes(drawn_cache(seed))
    return path, chosen_layers(seed)


def cache_of(case: Case, model: bytes) -> bytes:
    """Return a calibration cache of a model: each tensor's largest magnitude on two images of noise, over 127."""
    wide = onnx.load_from_string(model)
    names = [node.output[0] for node in wide.graph.node]
    known = {value.name for value in wide.graph.output}
    wide.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in known)
    images = case.random("mixed.calibration").standard_normal((_IMAGES, 3, EDGE, EDGE)).astype(np.float32)
    outputs = onnx_session(wide.SerializeToString()).run(names, {"input": images})
    largest = {"input": images, **dict(zip(names, outputs, strict=True))}
    scales = {name: float(np.abs(values).max()) / 127 for name, values in largest.items()}
    return format_cache(CalibrationCache("EntropyCalibration2", scales), trt.__version__)
