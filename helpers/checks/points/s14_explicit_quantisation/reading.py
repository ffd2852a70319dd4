"""Reads an ONNX model with Q/DQ pairs: the inputs that come through a pair, and the model without its pairs.

Also the right answers: the layers with stored weights, the skip branches, and the pairs at given places.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

import numpy as np
import onnx
from onnx import numpy_helper

from helpers.checks.missed import Missed
from helpers.checks.points.pure import OneOf, agree
from helpers.checks.probes.loads import loads

Place = tuple[str, int]  # a node's name, and the index of one of its inputs

_Q, _DQ = "QuantizeLinear", "DequantizeLinear"


class Reading(TypedDict):
    """A model without its pairs: nodes by name as [operator, inputs, outputs, attributes]; the pairs by node and input.

    A pair is a QuantizeLinear and the DequantizeLinear after it: the `tensor` that they round, and the numbers of each.
    `rounded` are the inputs of each node that are read through a pair; `rounding_nodes` counts Q and DQ nodes by name.
    """

    nodes: dict[str, list[Any]]
    pairs: dict[str, dict[str, Any]]
    rounded: dict[str, list[int]]
    rounding_nodes: int
    stored: dict[str, np.ndarray]
    opsets: dict[str, int]


def read_quantised(content: bytes) -> Reading:
    """Return a reading of a model that a student made; raise Missed if it is not a valid ONNX model."""
    try:
        return read_model(content)
    except Exception as error:  # the checker's and protobuf's errors have classes of their own
        found = (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
        advice = "let a node read only stored tensors and outputs of earlier nodes, and use each name once"
        raise Missed("an ONNX model that onnx.checker accepts", found, advice) from error


@loads
def read_model(content: bytes) -> Reading:
    """Return a reading of a valid model."""
    model = onnx.load_from_string(content)
    onnx.checker.check_model(model)
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    rounding = {node.output[0]: node for node in model.graph.node if node.op_type in (_Q, _DQ)}
    pairs, nodes = {}, {}
    for node in model.graph.node:
        if node.output[0] not in rounding:
            through = [_pair(rounding, stored, name) for name in node.input]
            pairs[node.name] = {str(index): pair for index, pair in enumerate(through) if pair}
            inputs = [pair["tensor"] if pair else name for pair, name in zip(through, node.input, strict=True)]
            attributes = {about.name: repr(onnx.helper.get_attribute_value(about)) for about in node.attribute}
            nodes[node.name] = [node.op_type, inputs, list(node.output), attributes]
    rounded = {name: [*map(int, found)] for name, found in pairs.items()}
    names = {node.name or tensor for tensor, node in rounding.items()}  # a node needs no name
    return {
        "nodes": nodes,
        "pairs": pairs,
        "rounded": rounded,
        "rounding_nodes": len(names),
        "stored": stored,
        "opsets": {each.domain: each.version for each in model.opset_import},
    }


def _pair(rounding: Mapping[str, onnx.NodeProto], stored: Mapping[str, np.ndarray], name: str) -> dict[str, Any] | None:
    """Return the pair that produces a tensor, or None."""
    after = rounding.get(name)
    before = rounding.get(after.input[0]) if after is not None else None
    if before is None:
        return None
    return {"tensor": before.input[0], before.op_type: _numbers(before, stored), after.op_type: _numbers(after, stored)}


def _numbers(node: onnx.NodeProto, stored: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return a node's numbers. Without a zero point its codes are uint8, without an axis the axis is 1."""
    scale, zero = (np.asarray(stored.get(name, np.uint8(0))) for name in (*node.input, "")[1:3])
    axis = next((about.i for about in node.attribute if about.name == "axis"), 1)
    numbers = {"scale": scale.ravel().tolist(), "zero point": zero.ravel().tolist()}
    return numbers | {"types": [scale.dtype.name, zero.dtype.name], "axis": axis}


def pair_of(tensor: str, scale: Any, axis: int | None = None) -> dict[str, Any]:
    """Return the right pair for a tensor: both nodes with this scale, zeros, and the axis if there is one."""
    scales, along = np.ravel(scale).tolist(), {} if axis is None else {"axis": axis}
    numbers = {"scale": scales, "zero point": [0] * len(scales), "types": ["float32", "int8"]} | along
    return {"tensor": tensor, _Q: numbers, _DQ: numbers}


def pairs_at(model: Reading, places: Iterable[Place], scales: Mapping[str, float]) -> dict[str, dict[str, Any]]:
    """Return the right pairs by node and input: weights have one scale per channel, others that of `scales`."""
    right, axes = dict[str, dict[str, Any]](), weighted_layers(model)
    for name, index in places:
        tensor = model["nodes"][name][1][index]
        scale, axis = scales.get(tensor), None
        if (weights := model["stored"].get(tensor)) is not None:
            axis = axes[name]
            largest = np.abs(weights).max(axis=tuple(other for other in range(weights.ndim) if other != axis))
            scale = np.where(largest > 0, largest / 127, 1)
        right.setdefault(name, {})[str(index)] = pair_of(tensor, scale, axis)
    return right


def by_node(model: Reading, places: Iterable[Place]) -> dict[str, list[int]]:
    """Return for each node the inputs among `places`."""
    return {name: sorted({index for node, index in places if node == name}) for name in model["nodes"]}


def same_without_pairs(original: Reading, found: Reading) -> None:
    """Raise Missed if the quantised model without its pairs differs from the original."""
    advice = "change only inputs of nodes: each reads its tensor directly or through one pair; weights and opset stay"
    right = {part: original[part] for part in ("nodes", "stored", "opsets")}
    agree(found, right, "the model without pairs", advice, rtol=0)


def weighted_layers(model: Reading) -> dict[str, int]:
    """Return the layers with stored weights, and the axis of their output channels."""
    return {
        name: 0 if kind == "Conv" or attributes.get("transB") == "1" else 1
        for name, (kind, inputs, _, attributes) in model["nodes"].items()
        if kind in ("Conv", "Gemm", "MatMul") and inputs[1] in model["stored"]
    }


def skip_branches(model: Reading) -> dict[str, OneOf]:
    """Return for each node the lists of inputs that are right as its skip branch: none, one, or either."""
    made_by = {node[2][0]: node[0] for node in model["nodes"].values()}
    readers = Counter(name for node in model["nodes"].values() for name in node[1])
    absorbed = {name for name, kind in made_by.items() if kind == "Conv" and readers[name] == 1}
    sums = {
        name: [[index] for index in (0, 1) if inputs[1 - index] in absorbed]
        for name, (kind, inputs, *_) in model["nodes"].items()
        if kind == "Add" and not model["stored"].keys() & {*inputs}
    }
    return {name: OneOf(tuple(sums.get(name) or [[]])) for name in model["nodes"]}
