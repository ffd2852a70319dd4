"""Where the Q/DQ nodes of an INT8 engine go: the implicit quantisation of TensorRT, written out in ONNX.

Activations are quantised per tensor and symmetrically with the calibrated scale, in front of every convolution, matrix
multiplication and pooling; weights per output channel, symmetrically in [-127, 127]; biases stay in float. A residual
add gets its skip branch quantised too, so that convolution + add + ReLU still run as one INT8 kernel.

`quantize` is for this processor, `explicit` for every engine. On a processor that adds pairs of products in 16 bits the
weights are in [-64, 64], since 2 × 255 × 64 is the most that fits there (NNCF calls it the overflow fix).
"""

import copy
from collections import Counter
from collections.abc import Container, Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper

from trtcpu import _openvino
from trtcpu.builder.operators import keep_read

WEIGHTED = ("Conv", "Gemm", "MatMul")
_POOLS = ("MaxPool", "AveragePool", "GlobalAveragePool")
_SAME_VALUES = ("MaxPool", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Identity", "Dropout")
_FIRST_PER_CHANNEL_OPSET = 13
_EIGHT_BITS, _SEVEN_BITS = 127, 64


def has_qdq(model: onnx.ModelProto) -> bool:
    """Say whether the model is quantised explicitly."""
    return any(node.op_type in ("QuantizeLinear", "DequantizeLinear") for node in model.graph.node)


def fit_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of an explicitly quantised model that stores its weights as the INT8 codes which are multiplied.

    Where pairs of products are added in 16 bits, codes of more than seven bits are halved, and their scales doubled.
    Weights that are given as floats are rounded once, to the halved codes: as good as seven bits can be.
    """
    copied = copy.deepcopy(model)
    unrounded = _store_codes(copied.graph)
    if _openvino.saturates_int8():
        _halve_codes(copied.graph, unrounded)
    keep_read(copied.graph, copied.graph.initializer)
    return copied


def _halve_codes(graph: onnx.GraphProto, unrounded: Mapping[str, np.ndarray]) -> None:
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type != "DequantizeLinear" or not {*node.input} <= stored.keys():
            continue
        codes, scale, *zero = (stored[name] for name in node.input)
        if codes.dtype != np.int8 or np.any(zero) or np.abs(codes.astype(np.int16)).max(initial=0) <= _SEVEN_BITS:
            continue
        # Tensors of their own: another node may share the codes or, more often, the scale.
        exact = unrounded.get(node.input[0], codes)
        halved = np.rint(exact / 2).astype(np.int8), (scale * 2).astype(scale.dtype)
        for index, values in enumerate(halved):
            name = f"{node.output[0]}_seven_bits_{index}"
            graph.initializer.append(numpy_helper.from_array(values, name))
            node.input[index] = name


def _store_codes(graph: onnx.GraphProto) -> dict[str, np.ndarray]:
    """Replace each QuantizeLinear of stored weights by the INT8 codes that it gives; return them before rounding."""
    unrounded = {}
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for node in list(graph.node):
        if node.op_type != "QuantizeLinear" or not {*node.input} <= stored.keys():
            continue
        weight, scale, *zero = (stored[name] for name in node.input)
        if not zero or zero[0].dtype != np.int8 or np.any(zero[0]) or scale.ndim > 1:
            continue
        axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
        exact = np.clip(weight.astype(np.float32) / _along(scale, axis, weight.ndim), -128, 127)
        unrounded[node.output[0]] = exact
        graph.initializer.append(numpy_helper.from_array(np.rint(exact).astype(np.int8), node.output[0]))
        graph.node.remove(node)
    return unrounded


def quantize(
    model: onnx.ModelProto, scales: Mapping[str, float], float_layers: Container[str] = ()
) -> tuple[onnx.ModelProto, list[str]]:
    """Return a copy of `model` with Q/DQ nodes, and the tensors that had no scale and so stay in float.

    Args:
        model: ONNX with unique node names.
        scales: scale by tensor name (the dynamic range is 127 × scale).
        float_layers: names of the layers that must not be quantised.

    Raises:
        ValueError: the model's opset is too old for per-channel scales and cannot be converted.
    """
    most = _SEVEN_BITS if _openvino.saturates_int8() else _EIGHT_BITS
    return _placed(_Placement(_with_opset(model), scales, most), float_layers)


def explicit(
    model: onnx.ModelProto,
    scales: Mapping[str, float],
    float_layers: Container[str] = (),
    *,
    fused: bool = True,
    stored: bool = False,
) -> tuple[onnx.ModelProto, list[str]]:
    """Return what `quantize` does, for any engine: weights have eight bits, whatever this processor multiplies.

    Args:
        fused: False leaves out the Q/DQ of skip branches and pools, without which their layers run in float.
        stored: True stores the weights as INT8 codes, a quarter of the size; else as floats in front of Q and DQ, which
            every TensorRT since 8 takes.

    Raises:
        ValueError: as `quantize`.
    """
    return _placed(_Placement(_with_opset(model), scales, _EIGHT_BITS, fused, stored), float_layers)


def _placed(placement: "_Placement", float_layers: Container[str]) -> tuple[onnx.ModelProto, list[str]]:
    for node in list(placement.model.graph.node):
        if node.name not in float_layers:
            placement.visit(node)
        placement.nodes.append(node)
    return placement.finished(), placement.missing


def _with_opset(model: onnx.ModelProto) -> onnx.ModelProto:
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    if opset >= _FIRST_PER_CHANNEL_OPSET:
        return copy.deepcopy(model)
    try:
        return onnx.version_converter.convert_version(model, _FIRST_PER_CHANNEL_OPSET)
    except Exception as error:  # the converter's C++ errors have no class of their own
        raise ValueError(
            f"opset {opset} has no per-channel scales; export at opset {_FIRST_PER_CHANNEL_OPSET} or later"
        ) from error


class _Placement:
    """Collects the rewritten graph node by node, in topological order."""

    def __init__(
        self, model: onnx.ModelProto, scales: Mapping[str, float], most: int, fused: bool = True, stored: bool = True
    ) -> None:
        self.model, self.scales = model, scales
        self._most, self._fused, self._stored = most, fused, stored
        self.nodes: list[onnx.NodeProto] = []
        self.missing: list[str] = []
        self._weights = {tensor.name: tensor for tensor in model.graph.initializer}
        self._producer = {name: node for node in model.graph.node for name in node.output}
        self._uses = Counter(name for node in model.graph.node for name in node.input)
        self._added: list[onnx.TensorProto] = []
        self._dequantized: dict[str, str] = {}

    def visit(self, node: onnx.NodeProto) -> None:
        """Quantise the inputs of one node if it can run in INT8."""
        if node.op_type in WEIGHTED:
            self._weighted(node)
        elif not self._fused:
            return
        elif node.op_type in _POOLS:
            if self._input(node, 0) and node.op_type == "MaxPool":
                # A maximum of quantised values is one of them, so the output needs no rounding of its own.
                self._dequantized[node.output[0]] = node.output[0]
        elif node.op_type == "Add" and not any(name in self._weights for name in node.input):
            skip = self._skip_branch(node)
            if skip is not None:
                self._input(node, skip)

    def finished(self) -> onnx.ModelProto:
        graph = self.model.graph
        del graph.node[:]
        graph.node.extend(self.nodes)
        keep_read(graph, [*graph.initializer, *self._added])
        return self.model

    def _weighted(self, node: onnx.NodeProto) -> None:
        weight = self._weights.get(node.input[1])
        if weight is None or weight.data_type not in (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16):
            return
        if self._input(node, 0):
            node.input[1] = self._weight(node, numpy_helper.to_array(weight))

    def _input(self, node: onnx.NodeProto, index: int) -> bool:
        name = node.input[index]
        if name in self._weights:
            return False
        scale = self._scale(name)
        if not scale > 0:
            if name not in self.missing:
                self.missing.append(name)
            return False
        node.input[index] = self._activation(name, scale)
        return True

    def _skip_branch(self, node: onnx.NodeProto) -> int | None:
        """Index of the branch that is not computed by the convolution the add fuses into; None without one."""
        fusible = [
            name in self._producer and self._producer[name].op_type == "Conv" and self._uses[name] == 1
            for name in node.input
        ]
        if not any(fusible):
            return None
        skip = 1 if fusible[0] else 0
        # Where both branches are convolutions either may be the skip: take the one that was calibrated.
        return 1 - skip if all(fusible) and not self._scale(node.input[skip]) > 0 else skip

    def _scale(self, name: str) -> float:
        """Scale of a tensor; one that only moves or picks another's values has that one's."""
        while name not in self.scales and name in self._producer and self._producer[name].op_type in _SAME_VALUES:
            name = self._producer[name].input[0]
        return self.scales.get(name, 0.0)

    def _activation(self, name: str, scale: float) -> str:
        if name not in self._dequantized:
            parameters = self._parameters(name, np.float32(scale), np.int8(0))
            quantized, output = f"{name}_quantized", f"{name}_dequantized"
            self._append("QuantizeLinear", [name, *parameters], quantized, f"{name}_Q")
            self._append("DequantizeLinear", [quantized, *parameters], output, f"{name}_DQ")
            self._dequantized[name] = output
        return self._dequantized[name]

    def _weight(self, node: onnx.NodeProto, weight: np.ndarray) -> str:
        name = node.input[1]
        axis = _channel_axis(node, weight.ndim)
        key = f"{name}_axis{axis}"
        if key not in self._dequantized:
            scale = self._channel_scales(weight, axis)
            parameters = self._parameters(key, scale, np.zeros(scale.shape, np.int8))
            quantized, output = f"{key}_quantized", f"{key}_dequantized"
            if self._stored:
                codes = np.rint(weight / _along(scale, axis, weight.ndim))
                codes = np.clip(codes, -self._most, self._most).astype(np.int8)
                self._added.append(numpy_helper.from_array(codes, quantized))
            else:
                self._append("QuantizeLinear", [name, *parameters], quantized, f"{key}_Q", axis=axis)
            self._append("DequantizeLinear", [quantized, *parameters], output, f"{key}_DQ", axis=axis)
            self._dequantized[key] = output
        return self._dequantized[key]

    def _channel_scales(self, weight: np.ndarray, axis: int) -> np.ndarray:
        others = tuple(i for i in range(weight.ndim) if i != axis)
        largest = np.abs(weight.astype(np.float32)).max(axis=others)
        return np.where(largest > 0, largest / self._most, 1).astype(np.float32)

    def _append(self, kind: str, inputs: list[str], output: str, name: str, **attributes: int) -> None:
        self.nodes.append(helper.make_node(kind, inputs, [output], name, **attributes))

    def _parameters(self, name: str, scale: np.ndarray, zero: np.ndarray) -> list[str]:
        names = [f"{name}_scale", f"{name}_zero_point"]
        self._added += [numpy_helper.from_array(np.asarray(v), n) for v, n in zip((scale, zero), names, strict=True)]
        return names


def _along(scale: np.ndarray, axis: int, rank: int) -> np.ndarray:
    """Return `scale` so that it broadcasts along `axis` of a tensor of `rank` dimensions."""
    return scale.reshape([-1 if i == axis % rank else 1 for i in range(rank)]) if scale.ndim else scale


def _channel_axis(node: onnx.NodeProto, rank: int) -> int:
    """Axis of the output channels in a layer's weights."""
    if node.op_type == "Conv":
        return 0
    if node.op_type == "Gemm":
        transposed = next((a.i for a in node.attribute if a.name == "transB"), 0)
        return 0 if transposed else 1
    return rank - 1
