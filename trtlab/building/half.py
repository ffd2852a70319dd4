"""FP16 and BF16 written into the graph: the model of a strongly typed network, which computes in the types that it has.

Weights are stored in half precision, inputs and outputs of the network stay FP32 behind casts. An input or output of an
operator that ONNX does not define for the type, such as the scales of Resize, stays FP32 as well.
"""

from collections.abc import Container
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from trtcpu.errors import InputError

HALVES = {"fp16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}
_WORDS = {"fp16": "tensor(float16)", "bf16": "tensor(bfloat16)"}
# What defines convolutions for BF16, and Q/DQ for FP16.
_OPSETS = {"fp16": 19, "bf16": 22}
_WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_FP16_MAX, _FP16_LEAST = 65504.0, 2.0**-24
_LEAST_SCALE = 32 * _FP16_LEAST  # rounded by less than 2 %
# NVIDIA's parser refuses them, though ONNX has them: seen with TensorRT-RTX 1.7 (make rtx).
_REFUSED = {"fp16": (), "bf16": ("HardSwish",)}
_TYPED_BY_VALUE = ("Constant", "ConstantOfShape")


def to_half(model: onnx.ModelProto, kind: str, float_layers: Container[str] = ()) -> onnx.ModelProto:
    """Return a copy of `model` that computes in `kind`, fp16 or bf16, except for its inputs and outputs.

    Args:
        model: FP32 ONNX, with or without Q/DQ nodes.
        float_layers: names of the layers that stay in FP32.

    Raises:
        InputError: weights are beyond FP16's range, the model has subgraphs (If, Loop, Scan) or functions, or its opset
            cannot be raised to one that has the type.
    """
    return _Conversion(_prepared(model, kind), kind, float_layers).run()


def _prepared(model: onnx.ModelProto, kind: str) -> onnx.ModelProto:
    """Return a copy in an opset that has the type, with the types of all tensors."""
    if model.functions or any(a.HasField("g") or a.graphs for node in model.graph.node for a in node.attribute):
        raise InputError(f"a model with subgraphs or functions cannot be written in {kind}: drop --explicit")
    opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)
    try:
        raised = model if opset >= _OPSETS[kind] else onnx.version_converter.convert_version(model, _OPSETS[kind])
        return onnx.shape_inference.infer_shapes(raised, strict_mode=True)
    except Exception as error:  # both raise C++ errors that have no class of their own
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"{kind} needs opset {_OPSETS[kind]}, to which the model cannot be raised: {reason}"
        ) from error


