"""Enumerations, with the names and values of TensorRT 10.16's Python bindings."""

import enum
from typing import NoReturn

__all__ = [
    "BuilderFlag",
    "CalibrationAlgoType",
    "DataType",
    "DeviceType",
    "EngineCapability",
    "ExecutionContextAllocationStrategy",
    "HardwareCompatibilityLevel",
    "LayerInformationFormat",
    "LayerType",
    "MemoryPoolType",
    "NetworkDefinitionCreationFlag",
    "OnnxParserFlag",
    "PreviewFeature",
    "ProfilingVerbosity",
    "QuantizationFlag",
    "TacticSource",
    "TempfileControlFlag",
    "TensorFormat",
    "TensorIOMode",
    "TensorLocation",
]


class _PybindEnum(enum.EnumMeta):
    """pybind11's enums are neither iterated nor indexed: their members are in `__members__`."""

    def __getitem__(cls, name: str) -> NoReturn:
        raise TypeError(f"'{cls.__name__}' is not subscriptable in TensorRT; use {cls.__name__}.__members__[{name!r}]")

    def __iter__(cls) -> NoReturn:
        raise TypeError(f"'{cls.__name__}' is not iterable in TensorRT; use {cls.__name__}.__members__.values()")


class _TrtEnum(enum.Enum, metaclass=_PybindEnum):
    """A pybind11 enum: converts to int, never equals one."""

    def __int__(self) -> int:
        return int(self.value)

    __index__ = __int__

    def __repr__(self) -> str:
        return f"<{type(self).__name__}.{self.name}: {self.value}>"


class BuilderFlag(_TrtEnum):
    """What a build may do; a config starts with TF32 set."""

    FP16 = 0
    INT8 = 1
    DEBUG = 2
    GPU_FALLBACK = 3
    REFIT = 4
    DISABLE_TIMING_CACHE = 5
    TF32 = 6
    SPARSE_WEIGHTS = 7
    SAFETY_SCOPE = 8
    OBEY_PRECISION_CONSTRAINTS = 9
    PREFER_PRECISION_CONSTRAINTS = 10
    DIRECT_IO = 11
    REJECT_EMPTY_ALGORITHMS = 12
    VERSION_COMPATIBLE = 13
    EXCLUDE_LEAN_RUNTIME = 14
    FP8 = 15
    ERROR_ON_TIMING_CACHE_MISS = 16
    BF16 = 17
    DISABLE_COMPILATION_CACHE = 18
    STRIP_PLAN = 19
    WEIGHTLESS = 19
    REFIT_IDENTICAL = 20
    WEIGHT_STREAMING = 21
    INT4 = 22
    REFIT_INDIVIDUAL = 23
    STRICT_NANS = 24
    MONITOR_MEMORY = 25
    FP4 = 26
    EDITABLE_TIMING_CACHE = 27
    DISTRIBUTIVE_INDEPENDENCE = 28


class CalibrationAlgoType(_TrtEnum):
    """How scales are chosen from the activations seen."""

    LEGACY_CALIBRATION = 0
    ENTROPY_CALIBRATION = 1
    ENTROPY_CALIBRATION_2 = 2
    MINMAX_CALIBRATION = 3


class DataType(_TrtEnum):
    """Element types. `itemsize` is in bytes (a fraction for INT4 and FP4)."""

    FLOAT = 0
    HALF = 1
    INT8 = 2
    INT32 = 3
    BOOL = 4
    UINT8 = 5
    FP8 = 6
    BF16 = 7
    INT64 = 8
    INT4 = 9
    FP4 = 10
    E8M0 = 11

    @property
    def itemsize(self) -> float:
        return _ITEM_BYTES[self]


class DeviceType(_TrtEnum):
    GPU = 0
    DLA = 1


class EngineCapability(_TrtEnum):
    STANDARD = 0
    SAFETY = 1
    DLA_STANDALONE = 2


class ExecutionContextAllocationStrategy(_TrtEnum):
    STATIC = 0
    ON_PROFILE_CHANGE = 1
    USER_MANAGED = 2


class HardwareCompatibilityLevel(_TrtEnum):
    NONE = 0
    AMPERE_PLUS = 1
    SAME_COMPUTE_CAPABILITY = 2


class LayerInformationFormat(_TrtEnum):
    ONELINE = 0
    JSON = 1


