"""The small networks that step 9's checks keep layers of, and calibration caches for them."""

import numpy as np
import onnx

from helpers.checks.points.case import Case
from helpers.engine.backend import trt
from helpers.tools.outputs import onnx_session
from helpers.toys.networks import EDGE, tiny_onnx
from trtcpu.calibration_cache import CalibrationCache, format_cache

_CONVOLUTIONS = ("conv0", "conv1", "conv2", "conv3")
_IMAGES = 2
_MIDDLE = 2


def network(case: Case) -> bytes:
    """Return a small network with weights of the case's own."""
    return tiny_onnx(case.number("mixed.network"))


def chosen_layers(case: Case) -> list[str]:
    """Return the layers to keep: two of the network's convolutions with their activations, not in its order."""
    found = case.random("mixed.layers").permutation(len(_CONVOLUTIONS))[:_MIDDLE]
    return [name for index in found for name in (f"conv{index}", f"relu{index}")]


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
