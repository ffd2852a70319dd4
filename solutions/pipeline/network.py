"""ONNX to a TensorRT network with one image input and one output; whatever is wrong with the file becomes one error."""

from dataclasses import dataclass
from pathlib import Path

from helpers.backend import trt
from helpers.errors import InputError
from solutions.pipeline.engine_log import LOG

__all__ = ["ParsedModel", "parse_onnx"]

_SHOWN_ERRORS = 2


@dataclass
class ParsedModel:
    """A network and what a build must know of it; `fixed_batch` is None where the batch is dynamic."""

    path: Path
    builder: "trt.Builder"
    network: "trt.INetworkDefinition"
    parser: "trt.OnnxParser"
    input_name: str
    sample_shape: tuple[int, ...]
    fixed_batch: int | None

    @property
    def tensor_names(self) -> set[str]:
        """The names of the input and of every layer's outputs."""
        layers = (self.network.get_layer(index) for index in range(self.network.num_layers))
        outputs = (layer.get_output(index) for layer in layers for index in range(layer.num_outputs))
        return {self.input_name} | {tensor.name for tensor in outputs if tensor is not None}

    def metadata(self) -> dict[str, str]:
        """Return what the exporter noted in the file: the model's name, its data, its class names."""
        import onnx

        properties = onnx.load(str(self.path), load_external_data=False).metadata_props
        return {entry.key: entry.value for entry in properties}

    @property
    def quantized(self) -> bool:
        """Whether the model brings its own scales (Q/DQ nodes)."""
        layers = (self.network.get_layer(index) for index in range(self.network.num_layers))
        return any(layer.type == trt.LayerType.QUANTIZE for layer in layers)


def parse_onnx(path: str | Path) -> ParsedModel:
    """Parse an ONNX classifier.

    Raises:
        InputError: the file is missing, empty, damaged or no ONNX model, its weights are missing, an operator is not
            supported, or it has not one input whose batch axis alone may be dynamic.
    """
    path = Path(path)
    data = _read(path)
    builder = trt.Builder(LOG)
    # without effect on TensorRT 10, necessary on 8.6
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    parser = trt.OnnxParser(network, LOG)
    with LOG.collect() as messages:
        parsed = parser.parse(data, str(path))
    if not parsed:
        _check_file(path)
        raise InputError(f"{path} cannot be parsed: {_parser_errors(parser) or messages.text()}")
    return _classifier(path, builder, network, parser)


def _read(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"cannot read the ONNX model {path}: {reason}; make one with trtlab export") from error
    if not data:
        raise InputError(f"{path} is empty; export it again with trtlab export")
    return data


def _check_file(path: Path) -> None:
    """Raise InputError where the file itself, not an operator, is what is wrong."""
    import onnx
    from onnx.external_data_helper import uses_external_data

    try:
        graph = onnx.load(str(path), load_external_data=False).graph
    except Exception as error:  # protobuf's DecodeError, whose module depends on its version
        raise InputError(f"{path} is no ONNX model, or is truncated; export it again with trtlab export") from error
    if not graph.node:
        raise InputError(f"{path} is no ONNX model, or is truncated; export it again with trtlab export")
    for tensor in filter(uses_external_data, graph.initializer):
        place = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
        if not (path.parent / place).is_file():
            raise InputError(f"{path} keeps its weights in {place}, which is missing; put it into {path.parent}")


def _parser_errors(parser: "trt.OnnxParser") -> str:
    errors = [parser.get_error(index) for index in range(parser.num_errors)]
    return "; ".join(dict.fromkeys(_describe(error) for error in errors[:_SHOWN_ERRORS]))


def _describe(error: "trt.ParserError") -> str:
    text = " ".join(error.desc().split())
    names = [getattr(error, method, str)() for method in ("node_operator", "node_name")]  # not in TensorRT 8.6
    where = " ".join(name for name in names if name and name not in text)
    return f"{text} (node {error.node()}{': ' + where if where else ''})" if error.node() >= 0 else text


def _classifier(
    path: Path, builder: "trt.Builder", network: "trt.INetworkDefinition", parser: "trt.OnnxParser"
) -> ParsedModel:
    names = [network.get_input(index).name for index in range(network.num_inputs)]
    if len(names) != 1 or network.num_outputs != 1:
        raise InputError(
            f"{path} has inputs {', '.join(names) or 'none'} and {network.num_outputs} outputs; "
            "this tool builds classifiers with one input and one output"
        )
    shape = tuple(network.get_input(0).shape)
    if len(shape) < 2 or -1 in shape[1:]:
        raise InputError(
            f"input {names[0]} of {path} has shape {list(shape)}; only axis 0, the batch, may be dynamic: "
            "export with a fixed image size"
        )
    fixed = None if shape[0] == -1 else shape[0]
    return ParsedModel(path, builder, network, parser, names[0], shape[1:], fixed)
