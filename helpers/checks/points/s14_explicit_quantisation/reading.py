"""Reads a quantised ONNX model: which inputs come through a pair of Q/DQ nodes, and what it is like without them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from helpers.checks.missed import Missed
from helpers.checks.probes.loads import loads

Place = tuple[str, int]
_Q, _DQ = "QuantizeLinear", "DequantizeLinear"
_DEFAULT_AXIS = 1


@dataclass(frozen=True)
class Pair:
    """A QuantizeLinear and the DequantizeLinear behind it.

    `tensor` is what they quantise; scales, zero points and axes are those of both. A zero point that is left away, of
    which the type is uint8, is None.
    """

    name: str
    tensor: str
    scales: tuple[np.ndarray, np.ndarray]
    zeros: tuple[np.ndarray | None, np.ndarray | None]
    axes: tuple[int, int]


@dataclass(frozen=True)
class Reading:
    """A model without its pairs: nodes by name as (operator, attributes, inputs, outputs); and the pairs by place."""

    nodes: dict[str, tuple[str, str, tuple[str, ...], tuple[str, ...]]]
    pairs: dict[Place, Pair]
    count: int
    stored: dict[str, np.ndarray]
    ends: tuple[tuple[str, ...], tuple[str, ...]]


def read_quantised(content: bytes) -> Reading:
    """Return a reading of a serialized model; raise Missed where it is no sound ONNX model with its nodes in order."""
    try:
        _check(content)
    except Exception as error:  # the checker's and protobuf's errors have classes of their own
        found = (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
        advice = "a node may only read what stands before it, or is stored; names are given once"
        raise Missed("an ONNX model that onnx.checker accepts", found, advice) from error
    return read_model(content)


def read_model(content: bytes) -> Reading:
    """Return a reading of a sound model."""
    nodes, pairs, count, stored, ends = _pieces(content)
    return Reading(
        nodes={name: (kind, about, tuple(inputs), tuple(outputs)) for name, kind, about, inputs, outputs in nodes},
        pairs={(node, index): Pair(*names, *map(tuple, both)) for node, index, names, both in pairs},
        count=count,
        stored=stored,
        ends=tuple(map(tuple, ends)),
    )


@loads
def _check(content: bytes) -> None:
    onnx.checker.check_model(onnx.load_from_string(content))


@loads
def _pieces(content: bytes) -> list[Any]:
    """Return what a reading is made of, as plain data."""
    model = onnx.load_from_string(content)
    stored = _stored(model.graph)
    producer = {name: node for node in model.graph.node for name in node.output}
    kept = [node for node in model.graph.node if node.op_type not in (_Q, _DQ, "Constant")]
    pairs, nodes = [], []
    for node in kept:
        inputs = list(node.input)
        for index, name in enumerate(node.input):
            if pair := _pair(producer, stored, name):
                (_, inputs[index]), _ = pair
                pairs.append([node.name, index, *pair])
        attributes = str(sorted(str(about) for about in node.attribute))
        nodes.append([node.name, node.op_type, attributes, inputs, list(node.output)])
    count = sum(node.op_type in (_Q, _DQ) for node in model.graph.node)
    ends = [[value.name for value in side] for side in (model.graph.input, model.graph.output)]
    return [nodes, pairs, count, stored, ends]


def _stored(graph: onnx.GraphProto) -> dict[str, np.ndarray]:
    """Return the values of initializers and of Constant nodes by name."""
    found = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            value = next((about.t for about in node.attribute if about.name == "value"), None)
            found |= {node.output[0]: numpy_helper.to_array(value)} if value is not None else {}
    return found


def _pair(
    producer: dict[str, onnx.NodeProto], stored: dict[str, np.ndarray], name: str
) -> tuple[list[str], list[list[Any]]] | None:
    """Return the names and the numbers of the pair that makes a tensor, in `Pair`'s order; None where none does."""
    after = producer.get(name)
    before = producer.get(after.input[0]) if after is not None and after.op_type == _DQ else None
    if before is None or before.op_type != _Q:
        return None
    both = before, after
    scales = [stored.get(node.input[1], np.array(np.nan)) for node in both]
    zeros = [stored.get(node.input[2]) if len(node.input) > 2 else None for node in both]
    return [before.name or name, before.input[0]], [scales, zeros, [_axis(node) for node in both]]


def _axis(node: onnx.NodeProto) -> int:
    return next((about.i for about in node.attribute if about.name == "axis"), _DEFAULT_AXIS)


def compare(original: Reading, found: Reading) -> None:
    """Raise Missed where the quantised model without its pairs is another than the original."""
    if found.ends != original.ends:
        raise Missed(f"inputs and outputs {original.ends}", str(found.ends), "leave the ends of the graph alone")
    lacking = sorted(original.nodes.keys() ^ found.nodes.keys())
    if lacking:
        expected = f"the {len(original.nodes)} nodes that the model had, and Q/DQ nodes"
        raise Missed(expected, f"{lacking[0] or 'a node without a name'} is gone or new", "keep every other node")
    for name, node in original.nodes.items():
        _compare_node(name, node, found.nodes[name])
    for name, values in original.stored.items():
        if name not in found.stored or not np.array_equal(found.stored[name], values):
            advice = "the stored tensors stay as they are: QuantizeLinear reads the float weights"
            raise Missed(f"{name} as it was stored", "another content, or none", advice)


def _compare_node(name: str, node: tuple[Any, ...], found: tuple[Any, ...]) -> None:
    if found == node:
        return
    for index, (given, taken) in enumerate(zip(node[2], found[2], strict=False)):
        if given != taken:
            advice = "an input is replaced by the DequantizeLinear's output, and the pair reads what the input was"
            raise Missed(f"input {index} of {name} to be {given}, as it is or through one pair", f"{taken}", advice)
    raise Missed(f"{name} as it was", "another operator, attribute or output", "change a node's inputs, nothing else")
