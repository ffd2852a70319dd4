"""Networks: `INetworkDefinition` with the layers and tensors that the ONNX parser made.

A network is held as ONNX; a layer is one ONNX node and a tensor one ONNX value, under the same names. Building one
layer by layer (`add_convolution_nd` and the like) is not supported: parse an ONNX file.
"""

import math
from collections.abc import Sequence

import onnx

from trtcpu.api.enums import DataType, LayerType, NetworkDefinitionCreationFlag, TensorFormat, TensorLocation
from trtcpu.api.logger import ILogger
from trtcpu.api.manifest import unsupported
from trtcpu.api.pybind import Declared, Scoped
from trtcpu.api.types import Dims
from trtcpu.api.version import API

_DATA_TYPES = {
    onnx.TensorProto.FLOAT: DataType.FLOAT,
    onnx.TensorProto.FLOAT16: DataType.HALF,
    onnx.TensorProto.BFLOAT16: DataType.BF16,
    onnx.TensorProto.INT8: DataType.INT8,
    onnx.TensorProto.UINT8: DataType.UINT8,
    onnx.TensorProto.INT32: DataType.INT32,
    onnx.TensorProto.INT64: DataType.INT64,
    onnx.TensorProto.BOOL: DataType.BOOL,
    onnx.TensorProto.DOUBLE: DataType.FLOAT,
}

_LAYER_TYPES = {
    LayerType.CONVOLUTION: "Conv",
    LayerType.DECONVOLUTION: "ConvTranspose",
    LayerType.ACTIVATION: "Relu Sigmoid Tanh LeakyRelu Elu Selu Softplus Softsign HardSigmoid ThresholdedRelu Clip "
    "Gelu HardSwish Celu Mish",
    LayerType.POOLING: "MaxPool AveragePool GlobalAveragePool GlobalMaxPool LpPool",
    LayerType.ELEMENTWISE: "Add Sub Mul Div Pow Max Min Mod And Or Xor Equal Greater Less GreaterOrEqual "
    "LessOrEqual Sum Mean",
    LayerType.UNARY: "Exp Log Sqrt Neg Abs Reciprocal Floor Ceil Round Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh "
    "Acosh Atanh Erf Not Sign IsNaN IsInf",
    LayerType.MATRIX_MULTIPLY: "Gemm MatMul",
    LayerType.SHUFFLE: "Reshape Flatten Transpose DepthToSpace SpaceToDepth",
    LayerType.SQUEEZE: "Squeeze",
    LayerType.UNSQUEEZE: "Unsqueeze",
    LayerType.SOFTMAX: "Softmax LogSoftmax",
    LayerType.CONCATENATION: "Concat",
    LayerType.REDUCE: "ReduceMean ReduceSum ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare",
    LayerType.SCALE: "BatchNormalization",
    LayerType.NORMALIZATION: "InstanceNormalization LayerNormalization GroupNormalization",
    LayerType.LRN: "LRN",
    LayerType.CONSTANT: "Constant ConstantOfShape",
    LayerType.CAST: "Cast CastLike",
    LayerType.IDENTITY: "Identity Dropout",
    LayerType.SLICE: "Slice Split Pad Expand Tile",
    LayerType.SHAPE: "Shape Size",
    LayerType.GATHER: "Gather GatherElements GatherND",
    LayerType.RESIZE: "Resize Upsample",
    LayerType.SELECT: "Where Trilu",
    LayerType.QUANTIZE: "QuantizeLinear",
    LayerType.DEQUANTIZE: "DequantizeLinear",
    LayerType.TOPK: "TopK ArgMax ArgMin",
    LayerType.FILL: "Range RandomUniform",
    LayerType.PARAMETRIC_RELU: "PRelu",
    LayerType.EINSUM: "Einsum",
    LayerType.SCATTER: "ScatterElements ScatterND",
    LayerType.CUMULATIVE: "CumSum",
    LayerType.ONE_HOT: "OneHot",
    LayerType.NON_ZERO: "NonZero",
    LayerType.GRID_SAMPLE: "GridSample",
    LayerType.NMS: "NonMaxSuppression",
}
_TYPE_OF = {operator: kind for kind, operators in _LAYER_TYPES.items() for operator in operators.split()}


_LINEAR = 1 << int(TensorFormat.LINEAR)


