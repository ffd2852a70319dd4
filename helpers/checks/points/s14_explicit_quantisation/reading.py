"""Reads an ONNX model with Q/DQ pairs: which inputs come through a pair, and what the model is without them.

Also what is right: the layers with stored weights, the skip branches, and a pair's scale.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from helpers.checks.missed import Missed
from helpers.checks.points.pure import agree
from helpers.checks.probes.loads import loads

Place = tuple[str, int]  # a node's name, and the index of one of its inputs

_Q, _DQ = "QuantizeLinear", "DequantizeLinear"


SYMMETRIC = "both with this float32 scale, and zeros as int8 of its shape"


@dataclass(frozen=True)
class Reading:
    """A model without its pairs: nodes by name as [operator, inputs, outputs, attributes]; and the pairs by place.

    A pair is a QuantizeLinear and the DequantizeLinear behind it: the `tensor` that they round, the first one's `scale`
    as a list and `axis`, and whether they are SYMMETRIC. `rounding` names all nodes of these two operators.
    """

    nodes: dict[str, list[Any]]
    pairs: dict[Place, dict[str, Any]]
    rounding: list[str]
    stored: dict[str, np.ndarray]

    def by_node(self, places: Iterable[Place]) -> dict[str, list[int]]:
        """Return for each node the inputs among `places`."""
        return {name: sorted({index for node, index in places if node == name}) for name in self.nodes}


def read_quantised(content: bytes) -> Reading:
    """Return a reading of a model that a student made; raise Missed where it is no sound ONNX model."""
    try:
        return read_model(content)
    except Exception as error:  # the checker's and protobuf's errors have classes of their own
        found = (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
        advice = "a node may only read what stands before it, or is stored; names are given once"
        raise Missed("an ONNX model that onnx.checker accepts", found, advice) from error


def read_model(content: bytes) -> Reading:
    """Return a reading of a sound model."""
    nodes, pairs, *rest = _pieces(content)
    return Reading(nodes, {(node, index): pair for node, index, pair in pairs}, *rest)


@loads
def _pieces(content: bytes) -> list[Any]:
    """Return what a reading is made of, as plain data."""
    model = onnx.load_from_string(content)
    onnx.checker.check_model(model)
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    rounding = {node.output[0]: node for node in model.graph.node if node.op_type in (_Q, _DQ)}
    pairs, nodes = [], {}
    for node in model.graph.node:
        if node.output[0] not in rounding:
            through = {index: _pair(rounding, stored, name) for index, name in enumerate(node.input)}
            pairs += [[node.name, index, pair] for index, pair in through.items() if pair]
            inputs = [pair["tensor"] if (pair := through[index]) else name for index, name in enumerate(node.input)]
            attributes = {about.name: repr(onnx.helper.get_attribute_value(about)) for about in node.attribute}
            nodes[node.name] = [node.op_type, inputs, list(node.output), attributes]
    return [nodes, pairs, [node.name for node in rounding.values()], stored]


def _pair(rounding: Mapping[str, onnx.NodeProto], stored: Mapping[str, np.ndarray], name: str) -> dict[str, Any] | None:
    """Return the pair that makes a tensor; None where none does."""
    after = rounding.get(name)
    before = rounding.get(after.input[0]) if after is not None else None
    if before is None or (before.op_type, after.op_type) != (_Q, _DQ):
        return None
    (scale, zero, axis), other = (_numbers(node, stored) for node in (before, after))
    same = all(map(np.array_equal, (scale, zero, axis), other))
    kinds = (scale.dtype, zero.dtype, zero.shape) == (np.float32, np.int8, scale.shape)
    told = {"tensor": before.input[0], "scale": scale.ravel().tolist(), "axis": axis}
    return told | {SYMMETRIC: bool(same and kinds and not zero.any())}


def _numbers(node: onnx.NodeProto, stored: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, int]:
    """Return scale, zero point and axis of a node. Without a zero point its codes are uint8."""
    scale, zero = (stored.get(name, np.uint8(0)) for name in (*node.input, "")[1:3])
    return np.asarray(scale), np.asarray(zero), next((about.i for about in node.attribute if about.name == "axis"), 1)


def same_without_pairs(original: Reading, found: Reading) -> None:
    """Raise Missed where the quantised model without its pairs is another than the original."""
    advice = "change a node's inputs alone: each reads its tensor as it is, or through one pair"
    agree(found.nodes, original.nodes, "the model without its pairs", advice)
    stored = {name: found.stored.get(name) for name in original.stored}
    agree(stored, original.stored, "the stored tensors", "Q reads the float weights, which stay as they are", rtol=0)


def weighted_layers(model: Reading) -> dict[str, int]:
    """Return the layers with stored weights, and the axis of each one's output channels."""
    return {
        name: 0 if kind == "Conv" or attributes.get("transB") == "1" else 1
        for name, (kind, inputs, _, attributes) in model.nodes.items()
        if kind in ("Conv", "Gemm", "MatMul") and inputs[1] in model.stored
    }


def skip_branches(model: Reading) -> dict[str, set[int]]:
    """Return the additions that a convolution's kernel can take in, and which inputs may be called the skip branch."""
    made_by = {node[2][0]: node[0] for node in model.nodes.values()}
    readers = Counter(name for node in model.nodes.values() for name in node[1])
    absorbed = {name for name, kind in made_by.items() if kind == "Conv" and readers[name] == 1}
    return {
        name: {index for index in (0, 1) if inputs[1 - index] in absorbed}
        for name, (kind, inputs, _, _) in model.nodes.items()
        if kind == "Add" and absorbed & {*inputs} and not model.stored.keys() & {*inputs}
    }


def scale_is_right(found: Reading, place: Place, axes: Mapping[str, int], scales: Mapping[str, float]) -> None:
    """Raise Missed where a pair has another scale: weights per channel along `axes`, activations from `scales`."""
    tensor, axis = found.pairs[place]["tensor"], axes.get(place[0])
    if (values := found.stored.get(tensor)) is None:
        right = scales.get(tensor, math.nan)
        return pair_is(found, place, right, None, "the given scale, neither times 127 nor over it")
    largest = np.abs(values).max(axis=tuple(one for one in range(values.ndim) if one != axis))
    own = dict(enumerate(found.pairs[place]["scale"]))
    right = [most / 127 or own.get(channel) for channel, most in enumerate(largest.tolist())]  # of zeros any is right
    return pair_is(found, place, right, axis, "quantize_weights along channel_axis(node), in both nodes")


def pair_is(found: Reading, place: Place, scale: Any, axis: int | None, advice: str) -> None:
    """Raise Missed where a place has no pair, or one with another scale or axis."""
    right = {SYMMETRIC: True, "scale": np.ravel(scale).tolist()} | ({} if axis is None else {"axis": axis})
    agree(found.pairs.get(place), right, f"the pair at input {place[1]} of {place[0]}", advice, rtol=1e-4)