@dataclass
class _Conversion:
    """One pass over the nodes in topological order; `nodes` is the new graph so far."""

    model: onnx.ModelProto
    kind: str
    float_layers: Container[str]
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    def run(self) -> onnx.ModelProto:
        graph = self.model.graph
        self._opset = next(e.version for e in self.model.opset_import if e.domain in ("", "ai.onnx"))
        values = (*graph.value_info, *graph.input, *graph.output)
        self._floats = {v.name for v in values if v.type.tensor_type.elem_type == TensorProto.FLOAT}
        self._outputs = {value.name for value in graph.output}
        self._stored = {t.name: t for t in graph.initializer if t.data_type == TensorProto.FLOAT}
        self._halves: dict[str, str] = {}
        self._singles: dict[str, str] = {value.name: value.name for value in graph.input} | {n: n for n in self._stored}
        for node in list(graph.node):
            self._convert(node)
        for name in self._outputs & self._floats:
            self._single(name)
        return self._finished()

    def _convert(self, node: onnx.NodeProto) -> None:
        takes, gives = self._types(node)
        for index, name in enumerate(node.input):
            if name in self._floats or name in self._stored:
                node.input[index] = self._half(name, node) if takes[index] else self._single(name)
        self._retype(node)
        self.nodes.append(node)
        for index, name in enumerate(node.output):
            if name in self._floats:
                self._name_output(node, index, gives[index])

    def _name_output(self, node: onnx.NodeProto, index: int, half: bool) -> None:
        """Keep the name for the type that most readers want: FP32 for an output of the network, else half."""
        name = node.output[index]
        if not half:
            self._singles[name] = name
        elif name in self._outputs:
            node.output[index] = self._halves[name] = f"{name}_{self.kind}"
        else:
            self._halves[name] = name

    def _types(self, node: onnx.NodeProto) -> tuple[list[bool], list[bool]]:
        """Say of each input and output whether it may be of the type."""
        refused = node.op_type in _REFUSED[self.kind] or node.domain not in ("", "ai.onnx")
        stays = refused or node.name in self.float_layers or _says_its_type(node)
        if stays or not onnx.defs.has(node.op_type, max_inclusive_version=self._opset, domain=""):
            return [False] * len(node.input), [False] * len(node.output)
        schema = onnx.defs.get_schema(node.op_type, max_inclusive_version=self._opset, domain="")
        return (
            [_WORDS[self.kind] in _formal(schema.inputs, i).types for i in range(len(node.input))],
            [_WORDS[self.kind] in _formal(schema.outputs, i).types for i in range(len(node.output))],
        )

    def _retype(self, node: onnx.NodeProto) -> None:
        """Change what an attribute says of the type."""
        if node.name in self.float_layers:
            return
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = HALVES[self.kind]
            elif node.op_type in _TYPED_BY_VALUE and attribute.t.data_type == TensorProto.FLOAT:
                attribute.t.CopyFrom(self._tensor(attribute.t, attribute.t.name))

    def _half(self, name: str, reader: onnx.NodeProto) -> str:
        if name not in self._halves:
            self._halves[name] = f"{name}_{self.kind}"
            if name in self._stored:
                self._check(self._stored[name], reader)
                self.model.graph.initializer.append(self._tensor(self._stored[name], self._halves[name]))
            else:
                self._cast(self._singles[name], self._halves[name], HALVES[self.kind])
        return self._halves[name]

    def _single(self, name: str) -> str:
        if name not in self._singles:
            self._singles[name] = name if name in self._outputs else f"{name}_fp32"
            self._cast(self._halves[name], self._singles[name], TensorProto.FLOAT)
        return self._singles[name]

    def _cast(self, source: str, target: str, kind: int) -> None:
        self.nodes.append(helper.make_node("Cast", [source], [target], f"{target}_cast", to=kind))

    def _check(self, tensor: onnx.TensorProto, reader: onnx.NodeProto) -> None:
        """Raise InputError for weights and scales that FP16 cannot hold; other large constants are masks: clipped."""
        if self.kind != "fp16":
            return
        values = np.abs(numpy_helper.to_array(tensor))
        if reader.op_type in _WEIGHTED and values.max(initial=0) > _FP16_MAX:
            raise InputError(
                f"{reader.name} has weights up to {values.max():.3g} ({tensor.name}), FP16 ends at 65504; "
                "build it in bf16"
            )
        if reader.op_type == "QuantizeLinear" and values.ndim == 0 and values < _LEAST_SCALE:
            raise InputError(f"the scale {tensor.name} is {values:.3g}, too small for FP16; build it in int8")

    def _tensor(self, tensor: onnx.TensorProto, name: str) -> onnx.TensorProto:
        values = numpy_helper.to_array(tensor)
        if self.kind == "bf16":
            return helper.make_tensor(name, TensorProto.BFLOAT16, tensor.dims, _bf16(values).tobytes(), raw=True)
        finite = np.clip(values, -_FP16_MAX, _FP16_MAX, where=np.isfinite(values), out=values.copy())
        # No scale and no epsilon becomes zero.
        tiny = (finite != 0) & (np.abs(finite) < _FP16_LEAST)
        return numpy_helper.from_array(np.where(tiny, np.sign(finite) * _FP16_LEAST, finite).astype(np.float16), name)

    def _finished(self) -> onnx.ModelProto:
        graph = self.model.graph
        used = {name for node in self.nodes for name in node.input} | self._outputs
        kept = [tensor for tensor in graph.initializer if tensor.name in used]
        del graph.node[:], graph.initializer[:], graph.value_info[:]
        graph.node.extend(self.nodes)
        graph.initializer.extend(kept)
        return onnx.shape_inference.infer_shapes(self.model)


def _says_its_type(node: onnx.NodeProto) -> bool:
    """Say whether an attribute gives the output's type, or its absence FP32: random numbers, EyeLike, windows."""
    if node.op_type == "Constant":
        return not any(attribute.name == "value" for attribute in node.attribute)
    silent = node.op_type == "ConstantOfShape" and not node.attribute
    return silent or node.op_type.startswith("Random") or any("dtype" in a.name for a in node.attribute)


def _formal(parameters: list, index: int) -> onnx.defs.OpSchema.FormalParameter:
    """Return the parameter of a position; the last one may stand for many."""
    return parameters[min(index, len(parameters) - 1)]


def _bf16(values: np.ndarray) -> np.ndarray:
    """Return the upper halves of FP32 numbers, rounded to nearest even, as uint16; NaN stays NaN."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    largest = np.where(np.isfinite(values) & (rounded & 0x7F80 == 0x7F80), rounded - 1, rounded)
    return np.where(np.isnan(values), 0x7FC0, largest).astype(np.uint16)
