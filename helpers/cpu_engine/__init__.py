"""TensorRT's Python API on OpenVINO: the engine of machines without an NVIDIA GPU.

Code written for TensorRT 10.x, or with TRT_LAB_API=11 for 11.x, runs unchanged: parse ONNX, build FP32/FP16/BF16/INT8
engines with optimization profiles and calibrators, serialize, deserialize, execute on streams, inspect and profile. It
is a real optimising engine, with fused layers and real half-precision and INT8 kernels, on the processor; its numbers
are a CPU's and are labelled so.

What it does not do raises `UnsupportedError` by name: networks built layer by layer (`add_*`), plugins, loops,
refitting, FP8 and INT4, DLA, output allocators. Without effect, but kept and readable: workspace and other memory
pools, tactic sources, averaging, optimisation level. docs/cpu-engine.md lists every difference that is known.

Read it from the ground up; a room imports only rooms that stand above it in this list:

    api/           TensorRT's vocabulary: enumerations, shapes, loggers, the manifest of all its names
    _openvino.py   the one file that imports openvino: compile, export, import, infer, list what runs
    _export.py     the bytes of what it has exported, read without it: weights by type, the network without names
    plan.py        the serialized engine: what a build writes and a runtime reads
    device/        memory by checked address, streams and events
    cuda.py        pycuda.driver's names for them
    runtime/       a plan loaded, run in contexts alone or at once, inspected and profiled
    calibration/   from batches of images to the scale of every tensor
    builder/       a model parsed, configured, quantised and compiled into a plan
"""

from typing import Any

from helpers.cpu_engine import _openvino
from helpers.cpu_engine.api.enums import (
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
from helpers.cpu_engine.api.logger import ILogger, Logger
from helpers.cpu_engine.api.manifest import complete, missing_name
from helpers.cpu_engine.api.types import Dims, Dims2, Dims3, Dims4, nptype, volume
from helpers.cpu_engine.api.version import API
from helpers.cpu_engine.calibration.calibrators import (
    IInt8Calibrator,
    IInt8EntropyCalibrator,
    IInt8EntropyCalibrator2,
    IInt8LegacyCalibrator,
    IInt8MinMaxCalibrator,
)
from helpers.cpu_engine.plan import VERSION as __version__
from helpers.cpu_engine.plan import IHostMemory
from helpers.cpu_engine.runtime.context import IExecutionContext
from helpers.cpu_engine.runtime.engine import ICudaEngine
from helpers.cpu_engine.runtime.inspector import EngineInspector
from helpers.cpu_engine.runtime.profiler import IProfiler, Profiler
from helpers.cpu_engine.runtime.runtime import Runtime

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
    "IProfiler",
    "IProgressMonitor",
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
    "__version__",
    "bfloat16",
    "device_description",
    "e8m0",
    "float16",
    "float32",
    "fp4",
    "fp8",
    "get_nv_onnx_parser_version",
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


def get_nv_onnx_parser_version() -> int:
    """Return the version of the parser whose behaviour is followed, as TensorRT counts: 101600 for 10.16."""
    return API.parser


def device_description() -> str:
    """Return how every table and plot names this engine: `CPU engine, OpenVINO 2026.4.1, AMD EPYC (VNNI, BF16)`."""
    return f"CPU engine, OpenVINO {_openvino.version()}, {_openvino.cpu_name()} ({_openvino.features()})"


def half_precision(asked: str = "FP16") -> str:
    """Return what layers that the flag `asked` ("FP16", "BF16") frees compute in here: "FP16", "BF16" or "FP32"."""
    return _openvino.half_precision(asked)


def __getattr__(name: str) -> Any:
    if name == "bool":
        return DataType.BOOL
    if name not in __all__:
        raise missing_name(name)
    from helpers.cpu_engine import builder  # not before it is used: it brings onnx along

    return getattr(builder, name)


def __dir__() -> list[str]:
    return __all__


complete(globals())
