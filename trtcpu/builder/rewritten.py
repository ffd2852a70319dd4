"""Operators of some opset or attribute that OpenVINO's reader gets wrong, written so that it reads them right."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from trtcpu.builder.checks import BuildError
from trtcpu.builder.operators import subgraphs

_FLATTENS = range(11, 13)  # opsets whose Softmax is one over all dimensions from the axis on
_NO_AXES = range(13, 18)  # opsets in which the reader takes the attribute axes of some reductions for none


def rewrite(model: onnx.ModelProto) -> None:
    """Write such nodes anew, in place; what takes one's place gives the same output."""
    opset = next((one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), 0)
    _rewrite(model.graph, opset)


class _Known:
    """What is known of a graph's tensors: sizes, or an empty list, and types."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        values = {value.name: value.type.tensor_type for value in (*graph.value_info, *graph.input)}
        weights = {tensor.name: tensor for tensor in graph.initializer}
        sizes = {name: [dim.dim_value for dim in kind.shape.dim] for name, kind in values.items()}
        self._sizes = sizes | {name: list(tensor.dims) for name, tensor in weights.items()}
        self._types = {name: kind.elem_type for name, kind in values.items()}

    def sizes(self, name: str) -> list[int]:
        return self._sizes.get(name, [])

    def numpy_type(self, name: str) -> np.dtype:
        return helper.tensor_dtype_to_np_dtype(self._types.get(name) or onnx.TensorProto.FLOAT)


def _rewrite(graph: onnx.GraphProto, opset: int) -> None:
    known, nodes = _Known(graph), []
    for node in graph.node:
        for inner in subgraphs(node):
            _rewrite(inner, opset)
        nodes += _written(node, opset, known)
    del graph.node[:]
    graph.node.extend(nodes)


def _written(node: onnx.NodeProto, opset: int, known: _Known) -> list[onnx.NodeProto]:
    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    if node.op_type == "Softmax" and opset in _FLATTENS:
        if attributes.get("axis", 1) not in (-1, len(known.sizes(node.input[0])) - 1):
            return _softmax(node, attributes.get("axis", 1))
    elif node.op_type in _REDUCTIONS and opset in _NO_AXES and "axes" in attributes:
        return _REDUCTIONS[node.op_type](node, attributes, known)
    elif node.op_type == "ConvTranspose":
        wants_size = "output_shape" in attributes
        if wants_size or attributes.get("auto_pad") in (b"SAME_UPPER", b"SAME_LOWER"):
            _set_pads(node, attributes, known)
    return [node]


def _made(node: onnx.NodeProto, kind: str, inputs: list[str], last: bool = False, **attributes: Any) -> onnx.NodeProto:
    """Return a node of those that take the place of `node`; the last has its output."""
    output = node.output[0] if last else f"{node.output[0]}/{kind}"
    return helper.make_node(kind, inputs, [output], node.name if last else f"{node.name}/{kind}", **attributes)


def _constant(node: onnx.NodeProto, what: str, values: Any) -> onnx.NodeProto:
    value, output = numpy_helper.from_array(np.asarray(values)), f"{node.output[0]}/{what}"
    return helper.make_node("Constant", [], [output], f"{node.name}/{what}", value=value)


def _softmax(node: onnx.NodeProto, axis: int) -> list[onnx.NodeProto]:
    shape = _made(node, "Shape", [node.input[0]])
    flat = _made(node, "Flatten", [node.input[0]], axis=axis)
    softmax = _made(node, "Softmax", [*flat.output], axis=-1)
    shaped = _made(node, "Reshape", [*softmax.output, *shape.output], last=True)
    softmax.name, shaped.name = node.name, f"{node.name}/Reshape"
    return [shape, flat, softmax, shaped]


def _summed(node: onnx.NodeProto, source: str, attributes: Mapping[str, Any], last: bool = False) -> list:
    axes = _constant(node, "axes", np.array(attributes["axes"], np.int64))
    keeps = attributes.get("keepdims", 1)
    return [axes, _made(node, "ReduceSum", [source, *axes.output], last, keepdims=keeps)]


def _reduce_l1(node: onnx.NodeProto, attributes: Mapping[str, Any], known: _Known) -> list[onnx.NodeProto]:
    positive = _made(node, "Abs", [*node.input])
    return [positive, *_summed(node, positive.output[0], attributes, last=True)]


def _reduce_log_sum(node: onnx.NodeProto, attributes: Mapping[str, Any], known: _Known) -> list[onnx.NodeProto]:
    summed = _summed(node, node.input[0], attributes)
    return [*summed, _made(node, "Log", [*summed[-1].output], last=True)]


def _reduce_log_sum_exp(node: onnx.NodeProto, attributes: Mapping[str, Any], known: _Known) -> list[onnx.NodeProto]:
    """Take the largest value out of the sum, so that none overflows; an infinite one stays in."""
    kind = known.numpy_type(node.input[0])
    most = np.finfo(np.float16 if kind == np.float16 else np.float32).max
    bounds = [_constant(node, what, np.asarray(value, kind)) for what, value in (("low", -most), ("high", most))]
    largest = _made(node, "ReduceMax", [*node.input], axes=attributes["axes"], keepdims=1)
    finite = _made(node, "Clip", [*largest.output, *(bound.output[0] for bound in bounds)])
    powers = _made(node, "Sub", [*node.input, *finite.output])
    raised = _made(node, "Exp", [*powers.output])
    summed = _summed(node, raised.output[0], attributes | {"keepdims": 1})
    log = _made(node, "Log", [*summed[-1].output])
    nodes = [*bounds, largest, finite, powers, raised, *summed, log]
    keeps = attributes.get("keepdims", 1)
    nodes.append(_made(node, "Add", [*log.output, *finite.output], last=bool(keeps)))
    if not keeps:
        nodes.append(_made(node, "Squeeze", [*nodes[-1].output, *summed[0].output], last=True))
    return nodes


_REDUCTIONS = {"ReduceL1": _reduce_l1, "ReduceLogSum": _reduce_log_sum, "ReduceLogSumExp": _reduce_log_sum_exp}


def _set_pads(node: onnx.NodeProto, attributes: Mapping[str, Any], known: _Known) -> None:
    """Write padding that a transposed convolution's kind or output's size decides as numbers.

    Raises:
        BuildError: its kernel's or input's size is not known.
    """
    kernel = attributes.get("kernel_shape") or known.sizes(node.input[1])[2:]
    rank = len(kernel)
    if not rank or not all(kernel):
        raise BuildError(f"{node.name}: the CPU engine must know the size of ConvTranspose's kernel; use pads")
    dilations, strides = (attributes.get(name, [1] * rank) for name in ("dilations", "strides"))
    more = attributes.get("output_padding", [0] * rank)
    total = [(size - 1) * d + 1 + m - s for size, d, s, m in zip(kernel, dilations, strides, more, strict=True)]
    wanted = attributes.get("output_shape", [])[-rank:]
    if wanted:
        sizes = known.sizes(node.input[0])[2:]
        total = [t + s * size - out for t, s, size, out in zip(total, strides, sizes, wanted, strict=False)]
        if not all(sizes) or len(total) < rank:
            raise BuildError(
                f"{node.name}: the CPU engine pads ConvTranspose for output_shape {wanted} only if its input has a "
                "fixed size; use pads"
            )
        more = [m + max(0, -each) for m, each in zip(more, total, strict=True)]  # what is missing is at the end
    total = [max(0, each) for each in total]
    half, rest = [each // 2 for each in total], [each - each // 2 for each in total]
    pads = half + rest if attributes.get("auto_pad") == b"SAME_UPPER" else rest + half
    written = {"pads": pads, "output_padding": more}
    kept = [one for one in node.attribute if one.name not in (*written, "auto_pad", "output_shape")]
    del node.attribute[:]
    node.attribute.extend([*kept, *(helper.make_attribute(name, values) for name, values in written.items())])
