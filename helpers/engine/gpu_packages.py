"""Which packages bring real TensorRT to this machine, and the command that installs them.

TensorRT 10.16 is the last with precision flags and calibrators, and what the lab installs; 11 is used where it is
there. NVIDIA has a build for CUDA 12 and one for CUDA 13; their modules have the same names, so one environment can
hold only one of them, and none of 11 beside it.
"""

import re
import sys
from importlib import metadata

TENSORRT = {12: "tensorrt-cu12==10.16.1.11", 13: "tensorrt-cu13==10.16.1.11"}
CUDA_PYTHON = {12: "cuda-bindings>=12.9,<13", 13: "cuda-bindings>=13.0,<14"}

_LAST_PYTHON = (3, 13)
_WHOLE = re.compile(r"tensorrt(-cu\d+)?(-bindings|-libs)?")  # tensorrt-lean, -rtx and others are not in the way


def cuda_major() -> int:
    """Return 12 or 13: which CUDA the NVIDIA driver here runs; 13 if there is none to ask."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return 12 if pynvml.nvmlSystemGetCudaDriverVersion() < 13000 else 13
    except Exception:  # no package, no driver or no permission: nobody to ask
        return 13


def install_command() -> str:
    """Return the command that installs TensorRT 10.16 and cuda-python for this machine's CUDA."""
    note = f" (with an older Python: NVIDIA has no wheels beyond {_LAST_PYTHON[0]}.{_LAST_PYTHON[1]})"
    command = f"pip install '{CUDA_PYTHON[cuda_major()]}' '{TENSORRT[cuda_major()]}'"
    return command + (note if sys.version_info[:2] > _LAST_PYTHON else "")


def replace_command() -> str:
    """Return the command that installs TensorRT 10.16 in the place of the TensorRT that is here.

    What is here goes first: pip would leave the package `tensorrt`, which only names others, behind with its version.
    """
    names = {(found.metadata["Name"] or "").lower().replace("_", "-") for found in metadata.distributions()}
    here = sorted(filter(_WHOLE.fullmatch, names))
    return (f"pip uninstall -y {' '.join(here)} && " if here else "") + install_command()
