"""From a network to the ONNX model that is compiled: inputs, outputs, names, weights and symbolic shapes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from trtcpu.builder.network import INetworkDefinition, ITensor, inputs_of, outputs_of


def lowered(network: INetworkDefinition) -> onnx.ModelProto:
    """Return a copy of the network's model with the marked outputs, the tensors' names and the inputs' shapes."""
    model = onnx.ModelProto()
    model.CopyFrom(network.model)
    graph = model.graph
    inputs, outputs = inputs_of(network), outputs_of(network)
    _set_outputs(graph, outputs)
    _set_input_shapes(graph, inputs)
    names = {t.onnx_name: t.name for t in (*inputs, *outputs) if t.name != t.onnx_name}
    if names:
        _rename(graph, names)
    _fold_weights(graph)
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
    if len(nodes) == len(graph.node):
        return
    read = {name for node in nodes for name in node.input} | outputs
    kept = [tensor for tensor in weights.values() if tensor.name in read]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(kept)


def _folded(node: onnx.NodeProto, weights: Mapping[str, onnx.TensorProto]) -> onnx.TensorProto | None:
    """Return what a node gives as a weight; None where that depends on the inputs, or is none of the three."""
    attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    tensor = attributes.get("value") if node.op_type == "Constant" else weights.get(next(iter(node.input), ""))
    if tensor is None or node.op_type not in ("Constant", "Identity", "Transpose"):
        return None
    if node.op_type == "Transpose":
        return numpy_helper.from_array(np.transpose(numpy_helper.to_array(tensor), attributes.get("perm")))
    copy = onnx.TensorProto()
    copy.CopyFrom(tensor)
    return copy


def output_shapes(model: onnx.ModelProto) -> dict[str, list[Any]]:
    """Return each output's shape: a size, ["input", axis] where it follows an input's, or -1 where it is not known so.

    An empty list is returned for an output of unknown rank.
    """
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    origin = _name_dynamic_dimensions(probe.graph)
    for value in (*probe.graph.output, *probe.graph.value_info):
        value.type.tensor_type.ClearField("shape")
    try:
        probe = onnx.shape_inference.infer_shapes(probe)
    except Exception:  # the shapes are then found by running the engine
        return {value.name: [] for value in model.graph.output}
    return {value.name: [_size(d, origin) for d in value.type.tensor_type.shape.dim] for value in probe.graph.output}


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
