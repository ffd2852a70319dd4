"""ONNX to a TensorRT network; whatever is wrong with the file becomes one error."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx.external_data_helper import ExternalDataInfo, uses_external_data
from onnx.numpy_helper import to_array

from helpers.engine.backend import trt
from helpers.tools.files import read_file
from trtcpu.errors import InputError
from trtlab.engines.engine_log import LOG
from trtlab.engines.tensors import Shape, numpy_type

_SHOWN_ERRORS = 2
_FLOATS = (
    onnx.TensorProto.FLOAT,
    onnx.TensorProto.FLOAT16,
    onnx.TensorProto.DOUBLE,
    onnx.TensorProto.BFLOAT16,
)
_WEIGHTED = (
    "BatchNormalization",
    "Conv",
    "ConvTranspose",
    "GRU",
    "Gemm",
    "LSTM",
    "LayerNormalization",
    "MatMul",
    "RNN",
)


@dataclass
class ParsedModel:
    """A network and what a build must know of it: `inputs` gives each input's shape, -1 where an axis is dynamic."""

    path: Path
    file: onnx.ModelProto
    builder: "trt.Builder"
    network: "trt.INetworkDefinition"
    parser: "trt.OnnxParser"
    inputs: dict[str, Shape]
    dtypes: dict[str, np.dtype]

    @property
    def input_name(self) -> str:
        """The first input's name."""
        return next(iter(self.inputs))

    @property
    def fixed_batch(self) -> int | None:
        """Axis 0 of the first input; None if it is dynamic."""
        shape = self.inputs[self.input_name]
        return None if shape[:1] == (-1,) else shape[0] if shape else 1

    @property
    def calibrated_inputs(self) -> list[str]:
        """The inputs that have a scale in a calibration cache: those that are not indices."""
        return [name for name, dtype in self.dtypes.items() if dtype.kind == "f"]

    @property
    def tensor_names(self) -> set[str]:
        """The names of the inputs and of every layer's outputs."""
        outputs = (layer.get_output(index) for layer in self._layers() for index in range(layer.num_outputs))
        return {*self.inputs} | {tensor.name for tensor in outputs if tensor is not None}

    @property
    def quantized(self) -> bool:
        """Whether the model brings its own scales (Q/DQ nodes)."""
        return any(layer.type == trt.LayerType.QUANTIZE for layer in self._layers())

    def _layers(self) -> "list[trt.ILayer]":
        return [self.network.get_layer(index) for index in range(self.network.num_layers)]

    def check_weights(self) -> None:
        """Raise InputError for weights that are NaN or infinite: TensorRT builds them, and a ReLU can hide the NaN.

        Infinite constants elsewhere are masks, as attention has them.
        """
        graph = self.file.graph
        constants = {tensor.name: tensor for tensor in graph.initializer}
        constants |= {node.output[0]: node.attribute[0].t for node in graph.node if node.op_type == "Constant"}
        weighted = {name: node.op_type for node in graph.node if node.op_type in _WEIGHTED for name in node.input[1:]}
        for name, tensor in constants.items():
            if tensor.data_type not in _FLOATS:
                continue
            values = to_array(tensor, str(self.path.parent))
            if np.isnan(values).any() or (name in weighted and np.isinf(values).any()):
                wrong = f"{np.count_nonzero(~np.isfinite(values)):,} of {values.size:,}"
                raise InputError(
                    f"{self.path}: {wrong} values of {weighted.get(name, 'the constant')} {name} are NaN or infinite; "
                    "export a model whose training did not diverge"
                )

    def metadata(self) -> dict[str, str]:
        """Return what the exporter noted in the file: the model's name, its data, its class names."""
        return {entry.key: entry.value for entry in self.file.metadata_props}

    def axis_names(self) -> dict[str, list[int | str]]:
        """Return each input's axes as the file has them: a size, or a dynamic axis's name, "?" without one."""
        shapes = {value.name: value.type.tensor_type.shape.dim for value in self.file.graph.input}
        return {name: [dim.dim_param or dim.dim_value or "?" for dim in dims] for name, dims in shapes.items()}

    def index_limits(self) -> dict[str, int]:
        """Return for each integer input that looks up rows of a table (an embedding) how many rows there are."""
        sizes = {tensor.name: list(tensor.dims) for tensor in self.file.graph.initializer}
        origin = {name: name for name in self.inputs}
        limits: dict[str, int] = {}
        for node in self.file.graph.node:
            if node.op_type in ("Cast", "Identity") and node.input[0] in origin:
                origin[node.output[0]] = origin[node.input[0]]
            elif node.op_type == "Gather" and node.input[1] in origin and node.input[0] in sizes:
                axis = next((entry.i for entry in node.attribute if entry.name == "axis"), 0)
                name, rows = origin[node.input[1]], sizes[node.input[0]][axis]
                limits[name] = min(rows, limits.get(name, rows))
        return limits


