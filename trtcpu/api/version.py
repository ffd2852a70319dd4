"""Which of TensorRT's versions the CPU engine speaks, and all that differs between them except names.

`TRT_LAB_API=10` (the default) is 10.16 and `TRT_LAB_API=11` is 11.4, as long as the process runs. manifest.py has the
names of each version.
"""

import os
from dataclasses import dataclass

from trtcpu.errors import SettingError

API_VARIABLE = "TRT_LAB_API"


@dataclass(frozen=True)
class Version:
    """A version of TensorRT's API.

    Attributes:
        major: 10 or 11.
        full: the version of NVIDIA's bindings whose names are followed.
        line: what the manifest calls it.
        strongly_typed: every network takes its types from the model; there are no precision flags.
        io_tensors: the inspector describes inputs and outputs, and a tensor's format and type in two fields; else it
            lists their names ("Bindings") and says both in one.
    """

    major: int
    full: str
    line: str
    strongly_typed: bool
    io_tensors: bool

    @property
    def engine(self) -> str:
        """The CPU engine's version, `trt.__version__`: 10.16.1.11+cpu."""
        return f"{self.full}+cpu"

    @property
    def parser(self) -> int:
        """The ONNX parser's version as TensorRT counts: 101600 for 10.16, 110400 for 11.4."""
        major, minor = self.full.split(".")[:2]
        return int(major) * 10000 + int(minor) * 100


VERSIONS = {
    "10": Version(10, "10.16.1.11", "10.16", strongly_typed=False, io_tensors=False),
    "11": Version(11, "11.4.0.106", "11", strongly_typed=True, io_tensors=True),
}


def _asked() -> Version:
    asked = os.environ.get(API_VARIABLE, "").strip() or "10"
    if asked not in VERSIONS:
        raise SettingError(f"{API_VARIABLE}={asked!r} is no version that the CPU engine speaks; choose 10 or 11")
    return VERSIONS[asked]


API = _asked()
