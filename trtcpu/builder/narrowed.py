"""Types that NVIDIA's parser reads as others: DOUBLE as FLOAT, quantised UINT8 as INT8; and what INT64 loses here."""

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from trtcpu.builder.operators import QUANTISERS, TYPE_ATTRIBUTES, constants_of, subgraphs

_ARITHMETIC = frozenset("Add Div Equal Greater GreaterOrEqual Less LessOrEqual Mod Mul Pow Sub".split())
_INT32_MAX = np.iinfo(np.int32).max


def without_doubles(graph: onnx.GraphProto) -> bool:
    """Make a graph's DOUBLE tensors FLOAT, and say whether there were any."""
    found = False
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type == TensorProto.DOUBLE:
            value.type.tensor_type.elem_type, found = TensorProto.FLOAT, True
    attributes = [attribute for node in graph.node for attribute in node.attribute]
    for tensor in (*graph.initializer, *(a.t for a in attributes if a.HasField("t"))):
        if tensor.data_type == TensorProto.DOUBLE:
            tensor.CopyFrom(as_float(tensor))
            found = True
    for attribute in attributes:
        if attribute.name in TYPE_ATTRIBUTES and attribute.i == TensorProto.DOUBLE:
            attribute.i, found = TensorProto.FLOAT, True
    return any([found, *(without_doubles(inner) for node in graph.node for inner in subgraphs(node))])


def as_float(tensor: TensorProto) -> TensorProto:
    """Return a tensor in FP32; values beyond its range become its largest."""
    most = np.finfo(np.float32).max
    values = numpy_helper.to_array(tensor)
    clipped = np.where(np.isfinite(values), np.clip(values, -most, most), values)
    return numpy_helper.from_array(clipped.astype(np.float32), tensor.name)


def quantised_to_int8(graph: onnx.GraphProto) -> bool:
    """Let each QuantizeLinear give INT8 in place of UINT8, its default; say whether any asked for UINT8.

    Its zero points are zero, or the graph is refused. Stored UINT8 codes stay: they do not fit.
    """
    weights = constants_of(graph)
    known = {value.name: value for value in (*graph.value_info, *graph.output)}
    asked = False
    for node in _of_uint8(graph, weights):
        zero = f"{node.output[0]}/int8_zero_point"
        scale = weights.get(node.input[1])
        graph.initializer.append(numpy_helper.from_array(np.zeros(scale.dims if scale else (), np.int8), zero))
        asked |= len(node.input) > 2
        node.input[:] = [*node.input[:2], zero]
        for name in ({*node.output} if node.op_type == "QuantizeLinear" else set()) & known.keys():
            known[name].type.tensor_type.elem_type = TensorProto.INT8
    return asked


def _of_uint8(graph: onnx.GraphProto, weights: dict[str, TensorProto]) -> Iterator[onnx.NodeProto]:
    """Give the Q and DQ nodes of activations whose zero point is of UINT8, or left out."""
    for node in graph.node:
        zero = weights.get(node.input[2]) if len(node.input) > 2 else None
        stored = node.op_type == "DequantizeLinear" and node.input[0] in weights
        if node.op_type in QUANTISERS and not stored and (zero is None or zero.data_type == TensorProto.UINT8):
            yield node


def beyond_32_bits(graph: onnx.GraphProto) -> list[str]:
    """Return the INT64 constants that arithmetic reads and 32 bits do not hold: the CPU engine cuts them off."""
    values = constants_of(graph)
    read = {name for node in graph.node if node.op_type in _ARITHMETIC for name in node.input} & values.keys()
    integers = {
        name: numpy_helper.to_array(values[name]) for name in read if values[name].data_type == TensorProto.INT64
    }
    return [name for name, array in sorted(integers.items()) if np.abs(array.astype(float)).max(initial=0) > _INT32_MAX]
