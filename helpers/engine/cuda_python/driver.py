"""The one door to CUDA's driver: a call by its name, and a failed one as an exception of pycuda's classes.

Which result becomes which class, and the text "routine failed: reason", are pycuda's (translate_cuda_error in its
wrap_cudadrv.cpp, error::make_message in its cuda.hpp, 2026.1).
"""

import builtins
import importlib
from types import ModuleType
from typing import Any

_api: ModuleType | None = None


class Error(Exception):
    """Base of all that a call of the driver raises."""


class MemoryError(Error, builtins.MemoryError):
    """The device or the page-locked memory of the host is full."""


class LogicError(Error):
    """A call that cannot be right: an invalid value, handle, address or context."""


class LaunchError(Error):
    """A kernel that could not be started or did not end well."""


class RuntimeError(Error):
    """What only shows when it runs: no device, a result that is not ready, a memory error of the hardware."""


_CLASSES: dict[str, type[Error]] = {
    "CUDA_ERROR_OUT_OF_MEMORY": MemoryError,
    "CUDA_ERROR_UNKNOWN": Error,
    **dict.fromkeys(
        (
            "CUDA_ERROR_LAUNCH_FAILED",
            "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
            "CUDA_ERROR_LAUNCH_TIMEOUT",
            "CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING",
        ),
        LaunchError,
    ),
    **dict.fromkeys(
        (
            "CUDA_ERROR_NO_DEVICE",
            "CUDA_ERROR_NO_BINARY_FOR_GPU",
            "CUDA_ERROR_FILE_NOT_FOUND",
            "CUDA_ERROR_NOT_READY",
            "CUDA_ERROR_ECC_UNCORRECTABLE",
        ),
        RuntimeError,
    ),
}


def api() -> ModuleType:
    """Return cuda.bindings.driver, imported when it is first asked for.

    Raises:
        ImportError: the package cuda-bindings is not installed.
    """
    global _api
    if _api is None:
        _api = importlib.import_module("cuda.bindings.driver")
    return _api


def call(routine: str, *arguments: Any) -> Any:
    """Call a routine of the driver; return what it returns besides its result: None, a value or a tuple.

    Raises:
        Error: of the class that pycuda raises for this result.
    """
    result, *values = getattr(_api or api(), routine)(*arguments)
    if result != 0:
        raise failed(routine, result)
    return values[0] if len(values) == 1 else tuple(values) or None


def finished(routine: str, handle: int) -> bool:
    """Ask cuStreamQuery or cuEventQuery whether the work is done: not yet is an answer, not an error."""
    (result,) = getattr(api(), routine)(handle)
    if result == api().CUresult.CUDA_ERROR_NOT_READY:
        return False
    if result != 0:
        raise failed(routine, result)
    return True


def failed(routine: str, result: Any) -> Error:
    """Return the exception of a failed call."""
    _, text = api().cuGetErrorString(result)
    reason = text.decode() if text else result.name
    return _CLASSES.get(result.name, LogicError)(f"{routine} failed: {reason}")
