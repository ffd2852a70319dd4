"""A plan in memory: what an engine, its contexts and its inspectors share. No name of it is TensorRT's."""

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any

from trtcpu import _openvino
from trtcpu.api.enums import DataType, ProfilingVerbosity
from trtcpu.api.logger import ILogger
from trtcpu.plan import Binding, Plan, PlanError
from trtcpu.runtime.layers import Layer, layers_of
from trtcpu.runtime.requests import Requests

Bounds = list[tuple[int, int]]  # smallest and largest size of each dimension
_ELEMENTS = {
    DataType.FLOAT: "f32",
    DataType.HALF: "f16",
    DataType.BF16: "bf16",
    DataType.INT8: "i8",
    DataType.UINT8: "u8",
    DataType.INT32: "i32",
    DataType.INT64: "i64",
    DataType.BOOL: "boolean",
}


class LoadedPlan:
    """A plan with its compiled model.

    Attributes:
        bindings: its inputs and outputs by name.
        inputs, read, outputs: its inputs, those of them that something reads, and its outputs, in order.
        by_values: the outputs whose shapes depend on the inputs' values.
        requests: what its contexts run on.
    """

    def __init__(self, plan: Plan, logger: ILogger) -> None:
        """Load the compiled model.

        Raises:
            RuntimeError: OpenVINO cannot load it.
            PlanError: it is not the model that the plan's header describes.
        """
        self.plan, self.logger = plan, logger
        self.compiled = _openvino.import_model(plan.blob, plan.hint)
        self.requests = Requests(self.compiled, partial(_openvino.import_model, plan.blob, plan.hint))
        check_ports(plan, self.compiled.ports)
        self.bindings = {binding.name: binding for binding in plan.bindings}
        self.inputs = [binding for binding in plan.bindings if binding.is_input]
        self.read = [binding for binding in self.inputs if binding.name not in plan.unused]
        self.outputs = [binding for binding in plan.bindings if not binding.is_input]
        self.by_values = [binding for binding in self.outputs if binding.name in plan.by_values]
        sizes = {port.name: port.bounds for port in self.compiled.ports if port.is_input}
        for port in self.compiled.ports:
            if not port.is_input:
                binding = self.bindings[port.name]
                binding.shape = _merged(binding.shape, port.bounds, sizes)

    @cached_property
    def profiling(self) -> _openvino.Compiled:
        """The same model with per-node times, loaded when a profiler is first attached."""
        return _openvino.import_model(self.plan.blob, self.plan.hint, profiling=True)

    @cached_property
    def layers(self) -> list[Layer]:
        """The fused layers, in the order of execution."""
        return layers_of(self.compiled.nodes(), self.plan)

    @property
    def verbosity(self) -> ProfilingVerbosity:
        """How much of its layers the engine was built to tell."""
        return ProfilingVerbosity.__members__[self.plan.verbosity]

    def binding(self, name: str) -> Binding | None:
        """Return an input or output, or None after logging which there are; raise TypeError if no name is given."""
        if not isinstance(name, str):
            raise TypeError(f"incompatible function arguments: a tensor's name is a str, not {name!r}")
        binding = self.bindings.get(name)
        if binding is None:
            known = ", ".join(self.bindings)
            self.logger.log(ILogger.ERROR, f"Given invalid tensor name: {name}. The engine's I/O tensors are: {known}")
        return binding


def check_ports(plan: Plan, ports: Sequence[_openvino.Port]) -> None:
    """Accept a plan whose header describes the inputs and outputs of its compiled model.

    Raises:
        PlanError: a name, a type, a number of dimensions or a profile does not fit the compiled model.
    """
    by_name = {(port.is_input, port.name): port for port in ports}
    bindings = [binding for binding in plan.bindings if binding.name not in plan.unused]
    for name in (port.name for port in ports if port.is_input):
        if not any(binding.is_input and binding.name == name for binding in bindings):
            raise PlanError(f"the plan's header does not name the compiled model's input {name!r}; build it again")
    for binding in bindings:
        port = by_name.get((binding.is_input, binding.name))
        problem = "it has none of that name" if port is None else _mismatch(binding, port, plan.profiles)
        if problem:
            kind = "input" if binding.is_input else "output"
            wrong = f"{kind} {binding.name!r}: {problem}"
            raise PlanError(f"the plan's header does not fit its compiled model: {wrong}; build it again")


def _mismatch(binding: Binding, port: _openvino.Port, profiles: list[dict[str, list[list[int]]]]) -> str:
    """Return how a binding differs from the compiled model's port, or nothing."""
    if _ELEMENTS.get(binding.data_type) != port.element:
        return f"{binding.dtype} in the header, {port.element} in the model"
    if binding.shape and port.bounds and len(binding.shape) != len(port.bounds):
        return f"{len(binding.shape)} dimensions in the header, {len(port.bounds)} in the model"
    shapes = [shape for profile in profiles for shape in profile[binding.name]] if binding.is_input else []
    if not all(_within(shape, port.bounds) for shape in shapes):
        return f"a profile in the header is wider than the model, which takes {port.bounds}"
    return ""


def _within(shape: list[int], bounds: list[tuple[int, int]]) -> bool:
    sized = zip(shape, bounds, strict=False)
    return all(low <= size and (high < 0 or size <= high) for size, (low, high) in sized)


def _merged(planned: list[Any], compiled: Bounds, inputs: Mapping[str, Bounds]) -> list[Any]:
    """Take the sizes that OpenVINO fixed; keep the plan's for those that follow an input, unless it knows better.

    ONNX's own inference lets every size of a Slice of opset 10 follow its input's.
    """
    if len(planned) != len(compiled):
        return [low if low == high else -1 for low, high in compiled]
    return [_size(*pair, inputs) for pair in zip(planned, compiled, strict=True)]


def _size(planned: Any, compiled: tuple[int, int], inputs: Mapping[str, Bounds]) -> Any:
    low, high = compiled
    if low == high:
        return low
    if isinstance(planned, list) and high >= 0:
        name, axis = planned
        return planned if name not in inputs or inputs[name][axis] == compiled else -1
    return planned
