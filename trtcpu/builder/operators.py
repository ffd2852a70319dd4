"""What the parser refuses of a model, before OpenVINO reads it: some of what OpenVINO cannot convert ends the process.

operators.json is the one table: the operators that NVIDIA's parser imports, what it asks of their attributes and
outputs, and which of them OpenVINO has no rule for.
"""

import copy
import functools
import json
from collections.abc import Iterable, Iterator, Set
from pathlib import Path
from typing import Any, NamedTuple

import onnx
import onnx.inliner
from onnx import helper, numpy_helper

from trtcpu.api.enums import ErrorCode

_STANDARD = ("", "ai.onnx")
QUANTISERS = ("QuantizeLinear", "DequantizeLinear")
_TYPES = frozenset("FLOAT FLOAT16 BFLOAT16 DOUBLE INT8 UINT8 INT32 INT64 BOOL".split())
TYPE_ATTRIBUTES = ("to", "dtype", "output_dtype")


class Refusal(NamedTuple):
    """What cannot be imported, and why: a node with its place in the graph, or a tensor, -1 and an empty node.

    A subgraph's node has its owner's place.
    """

    code: ErrorCode
    reason: str
    index: int = -1
    node: onnx.NodeProto = onnx.NodeProto()


@functools.cache
def _table() -> dict[str, Any]:
    return json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))


@functools.cache
def supported() -> frozenset[str]:
    """Return the operators that can be imported."""
    return frozenset(_table()["imported"]) - frozenset(_table()["not_converted"])


