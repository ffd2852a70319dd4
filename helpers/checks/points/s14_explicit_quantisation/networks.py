"""The networks of step 14's checks: one with every kind of addition, and one that is already quantised."""

import numpy as np
import onnx
from onnx import numpy_helper

from helpers.toys.networks import tiny_onnx
from trtcpu.builder.quantization import explicit

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
_SHAPES = {
    **{"w0": (4, 3, 1, 1), "offset": (1, 4, 1, 1), "w8": (4, 6), "b8": (6,), "w9": (5, 6), "b9": (5,)},
    **{"w10": (5, 3), "b10": (3,), "b0": (4,), "b1": (4,), "b3": (4,), "b7": (4,)},
}

LEFT_IN_FLOAT = ("conv4", "matmul")  # layers of the residual network that share tensors with quantised ones
CONVOLUTIONS = ("conv0", "conv1")  # the other network has its pairs in front of these


def residual(random: np.random.Generator) -> tuple[bytes, dict[str, float], dict[str, str]]:
    """Return a network, a scale for each activation, and its nodes' names by their outputs, all drawn."""
    model, mark = onnx.parser.parse_model(_RESIDUAL), random.integers(10, 100)
    names = {node.output[0]: f"/block{mark}/{node.output[0]}/{node.op_type}" for node in model.graph.node}
    for name in sorted({name for node in model.graph.node for name in node.input} - names.keys() - {"input"}):
        values = random.standard_normal(_SHAPES.get(name, (4, 4, 1, 1))).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    for node in model.graph.node:
        node.name = names[node.output[0]]
    scales = {name: float(random.uniform(0.01, 0.1)) for name in ("input", *names)}
    return model.SerializeToString(), scales, names


def explicit_network(seed: int) -> bytes:
    """Return a small classifier with Q/DQ nodes in front of CONVOLUTIONS."""
    model = onnx.load_from_string(tiny_onnx(seed))
    return explicit(model, {"input": 0.03, "relu0": 0.04}, fused=False)[0].SerializeToString()
