"""The ONNX parser: fills a network from a model, keeps its errors and never raises for a bad model."""

from collections.abc import Iterator
from pathlib import Path

import onnx
from onnx.external_data_helper import load_external_data_for_model, uses_external_data

from trtcpu import _openvino
from trtcpu.api.enums import ErrorCode, OnnxParserFlag
from trtcpu.api.logger import ILogger
from trtcpu.api.pybind import Declared, Scoped
from trtcpu.builder.network import INetworkDefinition


class ParserError(Declared):
    """One error of the parser; each detail is a method, as in TensorRT."""

    __slots__ = ("_code", "_desc", "_file", "_node", "_node_name", "_operator")

    def __init__(
        self, code: ErrorCode, desc: str, node: int = -1, node_name: str = "", operator: str = "", file: str = ""
    ) -> None:
        self._code, self._desc, self._node = code, desc, node
        self._node_name, self._operator, self._file = node_name, operator, file

    def code(self) -> ErrorCode:
        return self._code

    def desc(self) -> str:
        return self._desc

    def node(self) -> int:
        """Index of the node in the graph, -1 where the error is not a node's."""
        return self._node

    def node_name(self) -> str:
        return self._node_name

    def node_operator(self) -> str:
        return self._operator

    def file(self) -> str:
        return self._file

    def func(self) -> str:
        return "parse"

    def line(self) -> int:
        return 0

    def local_function_stack(self) -> list[str]:
        return []

    def local_function_stack_size(self) -> int:
        return 0

    def __str__(self) -> str:
        where = (
            f"In node {self._node} with name: {self._node_name} and operator: {self._operator}"
            if self._node >= 0
            else ""
        )
        return f"{where}{' ' if where else ''}({self._code.name}): {self._desc}"

    __repr__ = __str__


class _Rejected(Exception):
    def __init__(self, *errors: ParserError) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = errors


class OnnxParser(Scoped):
    """Parse ONNX into a network.

    `parse` takes the serialized model; weights in external files need `path`, the model's own path.
    """

    __slots__ = ("_errors", "_logger", "_network", "flags")

    def __init__(self, network: INetworkDefinition, logger: ILogger) -> None:
        self._network, self._logger = network, logger
        self._errors: list[ParserError] = []
        self.flags = 0

    @property
    def num_errors(self) -> int:
        return len(self._errors)

    def get_error(self, index: int) -> ParserError:
        return self._errors[index]

    def clear_errors(self) -> None:
        self._errors.clear()

    def set_flag(self, flag: OnnxParserFlag) -> None:
        self.flags |= 1 << int(flag)

    def clear_flag(self, flag: OnnxParserFlag) -> None:
        self.flags &= ~(1 << int(flag))

    def get_flag(self, flag: OnnxParserFlag) -> bool:
        return bool(self.flags >> int(flag) & 1)

    def get_used_vc_plugin_libraries(self) -> list[str]:
        return []

    def supports_operator(self, op_name: str) -> bool:
        return onnx.defs.has(op_name)

    def parse(self, model: bytes, path: str | None = None) -> bool:
        """Parse a serialized model into the network; False, with the errors kept, when it cannot be used."""
        try:
            self._network.fill(self._checked(bytes(model), path))
        except _Rejected as rejected:
            for error in rejected.errors:
                self._errors.append(error)
                self._logger.log(ILogger.ERROR, f"ModelImporter: {error}")
            return False
        return True

    def parse_from_file(self, model: str) -> bool:
        """Parse a file; weights in external files are looked for beside it."""
        try:
            data = Path(model).read_bytes()
        except OSError as error:
            found = ParserError(ErrorCode.MODEL_DESERIALIZE_FAILED, f"Could not open file {model}: {error.strerror}")
            self._errors.append(found)
            self._logger.log(ILogger.ERROR, f"ModelImporter: {found}")
            return False
        return self.parse(data, str(model))

    def _checked(self, data: bytes, path: str | None) -> onnx.ModelProto:
        if self._network.model is not None:
            raise _Rejected(ParserError(ErrorCode.INVALID_GRAPH, "the network already holds a parsed model"))
        model = _deserialized(data)
        _load_external(model, path)
        if refused := [*_unknown_operators(model), *_wide_dequantizers(model)]:
            raise _Rejected(*refused)
        _name_nodes(model)
        if self._network.strongly_typed:
            self._logger.log(ILogger.INFO, "strongly typed network: the ONNX types decide the precision")
        if reason := _openvino.read_model_error(model.SerializeToString()):
            raise _Rejected(ParserError(ErrorCode.INVALID_GRAPH, reason))
        return _with_shapes(model)


