"""Parses and builds ONNX files with TensorRT-RTX; run by the Python that has it, and by nothing else: needs no lab.

    .venv-rtx/bin/python tests/tools/rtx_builder.py a.onnx b.onnx

Prints a JSON object a file: `parse_s`, `build_s`, `plan_bytes` and `weighted`, the types that convolutions and matrix
products give by their number; or `error`. The plans are for the GPU architecture SM89, since there may be none here.
"""

import json
import sys
import time
from collections import Counter

import tensorrt_rtx_bindings as trt

_WEIGHTED = ("CONVOLUTION", "MATRIX_MULTIPLY")
_BATCHES, _LENGTHS = (1, 4, 8), (8, 16, 32)


class Kept(trt.ILogger):
    """Keeps the errors, and prints nothing."""

    def __init__(self):
        trt.ILogger.__init__(self)
        self.errors = []

    def log(self, severity, text):
        if severity <= trt.ILogger.ERROR and "Cuda Runtime" not in text:  # that there is no driver
            self.errors.append(" ".join(text.split()))


def built(path):
    """Return what became of one file."""
    logger = Kept()
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, logger)
    start = time.perf_counter()
    if not parser.parse_from_file(path):
        return {"error": "; ".join(dict.fromkeys(logger.errors)) or "not parsed"}
    parsed = time.perf_counter()
    plan = builder.build_serialized_network(network, configured(builder, network))
    if plan is None:
        return {"error": "; ".join(dict.fromkeys(logger.errors)) or "not built"}
    found = {"parse_s": parsed - start, "build_s": time.perf_counter() - parsed, "plan_bytes": plan.nbytes}
    return {**found, "weighted": types(network)}


def configured(builder, network):
    """Return a configuration with a profile for the axes that are dynamic: the first is a batch, others a length."""
    config = builder.create_builder_config()
    config.num_compute_capabilities = 1
    config.set_compute_capability(trt.ComputeCapability.SM89, 0)
    profile = builder.create_optimization_profile()
    for tensor in (network.get_input(index) for index in range(network.num_inputs)):
        if -1 in tensor.shape:
            sizes = [_LENGTHS if axis else _BATCHES for axis in range(len(tensor.shape))]
            shapes = [[s[i] if d == -1 else d for d, s in zip(tensor.shape, sizes, strict=True)] for i in range(3)]
            profile.set_shape(tensor.name, *shapes)
    config.add_optimization_profile(profile)
    return config


def types(network):
    """Return how many convolutions and matrix products give which type."""
    layers = [network.get_layer(index) for index in range(network.num_layers)]
    weighted = [layer for layer in layers if str(layer.type).rpartition(".")[2] in _WEIGHTED]
    return Counter(str(layer.get_output(0).dtype).rpartition(".")[2].lower() for layer in weighted)


if __name__ == "__main__":
    for file in sys.argv[1:]:
        print(json.dumps({"file": file, "version": trt.__version__, **built(file)}), flush=True)
