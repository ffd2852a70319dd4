"""Deserialized engines: `ICudaEngine`."""

from trtcpu.api.enums import (
    DataType,
    ExecutionContextAllocationStrategy,
    ProfilingVerbosity,
    TensorFormat,
    TensorIOMode,
    TensorLocation,
)
from trtcpu.api.logger import ILogger
from trtcpu.api.manifest import unsupported
from trtcpu.api.pybind import Scoped
from trtcpu.api.types import Dims
from trtcpu.plan import IHostMemory, Plan
from trtcpu.runtime.context import IExecutionContext
from trtcpu.runtime.inspector import EngineInspector
from trtcpu.runtime.layers import activation_bytes
from trtcpu.runtime.loaded import LoadedPlan


class ICudaEngine(Scoped):
    """A deserialized engine. It may serve several contexts."""

    __slots__ = ("_data", "_loaded", "error_recorder", "logger")
    has_implicit_batch_dimension = refittable = False
    num_aux_streams = 0

    def __init__(self, plan: Plan, data: bytes, logger: ILogger) -> None:
        self._data, self.logger = data, logger
        self._loaded = LoadedPlan(plan, logger)
        self.error_recorder: object | None = None

    @property
    def name(self) -> str:
        return self._loaded.plan.network

    @property
    def num_io_tensors(self) -> int:
        return len(self._loaded.plan.bindings)

    @property
    def num_layers(self) -> int:
        return len(self._loaded.layers)

    @property
    def num_optimization_profiles(self) -> int:
        return len(self._loaded.plan.profiles)

    @property
    def profiling_verbosity(self) -> ProfilingVerbosity:
        return self._loaded.verbosity

    @property
    def device_memory_size_v2(self) -> int:
        """Bytes that a context's activations take at the largest shapes, counting what is alive at the same time."""
        return activation_bytes(self._loaded.compiled.nodes())

    device_memory_size = device_memory_size_v2

    def get_device_memory_size_for_profile_v2(self, profile_index: int) -> int:
        return self.device_memory_size_v2

    get_device_memory_size_for_profile = get_device_memory_size_for_profile_v2

    def get_tensor_name(self, index: int) -> str | None:
        if not 0 <= index < self.num_io_tensors:
            self._loaded.logger.log(ILogger.ERROR, f"Tensor index {index} is not in 0..{self.num_io_tensors - 1}")
            return None
        return self._loaded.plan.bindings[index].name

    def __getitem__(self, index: int) -> str:
        return self._loaded.plan.bindings[index].name

    def get_tensor_mode(self, name: str) -> TensorIOMode:
        binding = self._loaded.binding(name)
        if binding is None:
            return TensorIOMode.NONE
        return TensorIOMode.INPUT if binding.is_input else TensorIOMode.OUTPUT

    def get_tensor_shape(self, name: str) -> Dims:
        binding = self._loaded.binding(name)
        return Dims(None) if binding is None else Dims(-1 if isinstance(d, list) else d for d in binding.shape)

    def get_tensor_dtype(self, name: str) -> DataType:
        binding = self._loaded.binding(name)
        return DataType.FLOAT if binding is None else binding.data_type

    def get_tensor_location(self, name: str) -> TensorLocation:
        return TensorLocation.DEVICE

    def get_tensor_format(self, name: str, profile_index: int = 0) -> TensorFormat:
        return TensorFormat.LINEAR

    def get_tensor_format_desc(self, name: str, profile_index: int = 0) -> str:
        return "Row major linear FP32 format (kLINEAR)" if self._loaded.binding(name) else ""

    def get_tensor_bytes_per_component(self, name: str, profile_index: int = 0) -> int:
        return int(self.get_tensor_dtype(name).itemsize)

    def get_tensor_components_per_element(self, name: str, profile_index: int = 0) -> int:
        return 1

    def get_tensor_vectorized_dim(self, name: str, profile_index: int = 0) -> int:
        return -1

    def is_shape_inference_io(self, name: str) -> bool:
        return name in self._loaded.plan.shape_inputs

    def get_tensor_profile_shape(self, name: str, profile_index: int) -> list[Dims]:
        """Return an input's [min, opt, max] shapes; empty for an output or a profile that does not exist."""
        binding = self._loaded.binding(name)
        if binding is None or not binding.is_input or not 0 <= profile_index < len(self._loaded.plan.profiles):
            return []
        return [Dims(shape) for shape in self._loaded.plan.profiles[profile_index][name]]

    def serialize(self) -> IHostMemory:
        return IHostMemory(self._data)

    def create_execution_context(
        self, strategy: ExecutionContextAllocationStrategy = ExecutionContextAllocationStrategy.STATIC
    ) -> IExecutionContext:
        if strategy == ExecutionContextAllocationStrategy.USER_MANAGED:
            raise unsupported("contexts whose activation memory the caller gives (USER_MANAGED)")
        return IExecutionContext(self, self._loaded)

    def create_engine_inspector(self) -> EngineInspector:
        return EngineInspector(self._loaded)