def _deserialized(data: bytes) -> onnx.ModelProto:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except Exception as error:  # protobuf's DecodeError, in the flavour that its build uses
        raise _Rejected(
            ParserError(ErrorCode.MODEL_DESERIALIZE_FAILED, f"Failed to parse the ONNX model: {error}")
        ) from error
    if not model.graph.node or not model.graph.output:
        raise _Rejected(
            ParserError(
                ErrorCode.MODEL_DESERIALIZE_FAILED,
                f"Failed to parse the ONNX model: {len(data)} bytes hold no graph with nodes and outputs",
            )
        )
    return model


def _load_external(model: onnx.ModelProto, path: str | None) -> None:
    if not any(uses_external_data(tensor) for tensor in model.graph.initializer):
        return
    if path is None:
        raise _Rejected(
            ParserError(
                ErrorCode.INVALID_GRAPH,
                "the model's weights are in external files: use parse_from_file, or give parse the model's path",
            )
        )
    try:
        load_external_data_for_model(model, str(Path(path).parent))
    except Exception as error:  # onnx raises OSError, ValueError or its checker's error for a bad file
        raise _Rejected(ParserError(ErrorCode.INVALID_GRAPH, f"Failed to read external weights: {error}")) from error


def _unknown_operators(model: onnx.ModelProto) -> Iterator[ParserError]:
    """Give an error for each node that cannot be read: TensorRT 10 looks at all of them before it gives up."""
    for index, node in enumerate(model.graph.node):
        if node.domain in ("", "ai.onnx") and not onnx.defs.has(node.op_type) or node.domain not in _DOMAINS:
            what = f"{node.domain + '::' if node.domain else ''}{node.op_type}"
            reason = f"No importer registered for op: {what}"
            yield ParserError(ErrorCode.UNSUPPORTED_NODE, reason, index, node.name, node.op_type)


def _wide_dequantizers(model: onnx.ModelProto) -> Iterator[ParserError]:
    """Give an error for each INT32 DequantizeLinear, which quantisers write for biases and NVIDIA's parser refuses."""
    wide = {tensor.name for tensor in model.graph.initializer if tensor.data_type == onnx.TensorProto.INT32}
    for index, node in enumerate(model.graph.node):
        if node.op_type == "DequantizeLinear" and node.input[0] in wide:
            reason = (
                f"{node.name}: only activation types allowed as input to this layer. {node.input[0]} is INT32, a bias "
                "perhaps: keep biases in float"
            )
            yield ParserError(ErrorCode.INVALID_NODE, reason, index, node.name, node.op_type)


_DOMAINS = ("", "ai.onnx")


def _name_nodes(model: onnx.ModelProto) -> None:
    """Give every node a name of its own, since layers are known by their names."""
    seen: set[str] = set()
    for index, node in enumerate(model.graph.node):
        if not node.name or node.name in seen:
            node.name = f"{node.name or 'node'}_{node.op_type}_{index}" if node.name else f"{node.op_type}_{index}"
        seen.add(node.name)


def _with_shapes(model: onnx.ModelProto) -> onnx.ModelProto:
    try:
        return onnx.shape_inference.infer_shapes(model)
    except Exception:  # shapes are for display and reshaping only; OpenVINO has accepted the graph
        return model
