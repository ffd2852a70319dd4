"""The door to OpenVINO: reads ONNX, compiles, exports, imports, infers and lists what will run.

Everything above it speaks ONNX, NumPy and TensorRT's terms. OpenVINO is imported when it is first used: the package can
be imported beside real TensorRT without it.
"""

import io
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from trtcpu._repairs import SINK, bounds_of, check_shapes, repair

if TYPE_CHECKING:
    import openvino as ov

Bounds = Mapping[str, list[tuple[int, int]]]
_VNNI = frozenset({"avx_vnni", "avx512_vnni", "amx_int8"})


@lru_cache(maxsize=1)
def _openvino() -> ModuleType:
    import openvino

    return openvino


@lru_cache(maxsize=1)
def _core() -> "ov.Core":
    return _openvino().Core()


def version() -> str:
    """Return OpenVINO's version, for example `2026.4.1`."""
    return _openvino().get_version().split("-")[0]


def cpu_name() -> str:
    """Return the processor's name as its vendor gives it."""
    return str(_core().get_property("CPU", "FULL_DEVICE_NAME")).strip()


def cpu_capabilities() -> list[str]:
    """Return the sorted precisions that this processor computes in, for example `["BF16", "FP32", "INT8"]`."""
    return sorted(_core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"))


def half_precision(asked: str = "FP16") -> str:
    """Return what layers that may run in `asked` ("FP16" or "BF16") compute in here; "FP32" if neither is faster.

    On x86 that is BF16, and FP16 only if there is AMX-FP16: without it the FP16 kernels are slower than FP32's
    (ResNet-50 at batch 8 on a Xeon with AMX-BF16: FP16 290 ms, FP32 189 ms, BF16 36 ms). Intel's BF16
    is slower too if there is no AMX (ResNet-18 at batch 8 on a Xeon with AVX512-BF16: BF16 163 ms, FP16 162 ms, FP32
    93 ms). AMD's is fast without AMX (ResNet-50 at batch 8 on an EPYC with AVX512-BF16: BF16 69 ms, FP32 144 ms).
    """
    flags, fast = _cpu_flags(), set(cpu_capabilities())
    if "avx2" in flags and "amx_fp16" not in flags:
        fast.discard("FP16")
    if "GenuineIntel" in flags and "amx_bf16" not in flags:
        fast.discard("BF16")
    taken = ("FP16", "BF16") if asked == "FP16" else (asked,)
    return next((precision for precision in taken if precision in fast), "FP32")


def features() -> str:
    """Return what decides here what fewer bits gain, for example `VNNI, no BF16`."""
    flags = _cpu_flags()
    vnni = ["VNNI" if _VNNI & flags else "no VNNI"] if "avx2" in flags else []
    half = half_precision()
    lacking = "slow BF16" if "BF16" in cpu_capabilities() else "no BF16"
    return ", ".join([*vnni, lacking if half == "FP32" else half])


@lru_cache(maxsize=1)
def saturates_int8() -> bool:
    """Say whether this processor adds pairs of INT8 products in 16 bits, so that two large ones overflow.

    x86 without VNNI or AMX does (the instruction vpmaddubsw); OpenVINO's kernels then clip the sum.
    """
    flags = _cpu_flags()
    return "avx2" in flags and not _VNNI & flags


@lru_cache(maxsize=1)
def _cpu_flags() -> frozenset[str]:
    """Return the words of /proc/cpuinfo, the processor's flags among them; none if there is no such file."""
    try:
        return frozenset(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return frozenset()


@dataclass(frozen=True)
class Unread:
    """Why a model cannot be read, with the operator that is to blame and one of its outputs, if they are known."""

    reason: str
    operator: str = ""
    output: str = ""


_NO_RULE = re.compile(r"No conversion rule found for operations: ([\w.:]+?)(?:-\d+)?[,\s]")
_AT_NODE = re.compile(r"<Node\((\w+)\): (.*?)>")


def reason(error: RuntimeError) -> str:
    """Return what OpenVINO says in the end, in one line."""
    return str(error).strip().splitlines()[-1].strip()[:300]


def read_model_error(model: bytes) -> Unread | None:
    """Return why OpenVINO cannot read the ONNX model, or None when it can."""
    try:
        _core().read_model(model)
    except RuntimeError as error:
        text = str(error)
        if found := _NO_RULE.search(text + "\n"):
            return Unread(f"OpenVINO has no rule for {found[1]}", found[1])
        at = _AT_NODE.search(text)
        return Unread(_first_sentence(text), *(at[1], at[2].split(",")[0]) if at else ())
    return None


def _first_sentence(text: str) -> str:
    """Keep what says what is wrong in an OpenVINO message, without its source lines and paths."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    noise = (
        r"(Exception from|Check '.*' failed at|While validating|FrontEnd API failed|Model wasn't fully|Summary:|-- )"
    )
    lines = [line for line in lines if not re.match(noise, line)]
    return "; ".join(lines[:3]) or text.strip()


@dataclass
class ExecutedNode:
    """One node of the compiled graph, in the order of execution."""

    name: str
    kind: str
    precision: str
    primitive: str
    originals: list[str]
    inputs: list[int]
    output_shapes: list[list[tuple[int, int]]]
    output_types: list[str]
    layouts: str
    weights: list[tuple[str, list[int]]] = field(default_factory=list)
    from_input: bool = False


@dataclass(frozen=True)
class Port:
    """An input or output of a compiled model.

    Attributes:
        name: the input's or output's name in the ONNX model.
        element: OpenVINO's name of its type, such as `f32` or `boolean`.
        bounds: smallest and largest size of each dimension, -1 if there is no largest; empty for an unknown rank.
    """

    name: str
    is_input: bool
    element: str
    bounds: list[tuple[int, int]]


class Request:
    """One inference request: owns its activations; inputs and outputs may live in the caller's memory."""

    def __init__(self, compiled: "ov.CompiledModel") -> None:
        self._request = compiled.create_infer_request()
        # An input that is an output too has one name for both; outputs come last, and are what is read.
        self._inputs, self._outputs = _by_name(compiled.inputs), _by_name(compiled.outputs)
        self._bound: dict[str, ov.Tensor] = {}
        self.start: Callable[[], None] = self._request.start_async
        self.wait: Callable[[], None] = self._request.wait

    def infer(self) -> None:
        """Run and wait. OpenVINO's own Python `infer` would also copy every output."""
        self.start()
        self.wait()

    def done(self) -> bool:
        """Tell without waiting whether the inference that was started has ended; `wait` raises its error."""
        try:
            return self._request.wait_for(0)
        except RuntimeError:
            return True

    def bind(self, name: str, array: np.ndarray) -> None:
        """Let tensor `name` live in `array` (contiguous, of the tensor's exact shape and dtype; BF16 as uint16)."""
        port = self._inputs.get(name) or self._outputs[name]
        of_kind = (array.shape, port.element_type) if array.dtype == np.uint16 else ()
        tensor = _openvino().Tensor(array, *of_kind, **{} if of_kind else {"shared_memory": True})
        self._bound[name] = tensor
        self._request.set_tensor(port, tensor)

    def output(self, name: str) -> np.ndarray:
        """Return a view of an output that is not bound; valid until the next inference."""
        return self._request.get_tensor(self._outputs[name]).data

    def node_times_ms(self) -> dict[str, float]:
        """Return milliseconds by executed node's name; needs a model imported with `profiling=True`."""
        return {
            info.node_name: info.real_time.total_seconds() * 1e3
            for info in self._request.get_profiling_info()
            if "EXECUTED" in str(info.status)
        }


class Compiled:
    """A compiled model."""

    def __init__(self, compiled: "ov.CompiledModel") -> None:
        self._compiled = compiled

    def create_request(self) -> Request:
        return Request(self._compiled)

    @cached_property
    def threads(self) -> int:
        """The number of threads that its inferences share."""
        return int(self._compiled.get_property("INFERENCE_NUM_THREADS"))

    def sample(self) -> list[np.ndarray]:
        """Return the outputs for one input of small sizes, two where they may be: a one hides a swap of axes.

        Floats are drawn, always the same; all else is 1.

        Raises:
            RuntimeError: the network cannot run on it.
        """
        request, random = self._compiled.create_infer_request(), np.random.default_rng(0)
        for port in self._compiled.inputs:
            bounds = bounds_of(port.get_partial_shape())
            tensor = _openvino().Tensor(port.element_type, [max(1, low, min(2, high)) for low, high in bounds])
            values = tensor.data
            values[...] = random.standard_normal(values.shape) if values.dtype.kind == "f" else 1
            request.set_tensor(port, tensor)
        request.infer()
        return [request.get_tensor(port).data.copy() for port in self._compiled.outputs]

    def export(self) -> bytes:
        """Return the compiled model as bytes that `import_model` takes on the same kind of processor."""
        stream = self._compiled.export_model()
        return stream.getvalue() if isinstance(stream, io.BytesIO) else bytes(stream)

    @property
    def ports(self) -> list[Port]:
        """The inputs, then the outputs."""
        return [
            Port(name, is_input, port.element_type.get_type_name(), bounds_of(port.partial_shape))
            for is_input, ports in ((True, self._compiled.inputs), (False, self._compiled.outputs))
            for name, port in _by_name(ports).items()
        ]

    def nodes(self) -> list[ExecutedNode]:
        """List the compiled graph's nodes in the order of execution."""
        return _executed_nodes(self._compiled.get_runtime_model())


def _config(hint: str, at_once: int = 1, profiling: bool = False) -> dict[str, object]:
    config = {
        "INFERENCE_PRECISION_HINT": getattr(_openvino().Type, hint),
        "PERFORMANCE_HINT": "LATENCY",
        "PERF_COUNT": profiling,
    }
    return (
        config
        if at_once == 1
        else config | {"PERFORMANCE_HINT": "THROUGHPUT", "PERFORMANCE_HINT_NUM_REQUESTS": at_once}
    )


def compile_model(
    model: bytes,
    hint: str = "f32",
    bounds: Bounds | None = None,
    half_weights: bool = False,
    keep_float: Iterable[str] = (),
    known: Mapping[str, list[Any]] | None = None,
) -> Compiled:
    """Compile an ONNX model for this CPU.

    Args:
        model: serialized ONNX with its weights inside.
        hint: precision of the layers that are free to choose: "f32", "f16" or "bf16".
        bounds: smallest and largest value of each dimension, by input name, for all inputs that are read, in order.
        half_weights: store the float weights as FP16.
        keep_float: friendly names of nodes that must compute in FP32 whatever the hint says, and of their weights.
        known: shapes that tensors must have; what is no size may be any.

    Raises:
        RuntimeError: OpenVINO cannot read or compile the model, or gives a tensor another shape.
    """
    loaded = _core().read_model(model)
    if bounds:
        shape, size = _openvino().PartialShape, _openvino().Dimension
        names = _names_of(loaded.inputs, bounds)
        for port, name in zip(loaded.inputs, names, strict=True):
            port.get_node().set_friendly_name(name)  # what only passes it on may have given it its own
        loaded.reshape({index: shape([size(*pair) for pair in bounds[name]]) for index, name in enumerate(names)})
    repair(loaded)
    check_shapes(loaded, known or {})
    keep = set(keep_float)
    if keep:
        loaded = _marked_precise(loaded, keep)
    if half_weights:
        from openvino._offline_transformations import compress_model_transformation

        compress_model_transformation(loaded)
    return Compiled(_core().compile_model(loaded, "CPU", _config(hint)))


def inputs_read(model: bytes, names: Iterable[str]) -> list[str]:
    """Return which of an ONNX model's inputs something reads: OpenVINO leaves the others out."""
    return _names_of(_core().read_model(model).inputs, names)


def _names_of(ports: "Sequence[ov.Output]", names: Iterable[str]) -> list[str]:
    """Return which of `names` each port has: a tensor that is handed on has several, or only the last one's."""
    names = list(names)
    known = [next((name for name in names if name in port.get_names()), "") for port in ports]
    lost = iter([name for name in names if name not in known])
    return [name or next(lost) for name in known]


def shaped_by_values(model: bytes, bounds: Bounds) -> list[str]:
    """Return the outputs that have no fixed shape although all inputs have one: the inputs' values decide it."""
    loaded = _core().read_model(model)
    names = _names_of(loaded.inputs, bounds)
    loaded.reshape({index: [max(1, low) for low, _ in bounds[name]] for index, name in enumerate(names)})
    return [name for name, port in _by_name(loaded.outputs).items() if port.partial_shape.is_dynamic]


def import_model(blob: bytes, hint: str, at_once: int = 1, profiling: bool = False) -> Compiled:
    """Load what `Compiled.export` wrote.

    Args:
        blob: the exported model.
        hint: the precision that it was compiled with.
        at_once: how many requests run at once; each gets its part of the cores. One gets all of them.
        profiling: measure per node, for `Request.node_times_ms`.
    """
    return Compiled(_core().import_model(io.BytesIO(blob), "CPU", _config(hint, at_once, profiling)))


def _marked_precise(model: "ov.Model", names: set[str]) -> "ov.Model":
    """Mark nodes, weights among them, so that they stay in FP32.

    The attribute (`precise`, DisablePrecisionConversion) can only be set by the IR reader, so the model goes through
    OpenVINO's IR in a temporary folder. A convolution with a bias is two nodes: `X/WithoutBiases` and `X`.
    """
    with tempfile.TemporaryDirectory() as folder:
        xml, weights = Path(folder, "model.xml"), Path(folder, "model.bin")
        _openvino().serialize(model, xml, weights)
        xml.write_text(_mark_layers(xml.read_text(), names))
        data = np.fromfile(weights, np.uint8)
        tensor = _openvino().Tensor(data if data.size else np.zeros(1, np.uint8))
        return _core().read_model(xml.read_text(), tensor)


def _mark_layers(xml: str, names: set[str]) -> str:
    mark = '<rt_info><attribute name="precise" version="0" /></rt_info>'

    def marked(match: re.Match[str]) -> str:
        name, kind = match.group(1), match.group(2)
        wanted = name in names or name.removesuffix("/WithoutBiases") in names
        if not wanted or kind in ("Parameter", "Result", "Convert"):
            return match.group(0)
        body = match.group(0)
        if "<rt_info>" in body:
            return body.replace("<rt_info>", mark.removesuffix("</rt_info>"), 1)
        first_port = "<input>" if "<input>" in body else "<output>"
        return body.replace(first_port, mark + first_port, 1)

    return re.sub(r'<layer id="\d+" name="([^"]*)" type="([^"]*)".*?</layer>', marked, xml, flags=re.DOTALL)


def _text(info: object, key: str) -> str:
    return info[key].astype(str) if key in info else ""


def _executed_nodes(model: "ov.Model") -> list[ExecutedNode]:
    operations = list(model.get_ordered_ops())
    index = {op.friendly_name: i for i, op in enumerate(operations)}
    nodes: list[ExecutedNode] = []
    for op in operations:
        info = op.get_rt_info()
        sources = [index[value.get_source_output().get_node().friendly_name] for value in op.inputs()]
        node = ExecutedNode(
            name=op.friendly_name,
            kind=_text(info, "layerType"),
            precision=_text(info, "runtimePrecision"),
            primitive=_text(info, "primitiveType"),
            originals=[part for part in _text(info, "originalLayersNames").split(",") if part],
            inputs=sources,
            output_shapes=[bounds_of(value.partial_shape) for value in op.outputs()],
            output_types=_text(info, "outputPrecisions").split(","),
            layouts=_text(info, "outputLayouts"),
        )
        node.from_input = node.kind == "Input" or any(nodes[i].from_input for i in sources if i < len(nodes))
        node.weights = [
            (nodes[i].precision, [high for _, high in nodes[i].output_shapes[0]])
            for i in sources
            if i < len(nodes) and not nodes[i].from_input
        ]
        nodes.append(node)
    return nodes


def _by_name(ports: "Sequence[ov.ConstOutput]") -> "dict[str, ov.ConstOutput]":
    """Return inputs or outputs by their names in the ONNX model: a tensor that is both has all names, a node one."""
    return {port.get_node().get_friendly_name().removesuffix(SINK): port for port in ports}
