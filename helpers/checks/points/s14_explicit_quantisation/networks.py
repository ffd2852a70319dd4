"""The networks that step 14's checks quantise: one with every kind of addition, and one that is quantised already."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from helpers.checks.points.case import Case
from helpers.checks.points.s09_mixed_precision.networks import cache_of
from helpers.toys.networks import EDGE
from trtcpu.calibration_cache import parse_cache

_OPSET, _IR_VERSION = 17, 8
_DEAD_CHANNEL = 3

WEIGHTED = {
    **{f"conv{number}": 0 for number in range(9)},
    "product": 1,
    "gemm0": 0,
    "gemm1": 1,
}
"""The layers of the residual network that multiply by stored weights, and the axis of their output channels."""

SKIPS = ("add0", "add2")
"""Its additions of a convolution that nothing else reads and something that comes past it."""

BOTH = "add1"
"""The one of two such convolutions."""

OTHERS = ("add3", "add4", "add5", "add6")
"""Those of a stored tensor, of a convolution that something else reads as well, of two poolings, and of a bias."""

CONVOLUTIONS = ("conv0", "conv1")
"""Those of the network that is quantised already."""

ENDS_IN_A_SKIP = """
<ir_version: 8, opset_import: ["" : 17]>
ends (float[batch, 4, 8, 8] input) => (float[batch, 4, 8, 8] sum) {
  start = Conv(input, weights)
  past = MaxPool<kernel_shape = [1, 1]>(input)
  sum = Add(past, start)
}
"""
"""A model in ONNX's text, whose nodes are named after what they write: the first and the last node make a skip."""

WITHOUT_A_SKIP = """
<ir_version: 8, opset_import: ["" : 17]>
none (float[batch, 4, 8, 8] input) => (float[batch, 4, 8, 8] sum) {
  one = Conv(input, weights)
  two = Add(one, first)
  three = Conv(two, weights)
  four = Add(three, last)
  five = Conv(four, weights)
  six = Relu(five)
  sum = Add(five, six)
}
"""
"""Another one: two additions of what is stored, first and last, and one of a convolution that two nodes read."""

_STORED = ("first", "weights", "last")


@dataclass(frozen=True)
class Residual:
    """The network, its scales by tensor, and for each of SKIPS the index of the input that comes past."""

    model: bytes
    scales: dict[str, float]
    skips: dict[str, int]


