"""Deserialized engines: `ICudaEngine`."""

from typing import TYPE_CHECKING, Any

from helpers.cpu_engine import _openvino, inspector
from helpers.cpu_engine._bindings import Scoped
from helpers.cpu_engine.builder import IHostMemory
from helpers.cpu_engine.enums import (
    DataType,
    ExecutionContextAllocationStrategy,
    ProfilingVerbosity,
    TensorFormat,
    TensorIOMode,
    TensorLocation,
)
from helpers.cpu_engine.logger import ILogger, unsupported
from helpers.cpu_engine.plan import Binding, Plan
from helpers.cpu_engine.types import Dims

if TYPE_CHECKING:
    from helpers.cpu_engine.context import IExecutionContext

__all__ = ["ICudaEngine"]


class ICudaEngine(Scoped):
    """A deserialized engine. It may serve several contexts."""

    def __init__(self, plan: Plan, data: bytes, logger: ILogger) -> None:
        self._plan, self._data, self.logger = plan, data, logger
        self._compiled = _openvino.import_model(plan.blob, plan.hint)
        self._profiling: _openvino.Compiled | None = None
        self._bindings = {binding.name: binding for binding in plan.bindings}
        self._layers: list[inspector.Layer] | None = None
        self.error_recorder = None
        for name, shape in self._compiled.output_shapes.items():
            if name in self._bindings:
                self._bindings[name].shape = _merged(self._bindings[name].shape, shape)

    @property
    def plan(self) -> Plan:
        """What the engine was built from (not part of TensorRT's API)."""
        return self._plan

    @property
    def compiled(self) -> _openvino.Compiled:
        return self._compiled

    @property
    def profiling_compiled(self) -> _openvino.Compiled:
        """The same model with per-node times, loaded when a profiler is first attached."""
        if self._profiling is None:
            self._profiling = _openvino.import_model(self._plan.blob, self._plan.hint, profiling=True)
        return self._profiling

    @property
    def layers(self) -> list[inspector.Layer]:
        if self._layers is None:
            self._layers = inspector.layers_of(self._compiled.nodes(), self._plan)
        return self._layers

    @property
    def name(self) -> str:
        return self._plan.network

    @property
    def num_io_tensors(self) -> int:
        return len(self._plan.bindings)

    @property
    def num_layers(self) -> int:
        return len(self.layers)

    @property
    def num_optimization_profiles(self) -> int:
        return len(self._plan.profiles)

    @property
    def has_implicit_batch_dimension(self) -> bool:
        return False

    @property
    def refittable(self) -> bool:
        return False

    @property
    def num_aux_streams(self) -> int:
        return 0

    @property
    def profiling_verbosity(self) -> ProfilingVerbosity:
        return ProfilingVerbosity.__members__[self._plan.verbosity]

    @property
    def device_memory_size(self) -> int:
        """Bytes that a context's activations take at the largest shapes, counting what is alive at the same time."""
        return inspector.activation_bytes(self._compiled.nodes())

    @property
    def device_memory_size_v2(self) -> int:
        return self.device_memory_size

    def get_device_memory_size_for_profile(self, profile_index: int) -> int:
        return self.device_memory_size

    get_device_memory_size_for_profile_v2 = get_device_memory_size_for_profile

    def get_tensor_name(self, index: int) -> str:
        return self._plan.bindings[index].name

    def __getitem__(self, index: int) -> str:
        return self.get_tensor_name(index)

    def _binding(self, name: str) -> Binding | None:
        binding = self._bindings.get(name)
        if binding is None:
            known = ", ".join(self._bindings)
            self.logger.log(ILogger.ERROR, f"Given invalid tensor name: {name}. The engine's I/O tensors are: {known}")
        return binding

    def get_tensor_mode(self, name: str) -> TensorIOMode:
        binding = self._binding(name)
        if binding is None:
            return TensorIOMode.NONE
        return TensorIOMode.INPUT if binding.is_input else TensorIOMode.OUTPUT

    def get_tensor_shape(self, name: str) -> Dims:
        binding = self._binding(name)
        return Dims(None) if binding is None else Dims(-1 if isinstance(d, list) else d for d in binding.shape)

    def get_tensor_dtype(self, name: str) -> DataType:
        binding = self._binding(name)
        return DataType.FLOAT if binding is None else DataType.__members__[binding.dtype]

    def get_tensor_location(self, name: str) -> TensorLocation:
        return TensorLocation.DEVICE

    def get_tensor_format(self, name: str, profile_index: int = 0) -> TensorFormat:
        return TensorFormat.LINEAR

    def get_tensor_format_desc(self, name: str, profile_index: int = 0) -> str:
        return "Row major linear FP32 format (kLINEAR)" if self._binding(name) else ""

    def get_tensor_bytes_per_component(self, name: str, profile_index: int = 0) -> int:
        return int(self.get_tensor_dtype(name).itemsize)

    def get_tensor_components_per_element(self, name: str, profile_index: int = 0) -> int:
        return 1

    def get_tensor_vectorized_dim(self, name: str, profile_index: int = 0) -> int:
        return -1

    def is_shape_inference_io(self, name: str) -> bool:
        return False

    def get_tensor_profile_shape(self, name: str, profile_index: int) -> list[Dims]:
        """Return an input's [min, opt, max] shapes; empty for an output or a profile that does not exist."""
        binding = self._binding(name)
        if binding is None or not binding.is_input or not 0 <= profile_index < len(self._plan.profiles):
            return []
        return [Dims(shape) for shape in self._plan.profiles[profile_index][name]]

    def serialize(self) -> IHostMemory:
        return IHostMemory(self._data)

    def create_execution_context(
        self, strategy: ExecutionContextAllocationStrategy = ExecutionContextAllocationStrategy.STATIC
    ) -> "IExecutionContext":
        if strategy == ExecutionContextAllocationStrategy.USER_MANAGED:
            raise unsupported("contexts whose activation memory the caller gives (USER_MANAGED)")
        from helpers.cpu_engine.context import IExecutionContext

        return IExecutionContext(self)

    def create_engine_inspector(self) -> inspector.EngineInspector:
        return inspector.EngineInspector(self)


def _merged(planned: list[Any], compiled: list[int]) -> list[Any]:
    """Take the sizes that OpenVINO fixed; keep the plan's where they follow an input."""
    if len(planned) != len(compiled):
        return list(compiled)
    return [c if c >= 0 else p for p, c in zip(planned, compiled, strict=True)]