class ITensor(Declared):
    """A tensor of a network: an input, an output or a value between layers."""

    __slots__ = (
        "_allowed_formats",
        "_dtype",
        "_is_input",
        "_is_output",
        "_name",
        "_range",
        "_shape",
        "broadcast_across_batch",
        "location",
        "onnx_name",
    )
    is_execution_tensor, is_shape_tensor = True, False

    def __init__(self, name: str, shape: Sequence[int] | None, dtype: DataType, is_input: bool) -> None:
        self._name = self.onnx_name = name
        self._shape = Dims(shape)
        self._dtype = dtype
        self._range: tuple[float, float] | None = None
        self._is_input = is_input
        self._is_output = False
        self.location = TensorLocation.DEVICE
        self._allowed_formats = _LINEAR
        self.broadcast_across_batch = False

    @property
    def name(self) -> str:
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        if not (self._is_input or self._is_output):
            raise unsupported("renaming a tensor that is neither input nor output of the network")
        self._name = name

    @property
    def shape(self) -> Dims:
        return Dims(self._shape)

    @shape.setter
    def shape(self, shape: Sequence[int]) -> None:
        if not self._is_input:
            raise unsupported("setting the shape of a tensor that is not a network input")
        self._shape = Dims(shape)

    @property
    def dtype(self) -> DataType:
        return self._dtype

    @dtype.setter
    def dtype(self, dtype: DataType) -> None:
        if dtype != self._dtype:
            raise unsupported("changing a tensor's dtype (export the model with that type)")

    @property
    def allowed_formats(self) -> int:
        """The formats that the engine may choose from, as a bit mask; it always takes LINEAR."""
        return self._allowed_formats

    @allowed_formats.setter
    def allowed_formats(self, formats: int) -> None:
        if not int(formats) & _LINEAR:
            raise unsupported("tensor formats besides LINEAR (ITensor.allowed_formats)")
        self._allowed_formats = int(formats)

    @property
    def dynamic_range(self) -> tuple[float, float] | None:
        """Smallest and largest value for INT8, or None."""
        return self._range

    @dynamic_range.setter
    def dynamic_range(self, value: tuple[float, float]) -> None:
        self.set_dynamic_range(*value)

    def set_dynamic_range(self, min: float, max: float) -> bool:
        """Set the range that INT8 covers; quantisation is symmetric, so its scale is max(|min|, |max|) / 127."""
        if not (math.isfinite(min) and math.isfinite(max)) or min > max:
            return False
        self._range = (float(min), float(max))
        return True

    def reset_dynamic_range(self) -> None:
        self._range = None

    @property
    def is_network_input(self) -> bool:
        return self._is_input

    @property
    def is_network_output(self) -> bool:
        return self._is_output


class _WithTensors(Declared):
    """What has inputs and outputs: a layer, a network."""

    __slots__ = ("_inputs", "_outputs")

    @property
    def num_inputs(self) -> int:
        return len(self._inputs)

    @property
    def num_outputs(self) -> int:
        return len(self._outputs)

    def get_input(self, index: int) -> ITensor | None:
        return self._inputs[index] if 0 <= index < len(self._inputs) else None

    def get_output(self, index: int) -> ITensor | None:
        return self._outputs[index] if 0 <= index < len(self._outputs) else None


class ILayer(_WithTensors):
    """A layer: one ONNX node. Its precision and output types count under OBEY_ or PREFER_PRECISION_CONSTRAINTS."""

    __slots__ = ("_output_types", "_precision", "metadata", "name", "node")

    def __init__(self, node: onnx.NodeProto, name: str, inputs: list[ITensor], outputs: list[ITensor]) -> None:
        self.node = node
        self.name = name
        self.metadata = f"[ONNX Layer: {node.name or name}]"
        self._inputs, self._outputs = inputs, outputs
        self._precision: DataType | None = None
        self._output_types: dict[int, DataType] = {}

    @property
    def type(self) -> LayerType:
        return _TYPE_OF.get(self.node.op_type, LayerType.PLUGIN_V3)

    @property
    def precision(self) -> DataType:
        """The precision asked for; FLOAT if none was set."""
        return self._precision or DataType.FLOAT

    @precision.setter
    def precision(self, precision: DataType) -> None:
        if precision not in (DataType.FLOAT, DataType.HALF, DataType.BF16, DataType.INT8, DataType.INT32):
            raise unsupported(f"layer precision {precision.name}")
        self._precision = precision

    @property
    def precision_is_set(self) -> bool:
        return self._precision is not None

    def reset_precision(self) -> None:
        self._precision = None

    def set_output_type(self, index: int, dtype: DataType) -> None:
        if not 0 <= index < len(self._outputs):
            raise ValueError(f"layer {self.name} has {len(self._outputs)} outputs, found index {index}")
        self._output_types[index] = dtype

    def get_output_type(self, index: int) -> DataType:
        return self._output_types.get(index, self._outputs[index].dtype)

    def output_type_is_set(self, index: int) -> bool:
        return index in self._output_types

    def reset_output_type(self, index: int) -> None:
        self._output_types.pop(index, None)


