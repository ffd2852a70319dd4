"""Strong typing: which layers a model wants in half precision, and the same model in FP32 for OpenVINO.

OpenVINO's kernels take their precision from a hint, not from a model's types: an FP16 model would be widened when it
is compiled, its weights too, and its casts would hide the layers' names. So a model's FP16 and BF16 tensors become
FP32, casts between float types go, the layers that were FP32 are marked, and the others' weights are stored in half
precision. What a cast to FP16 and back would have rounded is not.
"""

import copy
from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from trtcpu.builder.narrowed import as_float
from trtcpu.builder.operators import TYPE_ATTRIBUTES

_HALVES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
_FLOATS = (TensorProto.FLOAT, *_HALVES)


def half_types(model: onnx.ModelProto) -> set[int]:
    """Return which of FLOAT16 and BFLOAT16 a model's tensors have."""
    return set(_types(model.graph).values()) & set(_HALVES)


def beyond_half(model: onnx.ModelProto) -> set[str]:
    """Return the names of the FP32 weights that FP16 cannot hold: OpenVINO would store its largest number."""
    stored = {tensor.name: tensor for tensor in model.graph.initializer if tensor.data_type == TensorProto.FLOAT}
    largest = {name: np.abs(numpy_helper.to_array(tensor)).max(initial=0) for name, tensor in stored.items()}
    return {name for name, value in largest.items() if np.finfo(np.float16).max < value}


def float_layers(model: onnx.ModelProto) -> set[str]:
    """Return the names of the nodes that give FP32."""
    types = _types(model.graph)
    return {node.name for node in model.graph.node if any(types.get(name) == TensorProto.FLOAT for name in node.output)}


def without_halves(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy in FP32 of a checked model whose node names are unique; inputs and outputs keep their types.

    A model with subgraphs is returned as it is.
    """
    if any(attribute.HasField("g") or attribute.graphs for node in model.graph.node for attribute in node.attribute):
        return model
    copied = copy.deepcopy(model)
    graph, types = copied.graph, _types(copied.graph)
    names = _names(graph, types)
    ends = [_cast(value.name, names[value.name], TensorProto.FLOAT) for value in _of_half(graph.input)]
    nodes = ends + list(_kept(graph, names))
    nodes += [_cast(names[value.name], value.name, _type(value)) for value in _of_half(graph.output)]
    weights = [_widened(tensor) for tensor in graph.initializer]
    del graph.node[:], graph.initializer[:], graph.value_info[:]
    graph.node.extend(nodes)
    graph.initializer.extend(weights)
    return copied


def _type(value: onnx.ValueInfoProto) -> int:
    return value.type.tensor_type.elem_type


def _types(graph: onnx.GraphProto) -> dict[str, int]:
    """Return the type of each tensor of which it is known."""
    known = {value.name: _type(value) for value in (*graph.value_info, *graph.input, *graph.output)}
    return known | {tensor.name: tensor.data_type for tensor in graph.initializer}


def _of_half(values: list[onnx.ValueInfoProto]) -> list[onnx.ValueInfoProto]:
    return [value for value in values if _type(value) in _HALVES]


def _names(graph: onnx.GraphProto, types: dict[str, int]) -> dict[str, str]:
    """Return the name that each tensor which is renamed has in FP32: what a cast between floats gives is what it took.

    An output in FP32 keeps its name: what is cast to it takes that name, if nothing else claims it.
    """
    names = {value.name: f"{value.name}_in_fp32" for value in _of_half([*graph.input, *graph.output])}
    outputs = {value.name for value in graph.output}
    fixed = outputs | {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        taken, given = node.input[0] if node.input else "", node.output[0]
        if node.op_type != "Cast" or not {types.get(taken), types.get(given)} <= set(_FLOATS):
            continue
        source = names.get(taken, taken)
        if given in outputs and types[given] == TensorProto.FLOAT:
            if source not in fixed:
                fixed.add(given)
                names = {name: given if now == source else now for name, now in names.items()} | {source: given}
        else:
            names[given] = source
    return names


def _kept(graph: onnx.GraphProto, names: dict[str, str]) -> Iterator[onnx.NodeProto]:
    """Give the nodes that are left, with their tensors' names and types in FP32."""
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        if node.op_type == "Cast" and node.input[0] == node.output[0]:
            continue
        for attribute in node.attribute:
            if attribute.name in TYPE_ATTRIBUTES and attribute.i in _HALVES:
                attribute.i = TensorProto.FLOAT
            elif attribute.HasField("t"):
                attribute.t.CopyFrom(_widened(attribute.t))
        yield node


def _cast(source: str, dest: str, to: int) -> onnx.NodeProto:
    return helper.make_node("Cast", [source], [dest], f"{dest}_cast", to=to)


def _widened(tensor: onnx.TensorProto) -> onnx.TensorProto:
    if tensor.data_type not in _HALVES:
        return tensor
    return as_float(tensor)