class LayerType(_TrtEnum):
    """Kinds of layers in a network, as TensorRT's parser makes them."""

    CONVOLUTION = 0
    CAST = 1
    ACTIVATION = 2
    POOLING = 3
    LRN = 4
    SCALE = 5
    SOFTMAX = 6
    DECONVOLUTION = 7
    CONCATENATION = 8
    ELEMENTWISE = 9
    PLUGIN = 10
    UNARY = 11
    PADDING = 12
    SHUFFLE = 13
    REDUCE = 14
    TOPK = 15
    GATHER = 16
    MATRIX_MULTIPLY = 17
    RAGGED_SOFTMAX = 18
    CONSTANT = 19
    IDENTITY = 20
    PLUGIN_V2 = 21
    SLICE = 22
    SHAPE = 23
    PARAMETRIC_RELU = 24
    RESIZE = 25
    TRIP_LIMIT = 26
    RECURRENCE = 27
    ITERATOR = 28
    LOOP_OUTPUT = 29
    SELECT = 30
    FILL = 31
    QUANTIZE = 32
    DEQUANTIZE = 33
    CONDITION = 34
    CONDITIONAL_INPUT = 35
    CONDITIONAL_OUTPUT = 36
    SCATTER = 37
    EINSUM = 38
    ASSERTION = 39
    ONE_HOT = 40
    NON_ZERO = 41
    GRID_SAMPLE = 42
    NMS = 43
    REVERSE_SEQUENCE = 44
    NORMALIZATION = 45
    PLUGIN_V3 = 46
    SQUEEZE = 47
    UNSQUEEZE = 48
    CUMULATIVE = 49
    DYNAMIC_QUANTIZE = 50
    ATTENTION_INPUT = 51
    ATTENTION_OUTPUT = 52
    ROTARY_EMBEDDING = 53
    KV_CACHE_UPDATE = 54
    MOE = 55
    DIST_COLLECTIVE = 56


class MemoryPoolType(_TrtEnum):
    WORKSPACE = 0
    DLA_MANAGED_SRAM = 1
    DLA_LOCAL_DRAM = 2
    DLA_GLOBAL_DRAM = 3
    TACTIC_DRAM = 4
    TACTIC_SHARED_MEMORY = 5


class NetworkDefinitionCreationFlag(_TrtEnum):
    EXPLICIT_BATCH = 0
    STRONGLY_TYPED = 1
    PREFER_JIT_PYTHON_PLUGINS = 2
    PREFER_AOT_PYTHON_PLUGINS = 3


class OnnxParserFlag(_TrtEnum):
    NATIVE_INSTANCENORM = 0
    ENABLE_UINT8_AND_ASYMMETRIC_QUANTIZATION_DLA = 1
    REPORT_CAPABILITY_DLA = 2
    ENABLE_PLUGIN_OVERRIDE = 3
    ADJUST_FOR_DLA = 4


class PreviewFeature(_TrtEnum):
    PROFILE_SHARING_0806 = 0
    ALIASED_PLUGIN_IO_10_03 = 1
    RUNTIME_ACTIVATION_RESIZE_10_10 = 2
    MULTIDEVICE_RUNTIME_10_16 = 3


class ProfilingVerbosity(_TrtEnum):
    LAYER_NAMES_ONLY = 0
    NONE = 1
    DETAILED = 2


class QuantizationFlag(_TrtEnum):
    CALIBRATE_BEFORE_FUSION = 0


class TacticSource(_TrtEnum):
    CUBLAS = 0
    CUBLAS_LT = 1
    CUDNN = 2
    EDGE_MASK_CONVOLUTIONS = 3
    JIT_CONVOLUTIONS = 4


class TempfileControlFlag(_TrtEnum):
    ALLOW_IN_MEMORY_FILES = 0
    ALLOW_TEMPORARY_FILES = 1


class TensorFormat(_TrtEnum):
    LINEAR = 0
    CHW2 = 1
    HWC8 = 2
    CHW4 = 3
    CHW16 = 4
    CHW32 = 5
    DHWC8 = 6
    CDHW32 = 7
    HWC = 8
    DLA_LINEAR = 9
    DLA_HWC4 = 10
    HWC16 = 11
    DHWC = 12


class TensorIOMode(_TrtEnum):
    NONE = 0
    INPUT = 1
    OUTPUT = 2


class TensorLocation(_TrtEnum):
    DEVICE = 0
    HOST = 1


_ITEM_BYTES = {
    DataType.FLOAT: 4,
    DataType.HALF: 2,
    DataType.INT8: 1,
    DataType.INT32: 4,
    DataType.BOOL: 1,
    DataType.UINT8: 1,
    DataType.FP8: 1,
    DataType.BF16: 2,
    DataType.INT64: 8,
    DataType.INT4: 0.5,
    DataType.FP4: 0.5,
    DataType.E8M0: 1,
}