def parse_onnx(path: str | Path) -> ParsedModel:
    """Parse an ONNX model.

    Raises:
        InputError: the file is missing, empty, damaged or no ONNX model, its weights are missing, an operator is not
            supported, or an input is of a type that NumPy does not have.
    """
    path = Path(path)
    data = read_file(path, "ONNX model", "make one with trtlab export")
    try:
        file = onnx.load_from_string(data)
    except Exception:  # protobuf's DecodeError, whose module depends on its version
        file = onnx.ModelProto()
    if not file.graph.node:
        raise InputError(f"{path} is empty, truncated or no ONNX model; export it again with trtlab export")
    for tensor in filter(uses_external_data, file.graph.initializer):
        place = ExternalDataInfo(tensor).location
        if not (path.parent / place).is_file():
            raise InputError(f"{path} keeps its weights in {place}, which is missing; put it into {path.parent}")
    # without effect on TensorRT 10, necessary on 8.6
    return parse_model(data, file, path, "EXPLICIT_BATCH")


def parse_model(data: bytes, file: onnx.ModelProto, path: Path, *flags: str) -> ParsedModel:
    """Parse the bytes of `file`, which was made of the model at `path`, as a network of those flags that TensorRT has.

    Raises:
        InputError: as `parse_onnx`, for what is in the file.
    """
    builder = trt.Builder(LOG)
    known = [getattr(trt.NetworkDefinitionCreationFlag, name, None) for name in flags]
    network = builder.create_network(sum(1 << int(flag) for flag in known if flag is not None))
    parser = trt.OnnxParser(network, LOG)
    if not parser.parse(data, str(path)):
        errors = [" ".join(str(parser.get_error(index)).split()) for index in range(parser.num_errors)]
        raise InputError(f"{path} cannot be parsed: {'; '.join(dict.fromkeys(errors[:_SHOWN_ERRORS]))}")
    tensors = [network.get_input(index) for index in range(network.num_inputs)]
    if not tensors or not network.num_outputs:
        raise InputError(f"{path} has {len(tensors)} inputs and {network.num_outputs} outputs; an engine needs both")
    shapes = {tensor.name: tuple(tensor.shape) for tensor in tensors}
    dtypes = {tensor.name: numpy_type(tensor.dtype, f"input {tensor.name} of {path}") for tensor in tensors}
    return ParsedModel(path, file, builder, network, parser, shapes, dtypes)


def add_profile(
    model: ParsedModel, shapes: Mapping[str, Sequence[Shape]], add: "Callable[[trt.IOptimizationProfile], object]"
) -> None:
    """Call `add` with a profile of the inputs that are dynamic: minimum, optimum, maximum. Without any, do nothing."""
    dynamic = [name for name, shape in model.inputs.items() if -1 in shape]
    if dynamic:
        profile = model.builder.create_optimization_profile()
        for name in dynamic:
            profile.set_shape(name, *shapes[name])
        add(profile)
