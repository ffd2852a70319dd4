"""TensorRT's names, as `import tensorrt as trt` gives them."""

# ruff: noqa: F822 - the builder's names are imported when they are first used

import functools
from typing import Any, ClassVar

from trtcpu import _openvino
from trtcpu.api.enums import (
    BuilderFlag,
    CalibrationAlgoType,
    DataType,
    DeviceType,
    EngineCapability,
    ErrorCode,
    ExecutionContextAllocationStrategy,
    HardwareCompatibilityLevel,
    LayerInformationFormat,
    LayerType,
    MemoryPoolType,
    NetworkDefinitionCreationFlag,
    OnnxParserFlag,
    PreviewFeature,
    ProfilingVerbosity,
    QuantizationFlag,
    TacticSource,
    TempfileControlFlag,
    TensorFormat,
    TensorIOMode,
    TensorLocation,
)
from trtcpu.api.logger import ILogger, Logger
from trtcpu.api.manifest import complete, load_manifest, missing_name
from trtcpu.api.pybind import Declared, Overridable, to_override
from trtcpu.api.types import Dims, Dims2, Dims3, Dims4, Permutation, Weights, nptype, volume
from trtcpu.api.version import API
from trtcpu.calibration.calibrators import (
    IInt8Calibrator,
    IInt8EntropyCalibrator,
    IInt8EntropyCalibrator2,
    IInt8LegacyCalibrator,
    IInt8MinMaxCalibrator,
)
from trtcpu.plan import VERSION as __version__
from trtcpu.plan import IHostMemory
from trtcpu.runtime.context import IExecutionContext
from trtcpu.runtime.engine import ICudaEngine
from trtcpu.runtime.inspector import EngineInspector
from trtcpu.runtime.outputs import IOutputAllocator
from trtcpu.runtime.profiler import IProfiler, Profiler
from trtcpu.runtime.runtime import Runtime

__all__ = [
    "Builder",
    "BuilderFlag",
    "CalibrationAlgoType",
    "DataType",
    "DeviceType",
    "Dims",
    "Dims2",
    "Dims3",
    "Dims4",
    "EngineCapability",
    "EngineInspector",
    "ErrorCode",
    "ExecutionContextAllocationStrategy",
    "HardwareCompatibilityLevel",
    "IBuilderConfig",
    "ICudaEngine",
    "IExecutionContext",
    "IHostMemory",
    "IInt8Calibrator",
    "IInt8EntropyCalibrator",
    "IInt8EntropyCalibrator2",
    "IInt8LegacyCalibrator",
    "IInt8MinMaxCalibrator",
    "ILayer",
    "ILogger",
    "INetworkDefinition",
    "IOptimizationProfile",
    "IOutputAllocator",
    "IPluginRegistry",
    "IProfiler",
    "IProgressMonitor",
    "IStreamWriter",
    "ITensor",
    "ITimingCache",
    "LayerInformationFormat",
    "LayerType",
    "Logger",
    "MemoryPoolType",
    "NetworkDefinitionCreationFlag",
    "OnnxParser",
    "OnnxParserFlag",
    "ParserError",
    "Permutation",
    "PreviewFeature",
    "Profiler",
    "ProfilingVerbosity",
    "QuantizationFlag",
    "Runtime",
    "TacticSource",
    "TempfileControlFlag",
    "TensorFormat",
    "TensorIOMode",
    "TensorLocation",
    "Weights",
    "__version__",
    "bfloat16",
    "device_description",
    "e8m0",
    "float16",
    "float32",
    "fp4",
    "fp8",
    "get_nv_onnx_parser_version",
    "get_plugin_registry",
    "half_precision",
    "init_libnvinfer_plugins",
    "int4",
    "int8",
    "int32",
    "int64",
    "nptype",
    "uint8",
    "volume",
]

float32, float16, bfloat16 = DataType.FLOAT, DataType.HALF, DataType.BF16
int8, uint8, int32, int64, int4 = DataType.INT8, DataType.UINT8, DataType.INT32, DataType.INT64, DataType.INT4
fp8, fp4, e8m0 = DataType.FP8, DataType.FP4, DataType.E8M0


def init_libnvinfer_plugins(logger: ILogger | None, namespace: str) -> bool:
    """Return True: the CPU engine has no plugin library to load."""
    return True


class IPluginRegistry(Declared):
    """The plugins that are known: none."""

    __slots__ = ()
    all_creators: ClassVar[list[object]] = []

    def get_creator(self, type: str, version: str, plugin_namespace: str = "") -> None:
        return None


if not API.strongly_typed:  # names that TensorRT 11 lacks
    IPluginRegistry.plugin_creator_list, IPluginRegistry.get_plugin_creator = [], IPluginRegistry.get_creator


def get_plugin_registry() -> IPluginRegistry:
    """Return an empty registry: the CPU engine has no plugins."""
    return IPluginRegistry()


class IStreamWriter(Overridable):
    """Base of what an engine is written to, piece by piece."""

    __slots__ = ()

    @to_override
    def write(self, data: bytes) -> int:
        """Return how many bytes were written."""


def get_nv_onnx_parser_version() -> int:
    """Return the version of the parser whose behaviour is followed, as TensorRT counts: 101600 for 10.16."""
    return API.parser


def device_description() -> str:
    """Return how every table and plot names this engine: `CPU engine, OpenVINO 2026.4.1, AMD EPYC (VNNI, BF16)`."""
    return f"CPU engine, OpenVINO {_openvino.version()}, {_openvino.cpu_name()} ({_openvino.features()})"


def half_precision(asked: str = "FP16") -> str:
    """Return what layers that the flag `asked` ("FP16", "BF16") frees compute in here: "FP16", "BF16" or "FP32"."""
    return _openvino.half_precision(asked)


@functools.cache
def _kind_of_layer(name: str) -> type:
    """Return the class of one kind of layer; `layer.__class__ = trt.IConvolutionLayer` is how code asks for it."""
    from trtcpu.builder import ILayer

    return type(name, (ILayer,), {"__slots__": ()})


def __getattr__(name: str) -> Any:
    if name == "bool":
        return DataType.BOOL
    if name.endswith("Layer") and name in load_manifest()["outside"]:
        return _kind_of_layer(name)
    if name not in __all__:
        raise missing_name(name)
    from trtcpu import builder  # not before it is used: it brings onnx along

    return getattr(builder, name)


def __dir__() -> list[str]:
    return __all__


complete(globals())