class INetworkDefinition(Scoped, _WithTensors):
    """A network; `create_network` makes it empty and `OnnxParser` fills it."""

    __slots__ = ("_layers", "flags", "logger", "model", "name")
    has_implicit_batch_dimension = False

    def __init__(self, flags: int, logger: ILogger) -> None:
        self.name = "Unnamed Network 0"
        self.flags = flags | (API.strongly_typed << int(NetworkDefinitionCreationFlag.STRONGLY_TYPED))
        self.logger = logger
        self.model: onnx.ModelProto | None = None
        self._inputs: list[ITensor] = []
        self._outputs: list[ITensor] = []
        self._layers: list[ILayer] = []

    def get_flag(self, flag: NetworkDefinitionCreationFlag) -> bool:
        return bool(self.flags >> int(flag) & 1)

    @property
    def strongly_typed(self) -> bool:
        """Whether the model's types decide what layers run in (not part of TensorRT's API)."""
        return self.get_flag(NetworkDefinitionCreationFlag.STRONGLY_TYPED)

    @property
    def num_layers(self) -> int:
        return len(self._layers)

    def __len__(self) -> int:
        return len(self._layers)

    def __getitem__(self, index: int) -> ILayer:
        return self._layers[index]

    def get_layer(self, index: int) -> ILayer | None:
        return self._layers[index] if 0 <= index < len(self._layers) else None

    def mark_output(self, tensor: ITensor) -> None:
        if tensor not in self._outputs:
            tensor._is_output = True
            self._outputs.append(tensor)

    def unmark_output(self, tensor: ITensor) -> None:
        if tensor in self._outputs:
            tensor._is_output = False
            self._outputs.remove(tensor)

    def add_input(self, name: str, dtype: DataType, shape: Sequence[int]) -> ITensor:
        raise unsupported("building a network layer by layer (INetworkDefinition.add_input); parse an ONNX file")

    def __getattr__(self, name: str) -> object:
        if name.startswith("add_"):
            raise unsupported(f"building a network layer by layer (INetworkDefinition.{name}); parse an ONNX file")
        raise AttributeError(f"'INetworkDefinition' object has no attribute {name!r}")

    def fill(self, model: onnx.ModelProto) -> None:
        """Take the layers and tensors of a checked ONNX model whose node names are unique."""
        self.model = model
        graph = model.graph
        known = {value.name: value for value in (*graph.value_info, *graph.input, *graph.output)}
        constants = {tensor.name for tensor in graph.initializer}
        tensors: dict[str, ITensor] = {}

        def tensor(name: str, is_input: bool = False) -> ITensor:
            if name not in tensors:
                tensors[name] = ITensor(name, *_shape_and_type(known.get(name)), is_input)
            return tensors[name]

        self._inputs = [tensor(value.name, True) for value in graph.input if value.name not in constants]
        for index, node in enumerate(graph.node):
            layer_type = _TYPE_OF.get(node.op_type, LayerType.PLUGIN_V3)
            name = node.name or f"(Unnamed Layer* {index}) [{layer_type.name.title()}]"
            inputs = [tensor(name) for name in node.input if name and name not in constants]
            self._layers.append(ILayer(node, name, inputs, [tensor(name) for name in node.output if name]))
        for value in graph.output:
            self.mark_output(tensor(value.name))


def inputs_of(network: INetworkDefinition) -> list[ITensor]:
    """Return the network's inputs in order."""
    return [network.get_input(index) for index in range(network.num_inputs)]


def outputs_of(network: INetworkDefinition) -> list[ITensor]:
    """Return the network's outputs in order."""
    return [network.get_output(index) for index in range(network.num_outputs)]


def _shape_and_type(value: onnx.ValueInfoProto | None) -> tuple[list[int] | None, DataType]:
    if value is None or not value.type.HasField("tensor_type"):
        return None, DataType.FLOAT
    tensor = value.type.tensor_type
    shape = None
    if tensor.HasField("shape"):
        shape = [d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim]
    return shape, _DATA_TYPES.get(tensor.elem_type, DataType.FLOAT)
