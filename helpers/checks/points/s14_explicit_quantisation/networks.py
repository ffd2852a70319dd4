"""The networks that step 14's checks quantise: one with every kind of addition, and one that is quantised already."""

import numpy as np
import onnx
from onnx import numpy_helper

_RESIDUAL = """
<ir_version: 8, opset_import: ["" : 17]>
residual (float[batch, 3, 8, 8] input) => (float[batch, 3] output) {
  conv0 = Conv(input, w0, b0)
  relu0 = Relu(conv0)
  conv1 = Conv(relu0, shared, b1)
  relu1 = Relu(conv1)
  conv2 = Conv(relu1, shared)
  add0 = Add(conv2, relu0)
  relu2 = Relu(add0)
  conv3 = Conv(relu2, w3, b3)
  conv4 = Conv(relu2, w4)
  add1 = Add(conv3, conv4)
  relu3 = Relu(add1)
  conv5 = Conv(relu3, w5)
  add2 = Add(relu3, conv5)
  conv6 = Conv(add2, w6)
  add3 = Add(conv6, offset)
  conv7 = Conv(add3, w7, b7)
  relu4 = Relu(conv7)
  add4 = Add(conv7, relu4)
  pool0 = MaxPool<kernel_shape = [1, 1]>(add4)
  pool1 = AveragePool<kernel_shape = [1, 1]>(add4)
  add5 = Add(pool0, pool1)
  turned = Transpose<perm = [0, 1, 3, 2]>(add5)
  square = MatMul(add5, turned)
  average = GlobalAveragePool(square)
  flat = Flatten<axis = 1>(average)
  matmul = MatMul(flat, w8)
  add6 = Add(matmul, b8)
  gemm0 = Gemm<transB = 1>(add6, w9, b9)
  output = Gemm(gemm0, w10, b10)
}
"""
_SHAPES = {"w0": (4, 3, 1, 1), "offset": (1, 4, 1, 1), "w8": (4, 6), "b8": (6,), "w9": (5, 6), "b9": (5,)}
_SHAPES |= {"w10": (5, 3), "b10": (3,)}

SINGLE = ("conv3", "conv4", "conv7", "matmul")
"""Weighted layers of the residual network that can stay in float beside layers that read the same tensors."""

_EXPLICIT = """
<ir_version: 8, opset_import: ["" : 17]>
explicit (float[batch, 3, 224, 224] input) => (float[batch, 10] output) {
  i0 = QuantizeLinear(input, s, z)      x0 = DequantizeLinear(i0, s, z)
  j0 = QuantizeLinear<axis = 0>(w0, v0, zs)    y0 = DequantizeLinear<axis = 0>(j0, v0, zs)
  m0 = Conv<kernel_shape = [7, 7], strides = [4, 4], pads = [3, 3, 3, 3]>(x0, y0, b0)
  a0 = Relu(m0)
  i1 = QuantizeLinear(a0, s, z)         x1 = DequantizeLinear(i1, s, z)
  j1 = QuantizeLinear<axis = 0>(w1, v1, zs)    y1 = DequantizeLinear<axis = 0>(j1, v1, zs)
  m1 = Conv<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>(x1, y1, b1)
  a1 = Relu(m1)
  pooled = GlobalAveragePool(a1)
  flat = Flatten<axis = 1>(pooled)
  output = Gemm(flat, w2, b2)
}
"""
CONVOLUTIONS = ("m0/Conv", "m1/Conv")
"""The nodes of the network that is quantised already."""

_EXPLICIT_SHAPES = {"w0": (32, 3, 7, 7), "w1": (32, 32, 3, 3), "w2": (32, 10), "b0": (32,), "b1": (32,), "b2": (10,)}


def residual(random: np.random.Generator) -> tuple[bytes, dict[str, float], dict[str, str]]:
    """Return a network, a scale for each of its activations, and its nodes' names by what they write; all drawn."""
    model, mark = onnx.parser.parse_model(_RESIDUAL), random.integers(10, 100)
    names = {node.output[0]: f"/block{mark}/{node.output[0]}/{node.op_type}" for node in model.graph.node}
    read = {name for node in model.graph.node for name in node.input}
    kinds = {"w": (4, 4, 1, 1), "s": (4, 4, 1, 1), "b": (4,)}
    shapes = {name: _SHAPES.get(name) or kinds[name[0]] for name in sorted(read - names.keys() - {"input"})}
    _finish(model, names, {name: random.standard_normal(shape) for name, shape in shapes.items()})
    scales = {name: float(random.uniform(0.01, 0.1)) for name in ("input", *names)}
    return model.SerializeToString(), scales, names


def explicit_network(seed: int) -> bytes:
    """Return a small classifier that has its Q/DQ nodes in front of both convolutions, with weights of the seed's."""
    random, model = np.random.default_rng(seed), onnx.parser.parse_model(_EXPLICIT)
    stored = {
        name: random.normal(0, np.sqrt(2 / np.prod(shape[1:])) if len(shape) > 2 else 0.1, shape)
        for name, shape in _EXPLICIT_SHAPES.items()
    }
    scales = {f"v{index}": np.abs(stored[f"w{index}"]).max(axis=(1, 2, 3)) / 127 for index in (0, 1)}
    zeros = {"z": np.zeros((), np.int8), "zs": np.zeros(32, np.int8)}
    model.graph.initializer.extend(numpy_helper.from_array(values, name) for name, values in zeros.items())
    names = {node.output[0]: f"{node.output[0]}/{node.op_type}" for node in model.graph.node}
    _finish(model, names, {**stored, **scales, "s": random.uniform(0.03, 0.04)})
    return model.SerializeToString()


def _finish(model: onnx.ModelProto, names: dict[str, str], stored: dict[str, np.ndarray]) -> None:
    """Give nodes their names, by what they write, and store float32 numbers."""
    tensors = [numpy_helper.from_array(np.asarray(values, np.float32), name) for name, values in stored.items()]
    model.graph.initializer.extend(tensors)
    for node in model.graph.node:
        node.name = names[node.output[0]]
