"""Reads an ONNX file's facts, and makes ONNX networks with known faults for a simplifier."""

from collections.abc import Callable
from typing import TypedDict

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from helpers.checks.probes.loads import loads
from helpers.toys.networks import tiny_onnx

_ML = ("", "ai.onnx")


class OnnxTensor(TypedDict):
    """An input or output: its shape, with names for dynamic axes, and the name of its type."""

    shape: list[int | str]
    dtype: str


class OnnxFacts(TypedDict):
    """An ONNX model's facts.

    Inputs (with weights that a caller may replace) and outputs by name; the number of nodes; the nodes whose inputs are
    all constants.
    """

    opset: int
    inputs: dict[str, OnnxTensor]
    outputs: dict[str, OnnxTensor]
    nodes: int
    foldable: list[str]


@loads
def onnx_facts(content: bytes) -> OnnxFacts:
    """Return an ONNX model's facts.

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
    """Return the names of all tensors that a model takes or computes."""
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
    """Return the nodes whose inputs are all constants."""
    known, found = {tensor.name for tensor in graph.initializer}, list[str]()
    for node in graph.node:
        if all(name in known for name in node.input if name):
            known |= set(node.output)
            found += [f"{node.op_type} {node.name}".strip()] * bool(node.input)  # a Constant has none
    return found


def redundant_onnx(seed: int) -> bytes:
    """Return `tiny_onnx` with an Identity before its last node, which a simplifier removes."""
    model = onnx.load_from_string(tiny_onnx(seed))
    last = model.graph.node.pop()
    last.input[0] = "same"
    model.graph.node.extend([helper.make_node("Identity", ["flat"], ["same"], name="same"), last])
    return model.SerializeToString()


ROUNDED = "weights that differ in float32's last digit"
"""The one change of `spoiled_onnx` that is not a fault."""

_LAST_TWO = 0.05 * np.eye(10, dtype=np.float32)[-2:]
_FAULTS: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "red and blue swapped": ("w0", lambda weights: weights[:, ::-1]),  # outputs stay the same for grey images
    "another bias of the last class": ("fc.b", lambda bias: bias + _LAST_TWO[1]),  # no output gets smaller
    "other biases of the last two classes": ("fc.b", lambda bias: bias + _LAST_TWO[1] - _LAST_TWO[0]),  # the same mean
    ROUNDED: ("w0", lambda weights: np.nextafter(weights, np.float32(np.inf))),
}
"""The initializer of `tiny_onnx` that a fault changes, and how."""


def spoiled_onnx(seed: int) -> dict[str, bytes]:
    """Return, by fault, the result of a simplifier with that fault for `redundant_onnx(seed)`."""
    found = {}
    for fault, (name, change) in _FAULTS.items():
        model = onnx.load_from_string(tiny_onnx(seed))
        tensor = next(tensor for tensor in model.graph.initializer if tensor.name == name)
        tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(change(numpy_helper.to_array(tensor))), name))
        found[fault] = model.SerializeToString()
    return found


def unsupported_onnx(operator: str) -> bytes:
    """Return a valid ONNX model with one `operator` that no engine knows, so that a parser has errors."""
    images, logits = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("input", ["batch", 3, 224, 224]), ("output", ["batch", 10]))
    )
    node = helper.make_node(operator, ["input"], ["output"], name=f"mystery.{operator}", domain="org.example")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(node.domain, 1)]
    graph = helper.make_graph([node], "unsupported", [images], [logits])
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
