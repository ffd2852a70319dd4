"""The ONNX parser: fills a network from a model, keeps its errors and never raises for a bad model."""

import copy
import itertools
from functools import partialmethod
from pathlib import Path
from typing import Any

import onnx
from onnx.external_data_helper import load_external_data_for_model, uses_external_data

from trtcpu import _openvino
from trtcpu.api.enums import ErrorCode
from trtcpu.api.logger import ILogger
from trtcpu.api.pybind import Declared, Flagged, Scoped
from trtcpu.builder.config import IBuilderConfig
from trtcpu.builder.narrowed import beyond_32_bits, quantised_to_int8, without_doubles
from trtcpu.builder.network import INetworkDefinition
from trtcpu.builder.operators import nodes_within, refusals, supported

_DETAILS = (
    *("code", "desc", "node", "node_name", "node_operator", "file", "func", "line"),
    *("local_function_stack", "local_function_stack_size"),
)


class ParserError(Declared):
    """One error of the parser; each detail is a method, as in TensorRT. `node()` is -1 if it is no node's error."""

    __slots__ = ("_details",)

    def __init__(
        self, code: ErrorCode, desc: str, node: int = -1, node_name: str = "", operator: str = "", file: str = ""
    ) -> None:
        values = (code, desc, node, node_name, operator, file, "parse", 0, [], 0)
        self._details = dict(zip(_DETAILS, values, strict=True))

    def _detail(self, name: str) -> Any:
        return self._details[name]

    def __str__(self) -> str:
        where = f"In node {self.node()} with name: {self.node_name()} and operator: {self.node_operator()} "
        return f"{where if self.node() >= 0 else ''}({self.code().name}): {self.desc()}"

    __repr__ = __str__


for _name in _DETAILS:
    setattr(ParserError, _name, partialmethod(ParserError._detail, _name))


class _Rejected(Exception):
    def __init__(self, *errors: ParserError) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = errors


class OnnxParser(Scoped, Flagged):
    """Parse ONNX into a network.

    `parse` takes the serialized model; weights in external files need `path`, the model's own path.
    """

    __slots__ = ("_errors", "_logger", "_network", "_subgraphs")

    def __init__(self, network: INetworkDefinition, logger: ILogger) -> None:
        self._network, self._logger = network, logger
        self._errors: list[ParserError] = []
        self._subgraphs: list[tuple[bool, list[int]]] = []
        self.flags = 0

    @property
    def num_errors(self) -> int:
        return len(self._errors)

    def get_error(self, index: int) -> ParserError:
        return self._errors[index]

    def clear_errors(self) -> None:
        self._errors.clear()

    def set_builder_config(self, builder_config: IBuilderConfig) -> bool:
        """Accepted: no limit of this parser depends on a build's options."""
        return True

    def supports_model_v2(self, model: bytes, path: str | None = None) -> bool:
        """Say whether a model can be parsed; which nodes can be and which cannot is then told as subgraphs."""
        try:
            parsed = _deserialized(bytes(model))
        except _Rejected as rejected:
            self._errors += rejected.errors
            return False
        refused = {refusal.index for refusal in refusals(parsed.graph)}
        places = itertools.groupby(range(len(parsed.graph.node)), lambda index: index not in refused)
        self._subgraphs = [(supported, list(nodes)) for supported, nodes in places]
        return not refused

    @property
    def num_subgraphs(self) -> int:
        return len(self._subgraphs)

    def is_subgraph_supported(self, index: int) -> bool:
        return self._subgraphs[index][0]

    def get_subgraph_nodes(self, index: int) -> list[int]:
        return self._subgraphs[index][1]

    def get_used_vc_plugin_libraries(self) -> list[str]:
        return []

    def supports_operator(self, op_name: str) -> bool:
        return op_name in supported()

    def parse(self, model: bytes, path: str | None = None) -> bool:
        """Parse a serialized model into the network; False, with the errors kept, when it cannot be used."""
        try:
            self._network.fill(self._checked(bytes(model), path))
        except _Rejected as rejected:
            return self._failed(*rejected.errors)
        return True

    def _failed(self, *errors: ParserError) -> bool:
        self._errors += errors
        for error in errors:
            self._logger.log(ILogger.ERROR, f"ModelImporter: {error}")
        return False

    def parse_from_file(self, model: str) -> bool:
        """Parse a file; weights in external files are looked for beside it."""
        try:
            data = Path(model).read_bytes()
        except OSError as error:
            reason = f"Could not open file {model}: {error.strerror}"
            return self._failed(ParserError(ErrorCode.MODEL_DESERIALIZE_FAILED, reason))
        return self.parse(data, str(model))

    def _checked(self, data: bytes, path: str | None) -> onnx.ModelProto:
        if self._network.model is not None:
            raise _Rejected(ParserError(ErrorCode.INVALID_GRAPH, "the network already holds a parsed model"))
        model = _deserialized(data)
        _load_external(model, path)
        if refused := _refused_by_the_table(model):
            raise _Rejected(*refused)
        if without_doubles(model.graph):
            self._logger.log(ILogger.WARNING, "the model's DOUBLE tensors are cast down to FLOAT")
        if quantised_to_int8(model.graph):
            self._logger.log(ILogger.WARNING, "UINT8 zero points are not supported: INT8 is used in their place")
        for name in beyond_32_bits(model.graph):
            self._logger.log(ILogger.WARNING, f"{name} holds more than the 32 bits that INT64 is computed in here")
        _name_nodes(model)
        if self._network.strongly_typed:
            self._logger.log(ILogger.INFO, "strongly typed network: the ONNX types decide the precision")
        if error := _refused_by_openvino(model):
            raise _Rejected(error)
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


def _refused_by_the_table(model: onnx.ModelProto) -> list[ParserError]:
    return [
        ParserError(code, reason, index, node.name, node.op_type) for code, reason, index, node in refusals(model.graph)
    ]


def _refused_by_openvino(model: onnx.ModelProto) -> ParserError | None:
    """Return why OpenVINO cannot read a model, with the node that it names.

    Its reader ends the process at a Clip whose input it could not convert, so it sees the model without any first.
    """
    for tried in (_without_clips(model), model):
        if tried is not None and (found := _openvino.read_model_error(tried.SerializeToString())):
            for index, node in enumerate(model.graph.node):
                if found.operator == node.op_type and found.output in ("", *node.output):
                    return ParserError(ErrorCode.UNSUPPORTED_NODE, found.reason, index, node.name, node.op_type)
            return ParserError(ErrorCode.INVALID_GRAPH, found.reason)
    return None


def _without_clips(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Return a copy whose Clips pass on their input; None for a model that has none."""
    copied = copy.deepcopy(model)
    nodes = [inner for node in copied.graph.node for inner in (node, *nodes_within(node)) if inner.op_type == "Clip"]
    for node in nodes:
        node.op_type = "Identity"
        del node.input[1:], node.attribute[:]
    return copied if nodes else None


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