class _Builder:
    """Collects nodes and weights; each method returns the name of a node's output, which is like no node's name.

    The names of outputs are drawn, so that a message can name one only where it looked.
    """

    def __init__(self, random: np.random.Generator) -> None:
        self.random, self.nodes, self.stored = random, [], []
        self.mark = f"t{random.integers(1000, 10000)}"

    def node(self, kind: str, name: str, *inputs: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [f"{self.mark}_{name}"], name=name, **attributes))
        return f"{self.mark}_{name}"

    def store(self, name: str, *shape: int, size: float = 1.0) -> str:
        values = self.random.normal(0, size, shape).astype(np.float32)
        self.stored.append(numpy_helper.from_array(values, name))
        return name

    def conv(self, name: str, source: str, weights: str, bias: str | None, kernel: int, stride: int = 1) -> str:
        inputs = [source, weights, *([bias] if bias else [])]
        attributes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [kernel // 2] * 4}
        return self.node("Conv", name, *inputs, **attributes)

    def weights(self, name: str, outputs: int, inputs: int, kernel: int) -> str:
        return self.store(name, outputs, inputs, kernel, kernel, size=float(np.sqrt(1 / (inputs * kernel**2))))


def residual(case: Case) -> Residual:
    """Return a network with weights, and an order of each addition's inputs, of the case's own."""
    random = case.random("qdq.network")
    build, skips = _Builder(random), {}

    past_first = bool(random.integers(2))

    def add(name: str, computed: str, past: str) -> str:
        first = past_first == (name != "add2")  # the two of SKIPS have other orders
        skips[name] = 0 if first else 1
        return build.node("Add", name, *((past, computed) if first else (computed, past)))

    last = _body(build, add)
    _head(build, last)
    model = _model(build.nodes, build.stored, 10)
    return Residual(model, scales_of(case, model), {name: skips[name] for name in SKIPS})


def _body(build: _Builder, add: Callable[[str, str, str], str]) -> str:
    """Add the convolutions and the additions of maps; return the last map [N, 32, 28, 28]."""
    start = build.conv("conv0", "input", build.weights("w0", 16, 3, 7), build.store("b0", 16, size=0.1), 7, 4)
    start = build.node("Relu", "relu0", start)
    shared = build.weights("shared", 16, 16, 3)
    path = build.node("Relu", "relu1", build.conv("conv1", start, shared, build.store("b1", 16, size=0.1), 3))
    path = build.conv("conv2", path, shared, build.store("b2", 16, size=0.1), 3)
    start = build.node("Relu", "relu2", add("add0", path, start))

    dead = build.weights("w3", 32, 16, 3)
    values = numpy_helper.to_array(build.stored[-1]).copy()
    values[_DEAD_CHANNEL] = 0
    build.stored[-1].CopyFrom(numpy_helper.from_array(values, dead))
    path = build.node("Relu", "relu3", build.conv("conv3", start, dead, build.store("b3", 32, size=0.1), 3, 2))
    path = build.conv("conv4", path, build.weights("w4", 32, 32, 3), build.store("b4", 32, size=0.1), 3)
    past = build.conv("conv5", start, build.weights("w5", 32, 16, 1), None, 1, 2)
    start = build.node("Relu", "relu4", add("add1", path, past))

    path = build.conv("conv6", start, build.weights("w6", 32, 32, 3), build.store("b6", 32, size=0.1), 3)
    start = build.node("Relu", "relu5", add("add2", path, start))
    path = build.conv("conv8", start, build.weights("w8", 32, 32, 1), None, 1)
    start = build.node("Add", "add3", path, build.store("offset", 1, 32, 1, 1))
    path = build.conv("conv7", start, build.weights("w7", 32, 32, 1), build.store("b7", 32, size=0.1), 1)
    start = build.node("Add", "add4", path, build.node("Relu", "relu6", path))
    pools = [
        build.node(f"{kind}Pool", f"pool{number}", start, kernel_shape=[3, 3], pads=[1] * 4)
        for number, kind in enumerate(("Max", "Average"))
    ]
    return build.node("Add", "add5", *pools)


def _head(build: _Builder, last: str) -> None:
    """Add a product of two maps, of which none is stored, and three layers that end in 10 classes."""
    build.stored.append(numpy_helper.from_array(np.float32(0.01), "small"))
    last = build.node("Mul", "shrink", last, "small")
    turned = build.node("Transpose", "turn", last, perm=[0, 1, 3, 2])
    last = build.node("MatMul", "square", last, turned)
    last = build.node("Flatten", "flatten", build.node("GlobalAveragePool", "average", last), axis=1)
    last = build.node("MatMul", "product", last, build.store("w_product", 32, 24, size=0.2))
    last = build.node("Relu", "relu7", build.node("Add", "add6", last, build.store("b_product", 24, size=0.1)))
    last = build.node("Gemm", "gemm0", last, build.store("w_gemm0", 20, 24, size=0.2), build.store("c0", 20), transB=1)
    last = build.node("Relu", "relu8", last)
    bias = build.store("c1", 10, size=0.1)  # before the weights, which are the last that is stored
    build.node("Gemm", "gemm1", last, build.store("w_gemm1", 20, 10, size=0.2), bias)
    build.nodes[-1].output[0] = "output"


def _model(nodes: list[onnx.NodeProto], stored: list[onnx.TensorProto], classes: int) -> bytes:
    images = helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", 3, EDGE, EDGE])
    scores = helper.make_tensor_value_info("output", TensorProto.FLOAT, ["batch", classes])
    graph = helper.make_graph(nodes, "quantised", [images], [scores], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString()


def scales_of(case: Case, model: bytes) -> dict[str, float]:
    """Return the scale of every tensor that the network computes, and of its input."""
    return parse_cache(cache_of(case, model)).scales


_EXPLICIT = """
<ir_version: 8, opset_import: ["" : 17]>
explicit (float[batch, 3, 224, 224] input) => (float[batch, 10] output) {
  i0 = QuantizeLinear(input, s0, z)      x0 = DequantizeLinear(i0, s0, z)
  j0 = QuantizeLinear<axis = 0>(w0, v0, zs)    y0 = DequantizeLinear<axis = 0>(j0, v0, zs)
  m0 = Conv<kernel_shape = [7, 7], strides = [4, 4], pads = [3, 3, 3, 3]>(x0, y0, b0)
  a0 = Relu(m0)
  i1 = QuantizeLinear(a0, s1, z)      x1 = DequantizeLinear(i1, s1, z)
  j1 = QuantizeLinear<axis = 0>(w1, v1, zs)    y1 = DequantizeLinear<axis = 0>(j1, v1, zs)
  m1 = Conv<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>(x1, y1, b1)
  a1 = Relu(m1)
  pooled = GlobalAveragePool(a1)
  flat = Flatten<axis = 1>(pooled)
  output = Gemm(flat, w2, b2)
}
"""
_CHANNELS = 32


def from_text(text: str) -> bytes:
    """Return a model of one of the texts above, with its weights."""
    model = onnx.parser.parse_model(text)
    for node in model.graph.node:
        node.name = node.output[0]
    read = {name for node in model.graph.node for name in node.input}
    for name in filter(read.__contains__, _STORED):
        shape = (4, 4, 1, 1) if name == "weights" else (1, 4, 1, 1)
        model.graph.initializer.append(numpy_helper.from_array(np.ones(shape, np.float32), name))
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString()


def explicit_network(case: Case) -> bytes:
    """Return a small classifier that has its Q/DQ nodes in front of both convolutions, with weights of the case's."""
    random, model = case.random("qdq.explicit"), onnx.parser.parse_model(_EXPLICIT)
    for node, name in zip((node for node in model.graph.node if node.op_type == "Conv"), CONVOLUTIONS, strict=True):
        node.name = name
    stored: dict[str, np.ndarray] = {"z": np.int8(0), "zs": np.zeros(_CHANNELS, np.int8)}
    for index, shape in enumerate(((_CHANNELS, 3, 7, 7), (_CHANNELS, _CHANNELS, 3, 3), (_CHANNELS, 10))):
        into = shape[0] if len(shape) == 2 else int(np.prod(shape[1:]))
        values = random.normal(0, np.sqrt(2 / into), shape)
        stored |= {f"w{index}": values, f"b{index}": random.normal(0, 0.1, shape[-1] if index == 2 else _CHANNELS)}
        if len(shape) == 4:
            stored |= {f"v{index}": np.abs(values).max(axis=(1, 2, 3)) / 127, f"s{index}": random.uniform(0.03, 0.04)}
    tensors = [
        numpy_helper.from_array(np.asarray(value, np.int8 if name[0] == "z" else np.float32), name)
        for name, value in stored.items()
    ]
    model.graph.initializer.extend(tensors)
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString()
