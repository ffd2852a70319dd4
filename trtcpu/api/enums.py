"""Enumerations, with the names and values of TensorRT's Python bindings, which the manifest lists."""

import enum
from typing import NoReturn

from trtcpu.api.manifest import listed_anywhere, missing_member


class _PybindEnum(enum.EnumMeta):
    """pybind11's enums are neither iterated nor indexed: their members are in `__members__`."""

    def __getitem__(cls, name: str) -> NoReturn:
        raise TypeError(f"'{cls.__name__}' is not subscriptable in TensorRT; use {cls.__name__}.__members__[{name!r}]")

    def __iter__(cls) -> NoReturn:
        raise TypeError(f"'{cls.__name__}' is not iterable in TensorRT; use {cls.__name__}.__members__.values()")

    def __getattr__(cls, name: str) -> enum.Enum:
        members = cls.__dict__.get("_member_map_", {})  # Python up to 3.11 finds a member here
        if name in members and not name.startswith("_"):
            return members[name]
        raise missing_member(cls.__name__, name)


class _TrtEnum(enum.Enum, metaclass=_PybindEnum):
    """A pybind11 enum: converts to int, never equals one."""

    def __int__(self) -> int:
        return int(self.value)

    __index__ = __int__

    def __repr__(self) -> str:
        return f"<{type(self).__name__}.{self.name}: {self.value}>"


class _SizedEnum(_TrtEnum):
    @property
    def itemsize(self) -> float:
        """Bytes of an element; a fraction for INT4 and FP4."""
        return _ITEM_BYTES.get(self.name, 1)


def _listed(name: str, kind: type[_TrtEnum] = _TrtEnum) -> type[_TrtEnum]:
    """Return the enumeration that the manifest lists under `name`, its members in the order of their values."""
    members = listed_anywhere(name)["members"].items()
    values = sorted(((member, entry["value"]) for member, entry in members), key=lambda pair: pair[1])
    return kind(name, values, module=__name__)


BuilderFlag = _listed("BuilderFlag")  # what a build may do; a config starts with TF32 set
CalibrationAlgoType = _listed("CalibrationAlgoType")  # how scales are chosen from the activations seen
DataType = _listed("DataType", _SizedEnum)
DeviceType = _listed("DeviceType")
EngineCapability = _listed("EngineCapability")
ErrorCode = _listed("ErrorCode")  # why a model could not be parsed
ExecutionContextAllocationStrategy = _listed("ExecutionContextAllocationStrategy")
HardwareCompatibilityLevel = _listed("HardwareCompatibilityLevel")
LayerInformationFormat = _listed("LayerInformationFormat")
LayerType = _listed("LayerType")  # kinds of layers, as TensorRT's parser makes them
MemoryPoolType = _listed("MemoryPoolType")
NetworkDefinitionCreationFlag = _listed("NetworkDefinitionCreationFlag")
OnnxParserFlag = _listed("OnnxParserFlag")
PreviewFeature = _listed("PreviewFeature")
ProfilingVerbosity = _listed("ProfilingVerbosity")
QuantizationFlag = _listed("QuantizationFlag")
TacticSource = _listed("TacticSource")
TempfileControlFlag = _listed("TempfileControlFlag")
TensorFormat = _listed("TensorFormat")
TensorIOMode = _listed("TensorIOMode")
TensorLocation = _listed("TensorLocation")

_ITEM_BYTES = {"FLOAT": 4, "HALF": 2, "INT32": 4, "BF16": 2, "INT64": 8, "INT4": 0.5, "FP4": 0.5}
