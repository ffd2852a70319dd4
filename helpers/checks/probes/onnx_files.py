"""Reads what an ONNX file says of itself, and ONNX networks of known behaviour for a simplifier."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypedDict

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from helpers.checks.probes.loads import loads
from helpers.toys.networks import tiny_onnx

_ML = ("", "ai.onnx")


class OnnxTensor(TypedDict):
    """Of an input or output: numbers and the names of symbolic axes, and the type's name."""

    shape: list[int | str]
    dtype: str


class OnnxFacts(TypedDict):
    """An ONNX model's own account.

    Inputs and outputs by name, weights that a caller may replace among the inputs; how many nodes; the nodes that
    compute from constants alone.
    """

    opset: int
    inputs: dict[str, OnnxTensor]
    outputs: dict[str, OnnxTensor]
    nodes: int
    foldable: list[str]


@loads
def onnx_facts(content: bytes) -> OnnxFacts:
    """Return an ONNX model's own account.

    Raises:
        onnx.onnx_cpp2py_export.checker.ValidationError, google.protobuf.message.DecodeError: not an ONNX model.
    """
    model = onnx.load_from_string(content)
    graph = model.graph
    return {
        "opset": max((entry.version for entry in model.opset_import if entry.domain in _ML), default=0),
        "inputs": {value.name: _tensor(value) for value in graph.input},
        "outputs": {value.name: _tensor(value) for value in graph.output},
        "nodes": len(graph.node),
        "foldable": _foldable(graph),
    }


@loads
def tensor_names(content: bytes) -> list[str]:
    """Return the names of all tensors that a model is given or computes."""
    graph = onnx.load_from_string(content).graph
    return [*(value.name for value in graph.input), *(name for node in graph.node for name in node.output)]


@loads
def nodes_of(content: bytes, kind: str) -> list[str]:
    """Return the names of a model's nodes of one operator."""
    return [node.name for node in onnx.load_from_string(content).graph.node if node.op_type == kind]


def _tensor(value: onnx.ValueInfoProto) -> OnnxTensor:
    kind = value.type.tensor_type
    shape = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in kind.shape.dim]
    return {"shape": shape, "dtype": TensorProto.DataType.Name(kind.elem_type)}


def _foldable(graph: onnx.GraphProto) -> list[str]:
    """Return the nodes that compute from constants alone."""
    known, found = {tensor.name for tensor in graph.initializer}, list[str]()
    for node in graph.node:
        if all(name in known for name in node.input if name):
            known |= set(node.output)
            found += [f"{node.op_type} {node.name}".strip()] * bool(node.input)  # a Constant has none
    return found


def redundant_onnx(seed: int) -> tuple[bytes, int]:
    """Return `tiny_onnx` with three nodes that a simplifier removes, and how many nodes are left without them.

    Two compute the last layer's weights from constants; one is an Identity.
    """
    model = onnx.load_from_string(tiny_onnx(seed))
    graph, least = model.graph, len(model.graph.node)
    stored = next(tensor for tensor in graph.initializer if tensor.name == "fc.w")
    half = np.ascontiguousarray(numpy_helper.to_array(stored).T) / np.float32(2)
    graph.initializer.remove(stored)
    graph.initializer.extend([numpy_helper.from_array(half, "fc.half"), numpy_helper.from_array(np.float32(2), "two")])
    redundant = [
        helper.make_node("Transpose", ["fc.half"], ["fc.turned"], name="turn", perm=[1, 0]),
        helper.make_node("Mul", ["fc.turned", "two"], ["fc.w"], name="double"),
        helper.make_node("Identity", ["flat"], ["same"], name="same"),
    ]
    return _before_last(model, redundant, "same"), least


def unrepeatable_onnx(seed: int) -> bytes:
    """Return `tiny_onnx` with an active dropout: no two runs agree, so that no comparison of outputs can pass.

    It uses the dropout's mask, because ONNX Runtime takes a dropout whose mask is unused out of the graph.
    """
    model = onnx.load_from_string(tiny_onnx(seed))
    model.graph.initializer.extend(
        [numpy_helper.from_array(np.float32(0.5), "ratio"), numpy_helper.from_array(np.bool_(True), "training")]
    )
    dropout = [
        helper.make_node("Dropout", ["flat", "ratio", "training"], ["unused", "mask"], name="dropout"),
        helper.make_node("Cast", ["mask"], ["kept"], name="cast", to=TensorProto.FLOAT),
        helper.make_node("Mul", ["flat", "kept"], ["dropped"], name="drop"),
    ]
    return _before_last(model, dropout, "dropped")


ROUNDED = "weights that differ in float32's last digit"
"""The one fault of `spoiled_onnx` that is none."""

_LAST_TWO = 0.05 * np.eye(10, dtype=np.float32)[-2:]

_FAULTS: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "red and blue exchanged": ("w0", lambda weights: weights[:, ::-1]),  # no other output for a black or grey image
    "another bias of the last class": ("fc.b", lambda bias: bias + _LAST_TWO[1]),  # no output is smaller
    "other biases of the last two classes": ("fc.b", lambda bias: bias + _LAST_TWO[1] - _LAST_TWO[0]),  # the same mean
    ROUNDED: ("w0", lambda weights: np.nextafter(weights, np.float32(np.inf))),
}
"""The initializer of `tiny_onnx` that a fault changes, and how."""


def spoiled_onnx(seed: int) -> dict[str, bytes]:
    """Return, by fault, what a simplifier with it would make of `redundant_onnx(seed)`."""
    found = {}
    for fault, (name, change) in _FAULTS.items():
        model = onnx.load_from_string(tiny_onnx(seed))
        tensor = next(tensor for tensor in model.graph.initializer if tensor.name == name)
        tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(change(numpy_helper.to_array(tensor))), name))
        found[fault] = model.SerializeToString()
    return found


def unsupported_onnx(operators: Sequence[str]) -> bytes:
    """Return a sound ONNX model of two `operators` that no engine knows, so that a parser has reasons to give."""
    domain, ends = "org.example", ("input", "between", "output")
    nodes = [
        helper.make_node(name, [given], [made], name=f"mystery.{name}", domain=domain)
        for name, (given, made) in zip(operators, pairwise(ends), strict=True)
    ]
    images, logits = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("input", ["batch", 3, 224, 224]), ("output", ["batch", 10]))
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    graph = helper.make_graph(nodes, "unsupported", [images], [logits])
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def _before_last(model: onnx.ModelProto, nodes: list[onnx.NodeProto], feeds: str) -> bytes:
    """Return a model with `nodes` before its last node, which then takes `feeds` as its first input."""
    last = model.graph.node.pop()
    last.input[0] = feeds
    model.graph.node.extend([*nodes, last])
    return model.SerializeToString()
