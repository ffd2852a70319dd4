"""The serialized engine ("plan"): a header that says what it is, where it runs and how it was built, then the blob."""

import hashlib
import json
import struct
from dataclasses import asdict, dataclass, field
from typing import Any

from trtcpu import _openvino
from trtcpu._export import stored_weights, without_made_up_names
from trtcpu.api.enums import DataType
from trtcpu.api.pybind import Scoped
from trtcpu.api.version import API, API_VARIABLE, VERSIONS
from trtcpu.bounded_json import loads
from trtcpu.plan_header import check_header

VERSION = API.engine
_MAGIC = b"TRTCPUPL"
_NVIDIA_MAGIC = (b"ftrt", b"ptrt")
_LONGEST_HEADER = 32 << 20  # bytes


class IHostMemory(Scoped, bytes):
    """A serialized engine; supports the buffer protocol and `bytes()`, as TensorRT's does."""

    __slots__ = ()

    @property
    def nbytes(self) -> int:
        return len(self)

    @property
    def dtype(self) -> DataType:
        return DataType.INT8


class PlanError(Exception):
    """Why bytes cannot be deserialized; the runtime logs it."""


@dataclass
class Binding:
    """An input or output. A shape's entry is a size, -1, or for outputs ["input", axis] if it follows an input's."""

    name: str
    dtype: str
    shape: list[Any]
    is_input: bool

    @property
    def data_type(self) -> DataType:
        return DataType.__members__[self.dtype]


@dataclass
class Plan:
    """All that a runtime needs.

    `profiles` maps, per profile, an input's name to its [min, opt, max] shapes. `operators` gives each layer's ONNX
    operator; `layer_of` the layer that makes a tensor; `products` the matrix product that a layer adds the bias to;
    `asked` the layer precisions that were set; `attributes` what is known of a layer, its weights for example; `unused`
    the inputs that nothing reads, which the compiled model does not have; `by_values` the outputs whose shapes only a
    run tells; `shape_inputs` the inputs whose values tell the other outputs' shapes.
    """

    network: str
    hint: str
    bindings: list[Binding]
    profiles: list[dict[str, list[list[int]]]]
    blob: bytes = b""
    flags: int = 0
    verbosity: str = "LAYER_NAMES_ONLY"
    workspace_bytes: int = 0
    operators: dict[str, str] = field(default_factory=dict)
    layer_of: dict[str, str] = field(default_factory=dict)
    products: dict[str, str] = field(default_factory=dict)
    asked: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, dict[str, Any]] = field(default_factory=dict)
    unused: list[str] = field(default_factory=list)
    by_values: list[str] = field(default_factory=list)
    shape_inputs: list[str] = field(default_factory=list)

    def serialize(self) -> bytes:
        header = {**asdict(self), "platform": platform()}
        del header["blob"]
        return seal(_MAGIC, header, self.blob)

    def computes_as(self, other: "Plan") -> bool:
        """Return whether both hold one compiled network for the same shapes: the same outputs, in the same time."""
        alike = (self.hint, self.bindings, self.profiles) == (other.hint, other.bindings, other.profiles)
        blobs = self.blob, other.blob
        return alike and (blobs[0] == blobs[1] or len({*map(without_made_up_names, blobs)}) == 1)

    @property
    def stored(self) -> dict[str, int]:
        """Bytes of weights by the type that they are stored in ("f32", "f16", "i8" …)."""
        return stored_weights(self.blob)

    @staticmethod
    def deserialize(data: bytes) -> "Plan":
        """Return the plan that `serialize` wrote.

        Raises:
            PlanError: anything else, a damaged plan, one of another engine version or processor, or one whose header
                no builder writes.
        """
        if not data.startswith(_MAGIC):
            raise PlanError(_foreign(data))
        try:
            header, blob = unseal(_MAGIC, data)
        except ValueError as error:
            raise PlanError(
                f"the plan is damaged or cut short ({len(data)} bytes, checksum differs); build it again"
            ) from error
        _check_platform(header.get("platform"))
        try:
            check_header(header)
        except ValueError as error:
            raise PlanError(f"the plan's header is not one that a builder writes ({error}); build it again") from error
        del header["platform"]
        header["bindings"] = [Binding(**binding) for binding in header["bindings"]]
        return Plan(**header, blob=blob)


def seal(magic: bytes, header: dict[str, Any], payload: bytes) -> bytes:
    """Return magic (8 bytes) · sha256 of the rest (32) · length of the header (4, little endian) · JSON · payload."""
    text = json.dumps(header).encode()
    body = struct.pack("<I", len(text)) + text + payload
    return magic + hashlib.sha256(body).digest() + body


def unseal(magic: bytes, data: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the header and the payload that were sealed.

    Raises:
        ValueError: the data begin otherwise, the checksum differs, or the header is no JSON object, or one beyond any
            network's: a checksum is anybody's to compute.
    """
    head = len(magic) + 32
    body = data[head:]
    if data[:head] != magic + hashlib.sha256(body).digest() or len(body) < 4:
        raise ValueError(f"{len(data)} bytes are not what was sealed with {magic!r}")
    end = 4 + struct.unpack_from("<I", body)[0]
    header = loads(body[4:end], largest=_LONGEST_HEADER)
    if not isinstance(header, dict):
        raise ValueError(f"the header is {repr(header)[:60]}, no JSON object")
    return header, body[end:]


def platform() -> dict[str, str]:
    """Return what a plan depends on: engine and OpenVINO version, processor features."""
    return {
        "engine": VERSION,
        "openvino": _openvino.version(),
        "cpu": ",".join(_openvino.cpu_capabilities()),
    }


def _foreign(data: bytes) -> str:
    if data[:4] in _NVIDIA_MAGIC:
        return "this plan was built by TensorRT for an NVIDIA GPU; the CPU engine runs the plans it built itself"
    return (
        "Serialization assertion stdMagicTagRead == kMAGIC_TAG failed. Magic tag does not match: "
        f"{len(data)} bytes starting with {data[:8]!r} are not a serialized engine"
    )


def _check_platform(built: Any) -> None:
    if not isinstance(built, dict):
        raise PlanError("the plan does not say which engine it was built by; build it again")
    here = platform()
    for key, what in (("engine", "engine version"), ("openvino", "OpenVINO version"), ("cpu", "processor features")):
        if built.get(key) != here[key]:
            spoken = next((api for api, version in VERSIONS.items() if built.get(key) == version.engine), None)
            raise PlanError(
                f"the plan was built for another {what} ({built.get(key)}, here {here[key]}); engines are not "
                "portable: build it again from the ONNX file on this machine"
                + (f", or load it with {API_VARIABLE}={spoken}" if spoken else "")
            )
