"""What the ONNX model says of each layer, for the engine inspector: kernel, stride, weights and their stored type."""

from collections.abc import Set
from typing import Any

import onnx

from trtcpu.api.types import volume

_TYPES = {
    onnx.TensorProto.FLOAT: "Float",
    onnx.TensorProto.FLOAT16: "Half",
    onnx.TensorProto.BFLOAT16: "BFloat16",
    onnx.TensorProto.INT8: "Int8",
    onnx.TensorProto.UINT8: "UInt8",
}
_RENAMED = {
    "kernel_shape": "Kernel",
    "strides": "Stride",
    "dilations": "Dilation",
    "group": "Groups",
}


def layer_attributes(
    source: onnx.ModelProto, compiled: onnx.ModelProto, half: str = "Float", not_halved: Set[str] = frozenset()
) -> dict[str, dict[str, Any]]:
    """Return the facts of each weighted or pooling layer by its name.

    Args:
        source: the network as it was parsed.
        compiled: the network with the Q/DQ nodes that INT8 put in; its weights may be INT8.
        half: the type that float weights are stored in.
        not_halved: the layers and weights to which that does not apply.
    """
    shapes = {tensor.name: list(tensor.dims) for tensor in source.graph.initializer}
    stored = _stored_types(compiled)
    facts = {}
    for node in source.graph.node:
        found = {_RENAMED[a.name]: list(a.ints) or a.i for a in node.attribute if a.name in _RENAMED}
        if len(node.input) > 1 and node.op_type in ("Conv", "ConvTranspose", "Gemm", "MatMul"):
            shape = shapes.get(node.input[1]) or shapes.get(_behind_dequantize(source, node.input[1]))
            if shape:
                kind = stored.get(node.name, "Float")
                halved = kind == "Float" and not_halved.isdisjoint((node.name, node.input[1]))
                found["Weights"] = {"Type": half if halved else kind, "Count": volume(shape)}
                found["OutMaps"] = shape[0] if node.op_type in ("Conv", "Gemm") else shape[-1]
        if found:
            facts[node.name] = found
    return facts


def biased_products(source: onnx.ModelProto) -> dict[str, str]:
    """Return the matrix product that each layer adds a constant bias to: a linear layer of more than two dimensions."""
    constants = {tensor.name for tensor in source.graph.initializer}
    products = {node.output[0]: node.name for node in source.graph.node if node.op_type == "MatMul"}
    return {
        node.name: products[name]
        for node in source.graph.node
        if node.op_type == "Add" and not constants.isdisjoint(node.input)
        for name in node.input
        if name in products
    }


def _stored_types(model: onnx.ModelProto) -> dict[str, str]:
    """Type in which each layer's weights are stored, looking through DequantizeLinear."""
    types = {tensor.name: _TYPES.get(tensor.data_type, "Float") for tensor in model.graph.initializer}
    return {
        node.name: types.get(_behind_dequantize(model, node.input[1]), "Float")
        for node in model.graph.node
        if len(node.input) > 1
    }


def _behind_dequantize(model: onnx.ModelProto, name: str) -> str:
    """Return the stored weights that a layer multiplies by; they may be floats in front of Q and DQ."""
    for node in reversed(model.graph.node):
        if node.op_type in ("DequantizeLinear", "QuantizeLinear") and node.output[0] == name:
            name = node.input[0]
    return name
