"""FP16 and BF16 written into the graph: the model of a strongly typed network, which computes in the types that it has.

Weights are stored in half precision, inputs and outputs of the network stay FP32 behind casts. An input or output of an
operator that ONNX does not define for the type, such as the scales of Resize, stays FP32 as well.
"""

from collections.abc import Container, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.version_converter import convert_version

from trtcpu.builder.operators import keep_read
from trtcpu.errors import InputError

HALVES = {"fp16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}
_OPSETS = {"fp16": 19, "bf16": 22}  # which define Q/DQ for FP16, and convolutions for BF16
# The largest number, and the one that no smaller number but zero may become: BF16 goes as low as FP32.
_RANGES = {"fp16": (65504.0, 2.0**-24), "bf16": (2.0**128 - 2.0**120, 0.0)}
_LEAST_SCALE = 32 * _RANGES["fp16"][1]  # rounded by less than 2 %
# NVIDIA's parser refuses them, though ONNX has them: seen with TensorRT-RTX 1.7 (make rtx).
_REFUSED = {"fp16": (), "bf16": ("HardSwish",)}
_WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_TYPED_BY_VALUE = ("Constant", "ConstantOfShape")
_STANDARD = ("", "ai.onnx")


def to_half(model: onnx.ModelProto, kind: str, float_layers: Container[str] = ()) -> onnx.ModelProto:
    """Return a copy of `model` that computes in `kind`, fp16 or bf16, except for its inputs and outputs.

    Args:
        model: FP32 ONNX, with or without Q/DQ nodes.
        float_layers: names of the layers that stay in FP32.

    Raises:
        InputError: weights are beyond FP16's range, the model has subgraphs (If, Loop, Scan) or functions, or its opset
            cannot be raised to one that has the type.
    """
    if model.functions or any(a.HasField("g") or a.graphs for node in model.graph.node for a in node.attribute):
        raise InputError(f"a model with subgraphs or functions cannot be written in {kind}: drop --explicit")
    try:
        raised = model if _opset(model) >= _OPSETS[kind] else convert_version(model, _OPSETS[kind])
        typed = onnx.shape_inference.infer_shapes(raised, strict_mode=True)
    except Exception as error:  # both raise C++ errors that have no class of their own
        reason = next(iter(str(error).strip().splitlines()), "no reason was given")  # of several, the first
        raise InputError(
            f"{kind} needs opset {_OPSETS[kind]}, to which the model cannot be raised: {reason}"
        ) from error
    return _Conversion(typed, kind, float_layers).run()


def _opset(model: onnx.ModelProto) -> int:
    return next((entry.version for entry in model.opset_import if entry.domain in _STANDARD), 0)


class _Conversion:
    """One pass over the nodes of a model in topological order; the model is changed."""

    def __init__(self, model: onnx.ModelProto, kind: str, float_layers: Container[str]) -> None:
        graph = model.graph
        self.model, self.kind, self.float_layers = model, kind, float_layers
        self.dtype = helper.tensor_dtype_to_np_dtype(HALVES[kind])
        self.nodes: list[onnx.NodeProto] = []
        self.outputs = {value.name for value in graph.output}
        self.stored = {tensor.name: tensor for tensor in graph.initializer if tensor.data_type == TensorProto.FLOAT}
        values = (*graph.value_info, *graph.input, *graph.output)
        self.floats = self.stored.keys() | {
            value.name for value in values if value.type.tensor_type.elem_type == TensorProto.FLOAT
        }
        # what each tensor is called in half (True) and in FP32, as far as there is one
        self.names = {(name, False): name for name in (*self.stored, *(value.name for value in graph.input))}

    def run(self) -> onnx.ModelProto:
        graph = self.model.graph
        for node in graph.node:
            self._convert(node)
        for name in self.outputs & self.floats:
            self._read(name, half=False)
        del graph.node[:], graph.value_info[:]
        graph.node.extend(self.nodes)
        keep_read(graph, graph.initializer)
        return onnx.shape_inference.infer_shapes(self.model)

    def _convert(self, node: onnx.NodeProto) -> None:
        schema = self._schema(node)
        inputs, outputs = (schema.inputs, schema.outputs) if schema is not None else ((), ())
        for index, name in enumerate(node.input):
            if name in self.floats:
                node.input[index] = self._read(name, self._allows_half(inputs, index), node)
        if schema is not None:
            self._retype(node)
        self.nodes.append(node)
        for index, name in enumerate(node.output):
            if name in self.floats:
                half = self._allows_half(outputs, index)
                # the name stays with the type that most readers want: FP32 for an output of the network, else half
                if half and name in self.outputs:
                    node.output[index] = f"{name}_{self.kind}"
                self.names[name, half] = node.output[index]

    def _schema(self, node: onnx.NodeProto) -> onnx.defs.OpSchema | None:
        """Return ONNX's definition of an operator; None if the node is to stay in FP32."""
        refused = node.op_type in _REFUSED[self.kind] or node.domain not in _STANDARD
        if refused or node.name in self.float_layers or _says_its_type(node):
            return None
        return onnx.defs.get_schema(node.op_type, max_inclusive_version=_opset(self.model), domain="")

    def _allows_half(self, parameters: Sequence[onnx.defs.OpSchema.FormalParameter], index: int) -> bool:
        """Say whether the input or output at `index` may be of the type; the last one may stand for many."""
        return bool(parameters) and f"tensor({self.dtype})" in parameters[min(index, len(parameters) - 1)].types

    def _retype(self, node: onnx.NodeProto) -> None:
        """Change what an attribute says of the type."""
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = HALVES[self.kind]
            elif node.op_type in _TYPED_BY_VALUE and attribute.t.data_type == TensorProto.FLOAT:
                attribute.t.CopyFrom(self._rounded(attribute.t, attribute.t.name))

    def _read(self, name: str, half: bool, reader: onnx.NodeProto | None = None) -> str:
        """Return what a tensor is called in the type; it is rounded or cast if nothing has given it so far."""
        if (name, half) not in self.names:
            is_output = name in self.outputs and not half
            self.names[name, half] = made = name if is_output else f"{name}_{self.kind if half else 'fp32'}"
            if name in self.stored:
                if self.kind == "fp16":
                    _check_fp16(self.stored[name], reader)
                self.model.graph.initializer.append(self._rounded(self.stored[name], made))
            else:
                given, target = self.names[name, not half], HALVES[self.kind] if half else TensorProto.FLOAT
                self.nodes.append(helper.make_node("Cast", [given], [made], f"{made}_cast", to=target))
        return self.names[name, half]

    def _rounded(self, tensor: onnx.TensorProto, name: str) -> onnx.TensorProto:
        """Return a tensor in the type, in which no finite number is infinite, and no scale and no epsilon zero."""
        most, least = _RANGES[self.kind]
        values = numpy_helper.to_array(tensor)
        values = np.where(np.isfinite(values), np.clip(values, -most, most), values)
        values = np.where((values != 0) & (np.abs(values) < least), np.copysign(least, values), values)
        return numpy_helper.from_array(values.astype(self.dtype), name)


def _check_fp16(tensor: onnx.TensorProto, reader: onnx.NodeProto) -> None:
    """Raise InputError for weights and scales that FP16 cannot hold; other large constants are masks: clipped."""
    values = np.abs(numpy_helper.to_array(tensor))
    if reader.op_type in _WEIGHTED and values.max(initial=0) > _RANGES["fp16"][0]:
        raise InputError(
            f"{reader.name} has weights up to {values.max():.3g} ({tensor.name}), FP16 ends at 65504; build it in bf16"
        )
    if reader.op_type == "QuantizeLinear" and values.ndim == 0 and values < _LEAST_SCALE:
        raise InputError(f"the scale {tensor.name} is {values:.3g}, too small for FP16; build it in int8")


def _says_its_type(node: onnx.NodeProto) -> bool:
    """Say whether an attribute gives the output's type, or its absence FP32: random numbers, EyeLike, windows."""
    names = {attribute.name for attribute in node.attribute}
    if node.op_type in _TYPED_BY_VALUE:
        return "value" not in names
    return node.op_type.startswith("Random") or "dtype" in names
