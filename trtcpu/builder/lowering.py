"""From a network to the ONNX model that is compiled: inputs, outputs, names, weights and symbolic shapes."""

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from trtcpu.builder.network import INetworkDefinition, ITensor, inputs_of, outputs_of
from trtcpu.builder.operators import expanded, keep_read, nodes_within
from trtcpu.builder.rewritten import rewrite

_LEAST_OVERLAP = np.float32([2.0**-24])


def lowered(network: INetworkDefinition) -> onnx.ModelProto:
    """Return a copy of the network's model with the marked outputs, the tensors' names and the inputs' shapes."""
    model = copy.deepcopy(expanded(network.model))
    rewrite(model)
    graph = model.graph
    inputs, outputs = inputs_of(network), outputs_of(network)
    _set_outputs(graph, outputs)
    _set_input_shapes(graph, inputs)
    names = {t.onnx_name: t.name for t in (*inputs, *outputs) if t.name != t.onnx_name}
    if names:
        _rename(graph, names)
    _fold_weights(graph)
    model.ir_version = max(model.ir_version, 4)  # before it, weights must be inputs too
    _keep_boxes_at_the_threshold(graph)
    return model


def _set_outputs(graph: onnx.GraphProto, outputs: list[ITensor]) -> None:
    known = {value.name: value for value in (*graph.output, *graph.value_info, *graph.input)}
    values = []
    for tensor in outputs:
        value = onnx.ValueInfoProto()
        if tensor.onnx_name in known:
            value.CopyFrom(known[tensor.onnx_name])
        value.name = tensor.onnx_name
        values.append(value)
    del graph.output[:]
    graph.output.extend(values)


def _set_input_shapes(graph: onnx.GraphProto, inputs: list[ITensor]) -> None:
    values = {value.name: value for value in graph.input}
    for tensor in inputs:
        dims = values[tensor.onnx_name].type.tensor_type.shape.dim
        for dim, size in zip(dims, tensor.shape, strict=True):
            if size >= 0:
                dim.dim_value = size
            elif dim.HasField("dim_value"):
                dim.ClearField("dim_value")


def _rename(graph: onnx.GraphProto, names: dict[str, str]) -> None:
    for value in (*graph.input, *graph.output, *graph.value_info):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        for field in (node.input, node.output):
            field[:] = [names.get(name, name) for name in field]


def _fold_weights(graph: onnx.GraphProto) -> None:
    """Turn constants, and weights that are passed on or transposed, into weights: exporters write a layer's so."""
    weights = {tensor.name: tensor for tensor in graph.initializer}
    outputs = {value.name for value in graph.output}
    nodes = []
    for node in graph.node:
        folded = None if node.output[0] in outputs else _folded(node, weights)
        if folded is None:
            nodes.append(node)
        else:
            folded.name = node.output[0]
            weights[folded.name] = folded
    del graph.node[:]
    graph.node.extend(nodes)
    keep_read(graph, weights.values())


def _keep_boxes_at_the_threshold(graph: onnx.GraphProto) -> None:
    """Raise each NonMaxSuppression's threshold a little: boxes that overlap by exactly it stay in ONNX."""
    for index, node in reversed(list(enumerate(graph.node))):
        if node.op_type == "NonMaxSuppression" and len(node.input) > 3 and node.input[3]:
            names = [node.input[3], f"{node.name}/a_little", f"{node.name}/threshold"]
            graph.initializer.append(numpy_helper.from_array(_LEAST_OVERLAP, names[1]))
            graph.node.insert(index, onnx.helper.make_node("Add", names[:2], names[2:], names[2]))
            node.input[3] = names[2]


def _folded(node: onnx.NodeProto, weights: Mapping[str, onnx.TensorProto]) -> onnx.TensorProto | None:
    """Return what a node gives as a weight; None if that depends on the inputs, or is none of the three."""
    attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    tensor = attributes.get("value") if node.op_type == "Constant" else weights.get(next(iter(node.input), ""))
    if tensor is None or node.op_type not in ("Constant", "Identity", "Transpose"):
        return None
    if node.op_type == "Transpose":
        return numpy_helper.from_array(np.transpose(numpy_helper.to_array(tensor), attributes.get("perm")))
    return copy.deepcopy(tensor)


def all_nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """Return the nodes of the graph and of what lies inside of them."""
    return [inner for node in model.graph.node for inner in (node, *nodes_within(node))]


def inferred_shapes(model: onnx.ModelProto) -> dict[str, list[Any]]:
    """Return tensors' shapes: a size, ["input", axis] if it follows an input's, or -1 if it is not known so.

    An empty list is returned for a tensor of unknown rank.
    """
    probe = copy.deepcopy(model)
    origin = _name_dynamic_dimensions(probe.graph)
    del probe.graph.value_info[:]  # an entry without a shape would hide the weight of its name
    for value in probe.graph.output:
        value.type.tensor_type.ClearField("shape")
    try:
        probe = onnx.shape_inference.infer_shapes(probe)
    except Exception:  # the shapes are then found by running the engine
        return {value.name: [] for value in model.graph.output}
    values = (*probe.graph.value_info, *probe.graph.output)
    return {value.name: [_size(d, origin) for d in value.type.tensor_type.shape.dim] for value in values}


def _name_dynamic_dimensions(graph: onnx.GraphProto) -> dict[str, list[Any]]:
    origin: dict[str, list[Any]] = {}
    for value in graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value"):
                dim.dim_param = dim.dim_param or f"{value.name}:{axis}"
                origin.setdefault(dim.dim_param, [value.name, axis])
    return origin


def _size(dim: onnx.TensorShapeProto.Dimension, origin: dict[str, list[Any]]) -> Any:
    if dim.HasField("dim_value"):
        return dim.dim_value
    return origin.get(dim.dim_param, -1)
