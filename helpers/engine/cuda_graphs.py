"""CUDA graphs: what a stream is given once, recorded and launched again by one call.

An execution of ResNet-50 is some sixty kernels, each launched by a call of its own; where the batch is small, the GPU
waits for the host. A graph is launched whole. pycuda has no names for graphs, so the driver's library is called, which
is there wherever a GPU is used; its functions take the stream's handle, whoever made the stream.
"""

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

from helpers.engine.backend import DEVICE, ENGINE
from trtcpu.errors import EngineError

_RELAXED = (
    2  # CU_STREAM_CAPTURE_MODE_RELAXED: memory that Python happens to free meanwhile does not break the recording
)
_LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_FUNCTIONS = (
    "cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphLaunch",
    "cuGraphExecDestroy", "cuGraphDestroy", "cuGetErrorName",
)  # fmt: skip


class Graph:
    """A recorded execution that can be launched. It uses the buffers that it was recorded with: keep them as long."""

    def __init__(self, driver: Any, executable: ctypes.c_void_p) -> None:
        self._driver, self._executable = driver, executable

    def launch(self, stream: Any) -> None:
        """Put the whole recording on a stream.

        Raises:
            EngineError: the driver refused.
        """
        _check(self._driver, "cuGraphLaunch", self._executable, ctypes.c_void_p(stream.handle))

    def close(self) -> None:
        """Free the graph; what was launched must be done. Calling it again does nothing."""
        executable, self._executable = self._executable, ctypes.c_void_p()
        if executable:
            self._driver.cuGraphExecDestroy(executable)


def why_no_graphs() -> str | None:
    """Return in a few words why there are no CUDA graphs here; None if there are."""
    if ENGINE != "tensorrt":
        return f"{DEVICE.partition(',')[0]} has no CUDA graphs: it launches no kernels"
    try:
        _library()
    except EngineError as error:
        return str(error)
    return None


def capture(stream: Any, work: Callable[[], None], driver: Any = None) -> Graph:
    """Record what `work` puts on `stream` and return it as a graph; nothing of it is executed.

    TensorRT must have executed the same shapes once before, since its first execution does what cannot be recorded.

    Args:
        driver: the driver's library; by default this machine's.

    Raises:
        EngineError: the driver refused, or something in `work` cannot be recorded.
        Exception: what `work` raises, after the recording was ended.
    """
    driver = driver or _library()
    handle, graph, executable = ctypes.c_void_p(stream.handle), ctypes.c_void_p(), ctypes.c_void_p()
    _check(driver, "cuStreamBeginCapture_v2", handle, _RELAXED)
    try:
        work()
    except BaseException:
        driver.cuStreamEndCapture(handle, ctypes.byref(graph))  # a stream that records can do nothing else
        _destroy(driver, graph)
        raise
    _check(driver, "cuStreamEndCapture", handle, ctypes.byref(graph))
    try:
        _check(driver, "cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
    finally:
        _destroy(driver, graph)
    return Graph(driver, executable)


def _destroy(driver: Any, graph: ctypes.c_void_p) -> None:
    if graph:
        driver.cuGraphDestroy(graph)


@functools.cache
def _library() -> Any:
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise EngineError(f"CUDA graphs need the driver's library {_LIBRARY}: {error}") from error
    missing = [name for name in _FUNCTIONS if not hasattr(library, name)]
    if missing:
        raise EngineError(f"the NVIDIA driver has no {missing[0]}; CUDA graphs need one for CUDA 11.4 or newer")
    return library


def _check(driver: Any, function: str, *arguments: Any) -> None:
    code = getattr(driver, function)(*arguments)
    if code:
        raise EngineError(f"{function} failed with {_error_name(driver, code)}; go on without CUDA graphs")


def _error_name(driver: Any, code: int) -> str:
    text = ctypes.c_char_p()
    driver.cuGetErrorName(code, ctypes.byref(text))
    return text.value.decode() if text.value else f"error {code}"
