"""A strongly typed FP16 or BF16 network as FP32 ONNX, which is what OpenVINO compiles with weights stored in half.

OpenVINO turns constants of half types into FP32 where it computes in another type, and then stores twice the bytes; a
cast behind a layer takes its name. So casts between the three types go, and what the types said is told beside the
model: the hint, the layers that stay in FP32, and that weights are stored in half.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["HALVES", "has_half_types", "in_single_types"]

HALVES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
_FLOATS = (TensorProto.FLOAT, *HALVES)


def has_half_types(model: onnx.ModelProto, kinds: tuple[int, ...] = HALVES) -> bool:
    """Say whether a tensor of the model is of one of these types."""
    graph = model.graph
    values = (*graph.input, *graph.output, *graph.value_info)
    return any(value.type.tensor_type.elem_type in kinds for value in values) or any(
        tensor.data_type in kinds for tensor in graph.initializer
    )


def in_single_types(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy that computes in FP32; inputs and outputs of the network keep their types, behind casts.

    A model without half types, or with subgraphs, is returned as it is.
    """
    subgraphs = any(
        attribute.HasField("g") or attribute.graphs for node in model.graph.node for attribute in node.attribute
    )
    if subgraphs or not has_half_types(model):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    values = (*graph.input, *graph.output, *graph.value_info)
    floats = {value.name for value in values if value.type.tensor_type.elem_type in _FLOATS}
    floats |= {tensor.name for tensor in graph.initializer if tensor.data_type in _FLOATS}
    for tensor in graph.initializer:
        _widen(tensor)
    for node in graph.node:
        _retype(node)
    for value in graph.value_info:
        if value.type.tensor_type.elem_type in HALVES:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    inner = _cast_ends(graph)
    _drop_casts(graph, (floats - inner.keys()) | {*inner.values()})
    return copy


def _widen(tensor: onnx.TensorProto) -> None:
    if tensor.data_type in HALVES:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name))


def _retype(node: onnx.NodeProto) -> None:
    """Change what an attribute says of the type."""
    for attribute in node.attribute:
        if attribute.name in ("to", "dtype", "output_dtype") and attribute.i in HALVES:
            attribute.i = TensorProto.FLOAT
        elif attribute.HasField("t"):
            _widen(attribute.t)


def _cast_ends(graph: onnx.GraphProto) -> dict[str, str]:
    """Put casts behind the inputs and in front of the outputs of half types; return the FP32 tensor of each."""
    inner = {v.name: f"{v.name}_fp32" for v in (*graph.input, *graph.output) if v.type.tensor_type.elem_type in HALVES}
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [inner.get(name, name) for name in names]
    first = [_cast(v.name, inner[v.name], TensorProto.FLOAT) for v in graph.input if v.name in inner]
    last = [_cast(inner[v.name], v.name, v.type.tensor_type.elem_type) for v in graph.output if v.name in inner]
    nodes = [*first, *graph.node, *last]
    del graph.node[:]
    graph.node.extend(nodes)
    return inner


def _cast(source: str, target: str, kind: int) -> onnx.NodeProto:
    return helper.make_node("Cast", [source], [target], f"{target}_cast", to=kind)


def _drop_casts(graph: onnx.GraphProto, floats: set[str]) -> None:
    """Take out the casts from FP32 to FP32; what one gave as an output of the network, its producer gives then."""
    outputs = {value.name for value in graph.output}
    produced = {name for node in graph.node for name in node.output}
    renamed: dict[str, str] = {}
    kept = []
    for node in graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        same = node.op_type == "Cast" and node.input[0] in floats and node.attribute[0].i == TensorProto.FLOAT
        source, target = (node.input[0], node.output[0]) if same else ("", "")
        if not same or (target in outputs and (source in outputs or source not in produced)):
            kept.append(node)
        elif target in outputs:
            for other in kept:
                other.input[:] = [target if name == source else name for name in other.input]
                other.output[:] = [target if name == source else name for name in other.output]
            renamed[source] = target
        else:
            renamed[target] = source
    del graph.node[:]
    graph.node.extend(kept)