def expanded(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with the operators that OpenVINO gets wrong written out as ONNX defines them."""
    wrong = {*_table()["expanded"]} & {node.op_type for node in model.graph.node}
    if not wrong:
        return model
    typed = copy.deepcopy(model)
    for tensor in model.graph.initializer:  # the inliner looks up the types of weights too
        typed.graph.value_info.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    chosen = [("", kind) for kind in sorted(wrong)]
    return onnx.inliner.inline_selected_functions(typed, chosen, inline_schema_functions=True)


def refusals(graph: onnx.GraphProto) -> Iterator[Refusal]:
    """Give every node that cannot be imported: TensorRT 10 looks at all of them before it gives up."""
    constants = constants_of(graph)
    typed = {value.name: value.type.tensor_type.elem_type for value in (*graph.input, *graph.output)}
    for name, number in (typed | {tensor.name: tensor.data_type for tensor in graph.initializer}).items():
        if number and (kind := _type_name(number)) not in _TYPES:
            yield Refusal(ErrorCode.UNSUPPORTED_NODE_DATATYPE, f"Unsupported data type {kind} of tensor {name}")
    for index, node in enumerate(graph.node):
        for inner in (node, *nodes_within(node)):
            found = _refused(inner, constants) or _operand_refused(inner, typed.keys() - constants.keys())
            if found:
                yield Refusal(*found, index, inner)


def constants_of(graph: onnx.GraphProto) -> dict[str, onnx.TensorProto]:
    """Return what is stored, as a weight or by a Constant, by name."""
    values = {node.output[0]: a.t for node in graph.node if node.op_type == "Constant" for a in node.attribute}
    return values | {tensor.name: tensor for tensor in graph.initializer}


def nodes_within(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    """Give the nodes of a node's subgraphs, at any depth."""
    for graph in subgraphs(node):
        for inner in graph.node:
            yield inner
            yield from nodes_within(inner)


def names_read(graph: onnx.GraphProto) -> set[str]:
    """Return the names that a graph's nodes read, at any depth, and those of its outputs."""
    nodes = [inner for node in graph.node for inner in (node, *nodes_within(node))]
    inside = {value.name for node in nodes for body in subgraphs(node) for value in body.output}
    return inside | {name for node in nodes for name in node.input} | {value.name for value in graph.output}


def keep_read(graph: onnx.GraphProto, weights: Iterable[onnx.TensorProto]) -> None:
    """Make those of `weights` that are read the graph's; what is a weight is no input any more."""
    read, stored = names_read(graph), {tensor.name for tensor in graph.initializer}
    kept = [tensor for tensor in weights if tensor.name in read]
    inputs = [value for value in graph.input if value.name not in stored]
    del graph.initializer[:], graph.input[:]
    graph.initializer.extend(kept)
    graph.input.extend(inputs)


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Give the bodies that a node such as If or Loop holds."""
    for attribute in node.attribute:
        yield from ([attribute.g] if attribute.HasField("g") else attribute.graphs)


def _refused(node: onnx.NodeProto, constants: dict[str, onnx.TensorProto]) -> tuple[ErrorCode, str] | None:
    """Return why a node cannot be imported, or None."""
    kind = node.op_type
    if node.domain not in _STANDARD or kind not in _table()["imported"]:
        what = f"{node.domain}::{kind}" if node.domain else kind
        return ErrorCode.UNSUPPORTED_NODE, f"No importer registered for op: {what}"
    if kind not in supported():
        return ErrorCode.UNSUPPORTED_NODE, f"the CPU engine has no {kind}; TensorRT on an NVIDIA GPU has"
    for attribute in node.attribute:
        if attribute.name in TYPE_ATTRIBUTES and (named := _type_name(attribute.i)) not in _TYPES:
            return ErrorCode.UNSUPPORTED_NODE_DATATYPE, f"{kind}: unsupported data type {named}"
    if reason := _attribute_refused(node):
        return ErrorCode.UNSUPPORTED_NODE_ATTR, reason
    for what, names in (("inputs", node.input), ("outputs", node.output)):
        most = _table()[what].get(kind, len(names))
        if any(names[most:]):
            return ErrorCode.UNSUPPORTED_NODE, f"only the first {most} {what} of {kind} are supported"
    if kind in QUANTISERS:
        return _quantiser_refused(node, constants)
    return None


def _attribute_refused(node: onnx.NodeProto) -> str:
    for name, allowed in _table()["attributes"].get(node.op_type, {}).items():
        for attribute in node.attribute:
            value = helper.get_attribute_value(attribute) if attribute.name == name else allowed[0]
            values = [one.decode() if isinstance(one, bytes) else one for one in _listed(value)]
            if not {*values} <= {*allowed}:
                return f"{node.op_type}'s {name} must be {' or '.join(map(str, allowed))}, found {value}"
    return ""


def _operand_refused(node: onnx.NodeProto, inputs: Set[str]) -> tuple[ErrorCode, str] | None:
    """Return why an operand cannot be a graph's input: OpenVINO is wrong, or ends, if it is known only at runtime."""
    place = _table()["not_from_inputs"].get(node.op_type, len(node.input))
    if {*node.input[place : place + 1]} & inputs:
        return ErrorCode.UNSUPPORTED_NODE_INPUT, f"{node.op_type}'s {node.input[place]} must not be an input"
    return None


def _type_name(number: int) -> str:
    return onnx.TensorProto.DataType.Name(number)


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _quantiser_refused(node: onnx.NodeProto, constants: dict[str, onnx.TensorProto]) -> tuple[ErrorCode, str] | None:
    """Return why Q or DQ cannot be imported: TensorRT quantises activations, symmetrically."""
    data = constants.get(node.input[0])
    if data is not None and data.data_type == onnx.TensorProto.INT32:
        reason = (
            f"{node.name}: only activation types allowed as input to this layer. {node.input[0]} is INT32, a bias "
            "perhaps: keep biases in float"
        )
        return ErrorCode.INVALID_NODE, reason
    given = any(node.input[2:])
    zero = constants.get(node.input[2]) if given else None
    if given and (zero is None or numpy_helper.to_array(zero).any()):
        return ErrorCode.UNSUPPORTED_NODE_INPUT, (
            f"{node.op_type} {node.name}: quantisation is symmetric, zero point {node.input[2]} must be stored zeros"
        )
    return None
