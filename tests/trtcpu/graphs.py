"""Graphs of a few nodes, built and run on the CPU engine as a caller would."""

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from tests.others.engine import Log, built, run
from trtcpu import tensorrt as trt

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def model(nodes: list, inputs: dict, outputs: dict, weights: dict[str, Any] | None = None, opset: int = 17) -> bytes:
    """Return a serialized model; inputs and outputs give (type, shape) by name."""
    ends = [[helper.make_tensor_value_info(n, *kind) for n, kind in given.items()] for given in (inputs, outputs)]
    stored = [numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "graph", *ends, stored)
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9).SerializeToString()


def results(data: bytes, **feeds: np.ndarray) -> dict[str, np.ndarray]:
    """Return the outputs of a model for an input."""
    engine = built(data, {name: array.shape for name, array in feeds.items()})
    assert engine is not None
    return run(engine, feeds)


def refusal(data: bytes) -> trt.ParserError:
    """Return the first error of a model that the parser must refuse."""
    log = Log()
    network = trt.Builder(log).create_network(0)
    parser = trt.OnnxParser(network, log)
    assert parser.parse(data) is False
    return parser.get_error(0)
