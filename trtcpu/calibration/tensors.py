"""Which tensors of a network TensorRT calibrates, in which order and under which names, and which scales it derives.

Worked out from the caches that TensorRT 8.6 wrote for a ResNet-50. EntropyCalibrator2 and MinMaxCalibrator list
every float tensor of the network as the parser built it, so also the unnamed constants that a Gemm is lowered to;
EntropyCalibrator lists the tensors that are left after layer fusion. No cache of LegacyCalibrator was recorded;
NVIDIA's guide says that it, too, calibrates after fusion.
"""

import dataclasses
from collections import Counter
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import numpy_helper

from trtcpu.api.enums import CalibrationAlgoType

_BEFORE_FUSION = (CalibrationAlgoType.ENTROPY_CALIBRATION_2, CalibrationAlgoType.MINMAX_CALIBRATION)
_FLOAT_TYPES = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
_MOVES_DATA = {"Flatten", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Identity", "Dropout"}
_ACTIVATIONS = {"Relu", "Clip", "LeakyRelu", "Sigmoid", "Tanh", "Elu", "HardSigmoid"}
_CONVOLUTIONS = {"Conv", "ConvTranspose"}
_NO_FLOAT_OUTPUT = {"Shape", "Size", "ArgMax", "ArgMin", "NonZero", "Equal", "Less", "Greater", "And", "Or", "Not"}
_QUANTIZERS = {"QuantizeLinear", "DequantizeLinear"}
# Flatten of a dynamic shape becomes Shape, Constant, Gather, Constant, Concatenation, Shuffle (flattenTensor of
# onnx-tensorrt).
_DYNAMIC_FLATTEN_LAYERS = 6
# Initializers of up to so many values may be the shapes that a Reshape or Expand reads.
_SHAPE_VALUES = 64
_FEATURE_MAP_RANK = 4
# An attention mask adds the least number of its type, or minus infinity, to the scores that do not count.
MASK = 1e30
_CARRIES_MASKS = {"Where", "Add", "Sub", "Mul", "Expand", "Cast", "Concat", "Slice", "Trilu"} | _MOVES_DATA


@dataclasses.dataclass(frozen=True)
class CalibratedTensor:
    """One line of a calibration cache and where its scale comes from.

    `source` names the tensor of the ONNX graph that is observed, "" for a constant. With `same_scale` the scale is that
    of the cache line `source`. With `rectified` max(source, 0) is observed, so that a ReLU need not leave the network.
    `value` is the constant itself, or, with a source, what is subtracted from what is observed. With `masked`,
    magnitudes of `MASK` and more are an attention mask's: they count as zeros, since no scale holds them and a score.
    """

    name: str
    source: str
    same_scale: bool = False
    value: np.ndarray | None = None
    rectified: bool = False
    masked: bool = False

    @property
    def is_observed(self) -> bool:
        """Whether its scale comes from what is computed for the batches."""
        return bool(self.source) and not self.same_scale


@dataclasses.dataclass(frozen=True)
class CalibrationPlan:
    """The lines of a cache in order, and all that calibration needs to know of the network.

    `observed` are the tensors that must be computed for each batch; the network's inputs come from the calibrator.
    `feature_maps` are those of them with four dimensions [N, C, H, W]. `image_bytes` is what the observed tensors take
    for each image of a batch; None if a batch cannot be split, because its size is fixed or some tensor has another
    first dimension.
    """

    algorithm: CalibrationAlgoType
    tensors: tuple[CalibratedTensor, ...]
    observed: tuple[str, ...]
    feature_maps: frozenset[str]
    image_bytes: int | None

    @property
    def names(self) -> list[str]:
        """The names that a cache of this network should have; unnamed layers' numbers differ between versions."""
        return [tensor.name for tensor in self.tensors if not tensor.name.startswith("(Unnamed Layer*")]


def calibration_plan(model: onnx.ModelProto, algorithm: CalibrationAlgoType) -> CalibrationPlan:
    """Return the plan of calibrating `model` with `algorithm`."""
    graph = _Graph(model)
    tensors = _tensors_as_parsed(graph, algorithm)
    if algorithm not in _BEFORE_FUSION:
        fused = _fused_away(graph)
        tensors = [tensor for tensor in tensors if tensor.name not in fused]
    known = {tensor.name: tensor for tensor in tensors}
    tensors = _with_known_sources([_rectified(tensor, graph, known) for tensor in tensors])
    masked = _masked(model.graph)
    tensors = [dataclasses.replace(t, masked=True) if t.is_observed and t.source in masked else t for t in tensors]
    sources = dict.fromkeys(tensor.source for tensor in tensors if tensor.is_observed)
    observed = tuple(name for name in sources if name not in graph.inputs)
    return CalibrationPlan(
        algorithm,
        tuple(tensors),
        observed,
        frozenset(name for name in observed if len(graph.dims(name)) == _FEATURE_MAP_RANK),
        graph.image_bytes(observed),
    )


def _masked(graph: onnx.GraphProto) -> set[str]:
    """Return the tensors that an attention mask reaches on its way to the softmax, from constants beyond `MASK` on."""
    readers = [node for node in graph.node if node.op_type in _CARRIES_MASKS]
    read = {name for node in readers for name in node.input}
    masked = {tensor.name for tensor in graph.initializer if tensor.name in read and _is_mask(tensor)}
    for node in graph.node:
        values = (a.t for a in node.attribute if node.op_type in ("Constant", "ConstantOfShape") and a.name == "value")
        carried = node.op_type in _CARRIES_MASKS and not masked.isdisjoint(node.input)
        if carried or any(map(_is_mask, values)):
            masked.update(node.output)
    return masked


def _is_mask(tensor: onnx.TensorProto) -> bool:
    if tensor.data_type not in _FLOAT_TYPES:
        return False
    values = np.abs(numpy_helper.to_array(tensor).astype(np.float32))
    return bool((values >= MASK).any())


def _rectified(tensor: CalibratedTensor, graph: "_Graph", known: dict[str, CalibratedTensor]) -> CalibratedTensor:
    """Observe a ReLU through its input if that is observed anyway: a third less has to leave the network."""
    node = graph.producer.get(tensor.name)
    source = known.get(node.input[0]) if node is not None and node.op_type == "Relu" else None
    if source is None or source.source != source.name or source.same_scale or tensor.name in graph.outputs:
        return tensor
    return CalibratedTensor(tensor.name, source.name, rectified=True)


def _with_known_sources(tensors: list[CalibratedTensor]) -> list[CalibratedTensor]:
    """Observe a tensor whose scale would be that of a tensor without a line of its own."""
    names = {tensor.name for tensor in tensors}
    return [
        CalibratedTensor(tensor.name, tensor.name) if tensor.same_scale and tensor.source not in names else tensor
        for tensor in tensors
    ]


class _Graph:
    """The lookups that the rules need, over an ONNX graph."""

    def __init__(self, model: onnx.ModelProto) -> None:
        graph = model.graph
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        self.inputs = [value.name for value in graph.input if value.name not in self.constants]
        self.outputs = {value.name for value in graph.output}
        self.values = _inferred_values(model)
        folded = set(self.constants)
        self.nodes: list[onnx.NodeProto] = []
        for node in graph.node:
            if all(name in folded for name in node.input if name):
                folded.update(node.output)
            else:
                self.nodes.append(node)
        self.uses = Counter(name for node in graph.node for name in node.input)
        self.consumer = {name: node for node in self.nodes for name in node.input}
        self.producer = {name: node for node in self.nodes for name in node.output}

    def is_float(self, name: str, node: onnx.NodeProto) -> bool:
        value = self.values.get(name)
        if value is not None and value.type.tensor_type.elem_type:
            return value.type.tensor_type.elem_type in _FLOAT_TYPES
        return node.op_type not in _NO_FLOAT_OUTPUT

    def dims(self, name: str) -> Sequence[onnx.TensorShapeProto.Dimension]:
        """Return a tensor's dimensions; none if its shape is not known."""
        value = self.values.get(name)
        return value.type.tensor_type.shape.dim if value is not None else ()

    def is_dynamic(self, name: str) -> bool:
        dims = self.dims(name)
        return not dims or any(not dim.HasField("dim_value") for dim in dims)

    def image_bytes(self, names: Sequence[str]) -> int | None:
        """Return the float32 bytes an image of the tensors `names`; None if they are not [batch, …] throughout."""
        batches = {self._batch(name) for name in self.inputs}
        if len(batches) != 1 or None in batches:
            return None
        total = 0
        for name in names:
            batch = self._batch(name)
            if batch is None or (batch not in batches and name not in self.outputs):
                return None
            sizes = [dim.dim_value for dim in self.dims(name)[1:]]
            total += 4 * int(np.prod(sizes))
            if 0 in sizes:
                return None
        return total

    def _batch(self, name: str) -> str | None:
        """Return the name of the dynamic first dimension of a tensor."""
        dims = self.dims(name)
        return dims[0].dim_param or None if dims else None

    def sole_consumer(self, name: str) -> onnx.NodeProto | None:
        return (
            self.consumer[name] if self.uses[name] == 1 and name not in self.outputs and name in self.consumer else None
        )

    def array(self, name: str) -> np.ndarray:
        return numpy_helper.to_array(self.constants[name]).astype(np.float32)


def _inferred_values(model: onnx.ModelProto) -> dict[str, onnx.ValueInfoProto]:
    """Infer shapes and types on a copy without the weights' data: quick, and possible beyond 2 GiB."""
    light = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    graph = light.graph
    graph.node.extend(model.graph.node)
    graph.value_info.extend(model.graph.value_info)
    graph.output.extend(model.graph.output)
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    graph.input.extend(value for value in model.graph.input if value.name not in weights)
    for name, tensor in weights.items():
        if np.prod(tensor.dims) <= _SHAPE_VALUES:
            graph.initializer.append(tensor)
        else:
            graph.input.append(onnx.helper.make_tensor_value_info(name, tensor.data_type, list(tensor.dims)))
    try:
        graph = onnx.shape_inference.infer_shapes(light).graph
    except Exception:  # an operator that ONNX does not know; types then come from the operators' names
        graph = model.graph
    return {value.name: value for values in (graph.input, graph.value_info, graph.output) for value in values}


def _tensors_as_parsed(graph: _Graph, algorithm: CalibrationAlgoType) -> list[CalibratedTensor]:
    tensors = [
        CalibratedTensor(name, name)
        for name in graph.inputs
        if name not in graph.values or graph.values[name].type.tensor_type.elem_type in _FLOAT_TYPES
    ]
    layers = 0
    for node in graph.nodes:
        lowered = _lowered_gemm(graph, node, layers) if algorithm in _BEFORE_FUSION else []
        tensors += lowered
        layers += _layer_count(graph, node, len(lowered))
        if node.op_type not in _QUANTIZERS:
            tensors += [_entry(name, node, algorithm) for name in node.output if name and graph.is_float(name, node)]
    return tensors


def _entry(name: str, node: onnx.NodeProto, algorithm: CalibrationAlgoType) -> CalibratedTensor:
    """Observe a tensor or give it its producer's input scale: seen of Flatten, and of MaxPool (EntropyCalibrator2)."""
    pooled = node.op_type == "MaxPool" and algorithm == CalibrationAlgoType.ENTROPY_CALIBRATION_2
    if (pooled or node.op_type in _MOVES_DATA) and name == node.output[0]:
        return CalibratedTensor(name, node.input[0], same_scale=True)
    return CalibratedTensor(name, name)


def _layer_count(graph: _Graph, node: onnx.NodeProto, lowered: int) -> int:
    """Return how many layers the parser adds for `node`; a lowered Gemm ends with the sum of product and bias."""
    if node.op_type == "Flatten" and graph.is_dynamic(node.input[0]):
        return _DYNAMIC_FLATTEN_LAYERS
    return 0 if node.op_type == "Dropout" else lowered + 1


def _lowered_gemm(graph: _Graph, node: onnx.NodeProto, layer: int) -> list[CalibratedTensor]:
    """Return the tensors inside a Gemm of constant weights and bias: constant, product, constant, reshaped constant.

    `layer` is the number of layers before it; names as TensorRT 8.6 numbers them.
    """
    if node.op_type != "Gemm" or len(node.input) != 3 or any(name not in graph.constants for name in node.input[1:]):
        return []
    weights, bias = (graph.array(name) for name in node.input[1:])
    bias_name = f"(Unnamed Layer* {layer + 2}) [Constant]_output"
    return [
        CalibratedTensor(f"(Unnamed Layer* {layer}) [Constant]_output", "", value=weights),
        CalibratedTensor(f"(Unnamed Layer* {layer + 1}) [Matrix Multiply]_output", node.output[0], value=bias),
        CalibratedTensor(bias_name, "", value=bias),
        CalibratedTensor(f"(Unnamed Layer* {layer + 3}) [Shuffle]_output", bias_name, same_scale=True),
    ]


def _fused_away(graph: _Graph) -> set[str]:
    """Return the tensors that disappear in convolution + residual add + activation, and in reshapes before a Gemm."""
    gone: set[str] = set()
    for node in graph.nodes:
        follower = graph.sole_consumer(node.output[0])
        if follower is None:
            continue
        if node.op_type in _MOVES_DATA and follower.op_type in ("Gemm", "MatMul"):
            gone.add(node.output[0])
        elif node.op_type in _CONVOLUTIONS | {"Add", "BatchNormalization", "Gemm"} and follower.op_type in _ACTIVATIONS:
            gone.add(node.output[0])
        elif node.op_type in _CONVOLUTIONS and follower.op_type == "BatchNormalization":
            gone.add(node.output[0])
        elif follower.op_type == "Add" and _fused_operand(graph, follower) == node.output[0]:
            gone.add(node.output[0])
    return gone


def _fused_operand(graph: _Graph, add: onnx.NodeProto) -> str | None:
    """Return the operand of a residual add whose convolution takes the add in: the last one of stride 1."""
    for name in reversed(add.input):
        node = graph.producer.get(name)
        if node is not None and node.op_type in _CONVOLUTIONS and graph.uses[name] == 1 and _stride(node) == 1:
            return name
    return None


def _stride(node: onnx.NodeProto) -> int:
    strides = next((list(attribute.ints) for attribute in node.attribute if attribute.name == "strides"), [1])
    return max(strides)
