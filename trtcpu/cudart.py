"""cuda-python's names for the CPU engine, as TensorRT's samples use them: `cuda.bindings.runtime` and `.driver`.

A routine returns a tuple, its result first: `error, address = cudaMalloc(nbytes)`. It runs on the memory and the
streams of trtcpu.cuda, whose messages `cudaGetErrorString` gives in place of CUDA's own. The driver's routines are the
runtime's under other names. What is not here raises `UnsupportedError` by name.
"""

import ctypes
import enum
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from trtcpu import cuda
from trtcpu.device import memory
from trtcpu.device.streams import synchronize_all
from trtcpu.errors import UnsupportedError

_RESULTS = {"Success": 0, "ErrorInvalidValue": 1, "ErrorMemoryAllocation": 2, "ErrorNotReady": 600}
_DRIVERS = {"SUCCESS": 0, "ERROR_INVALID_VALUE": 1, "ERROR_OUT_OF_MEMORY": 2, "ERROR_NOT_READY": 600}
# What a call ended with: the driver's results have the runtime's numbers.
cudaError_t = enum.IntEnum(
    "cudaError_t",
    {f"cuda{name}": value for name, value in _RESULTS.items()}
    | {f"CUDA_{name}": value for name, value in _DRIVERS.items()},
)
# From where to where a copy goes.
cudaMemcpyKind = enum.IntEnum(
    "cudaMemcpyKind",
    [f"cudaMemcpy{way}" for way in ("HostToHost", "HostToDevice", "DeviceToHost", "DeviceToDevice", "Default")],
    start=0,
)
CUresult = cudaError_t
_messages = {cudaError_t.cudaSuccess: "no error", cudaError_t.cudaErrorNotReady: "the work is not done yet"}
_alive: dict[int, Any] = {}  # streams, events and page-locked memory by the numbers that callers hold


def _hold(thing: Any, number: int) -> int:
    _alive[number] = thing
    return number


def _release(number: Any) -> None:
    if _alive.pop(int(number), None) is None:
        raise cuda.LogicError(f"{int(number):#x} is no stream, event or page-locked memory that is there")


def _stream(handle: Any) -> cuda.Stream:
    return cuda.stream_from_handle(int(handle or 0))


def _event(number: Any) -> cuda.Event:
    return _alive[int(number)]


def _host(place: Any, nbytes: int) -> np.ndarray:
    """Return host memory, given as a buffer or by its address, as uint8 `[nbytes]`."""
    found = (ctypes.c_uint8 * nbytes).from_address(int(place)) if _is_address(place) else place
    return np.frombuffer(found, np.uint8, nbytes)


def _is_address(place: Any) -> bool:
    return hasattr(place, "__int__") and not isinstance(place, np.ndarray)


def _on_device(place: Any) -> bool:
    return _is_address(place) and memory.is_device(int(place))


def _copy(dest: Any, src: Any, nbytes: int, kind: int, stream: Any = None, wait: bool = False) -> None:
    """Copy in a stream's order; `wait` for it as well."""
    queue = _stream(stream)
    to_host, from_host = kind in (0, 2), kind in (0, 1)
    if kind == cudaMemcpyKind.cudaMemcpyDefault:
        to_host, from_host = not _on_device(dest), not _on_device(src)
    if to_host and from_host:
        queue.synchronize()
        _host(dest, nbytes)[:] = _host(src, nbytes)
    elif to_host:
        cuda.memcpy_dtoh_async(_host(dest, nbytes), src, queue)
    elif from_host:
        cuda.memcpy_htod_async(dest, _host(src, nbytes), queue)
    else:
        cuda.memcpy_dtod_async(dest, src, nbytes, queue)
    if wait:
        queue.synchronize()


def _new_pagelocked(nbytes: int, flags: int = 0) -> int:
    buffer = memory.pagelocked_buffer(nbytes)
    return _hold(buffer, buffer.ctypes.data)


def _new_stream(flags: int = 0, priority: int = 0) -> int:
    stream = cuda.Stream(flags)
    return _hold(stream, stream.handle)


def _new_event(flags: int = 0) -> int:
    event = cuda.Event(flags)
    return _hold(event, id(event))


_ROUTINES: dict[str, Callable[..., Any]] = {
    "cudaMalloc cudaMallocAsync cuMemAlloc": lambda nbytes, stream=0: memory.allocate(nbytes) if nbytes else 0,
    "cudaFree cudaFreeAsync cuMemFree": lambda address, stream=0: memory.release(address) if address else None,
    "cudaMallocHost cudaHostAlloc cuMemAllocHost cuMemHostAlloc": _new_pagelocked,
    "cudaFreeHost cuMemFreeHost": _release,
    "cudaMemcpy": functools.partial(_copy, wait=True),
    "cudaMemcpyAsync": _copy,
    "cuMemcpyHtoD": cuda.memcpy_htod,
    "cuMemcpyHtoDAsync": lambda dest, src, nbytes, stream: _copy(dest, src, nbytes, 1, stream),
    "cuMemcpyDtoHAsync": lambda dest, src, nbytes, stream: _copy(dest, src, nbytes, 2, stream),
    "cudaMemset cuMemsetD8": cuda.memset_d8,
    "cudaMemsetAsync": lambda dest, value, nbytes, stream: cuda.memset_d8_async(dest, value, nbytes, _stream(stream)),
    "cudaMemGetInfo cuMemGetInfo": cuda.mem_get_info,
    "cudaStreamCreate cudaStreamCreateWithFlags cudaStreamCreateWithPriority cuStreamCreate": _new_stream,
    "cudaStreamDestroy cuStreamDestroy cudaEventDestroy cuEventDestroy": _release,
    "cudaStreamSynchronize cuStreamSynchronize": lambda stream: _stream(stream).synchronize(),
    "cudaStreamWaitEvent": lambda stream, event, flags=0: _stream(stream).wait_for_event(_event(event)),
    "cudaEventCreate cudaEventCreateWithFlags cuEventCreate": _new_event,
    "cudaEventRecord cuEventRecord": lambda event, stream=0: _event(event).record(_stream(stream)),
    "cudaEventSynchronize cuEventSynchronize": lambda event: _event(event).synchronize(),
    "cudaEventElapsedTime cuEventElapsedTime": lambda start, end: _event(start).time_till(_event(end)),
    "cudaDeviceSynchronize cuCtxSynchronize": synchronize_all,
    "cudaGetDeviceCount cuDeviceGetCount": cuda.Device.count,
    "cudaGetDevice": lambda: 0,
    "cuDeviceGet cuCtxCreate cuDevicePrimaryCtxRetain": lambda *device: 0,
    "cudaSetDevice cuInit cuCtxSetCurrent cuCtxPushCurrent cuCtxDestroy": lambda *nothing: None,
    "cudaGetErrorString cuGetErrorString": lambda error: _messages[error].encode(),
    "cudaGetErrorName cuGetErrorName": lambda error: cudaError_t(error).name.encode(),
}
_BY_NAME = {name: routine for names, routine in _ROUTINES.items() for name in names.split()}


_GIVING = ("Alloc", "Create", "Elapsed")
"""In the names of those that give a value, and may fail."""


def _called(name: str, *arguments: Any) -> tuple[Any, ...]:
    """Return the result of a routine and what it gives: nothing, a value or several."""
    try:
        found = _BY_NAME[name](*arguments)
    except cuda.Error as error:
        full = isinstance(error, cuda.MemoryError)
        result = cudaError_t.cudaErrorMemoryAllocation if full else cudaError_t.cudaErrorInvalidValue
        _messages[result] = str(error)
        return (result, None) if any(part in name for part in _GIVING) else (result,)
    values = found if isinstance(found, tuple) else (found,)
    return cudaError_t.cudaSuccess, *(value for value in values if isinstance(value, (int, float, bytes)))


def __getattr__(name: str) -> Any:
    if name in _BY_NAME:
        return functools.partial(_called, name)
    if name.startswith(("cu", "CU")):
        raise UnsupportedError(f"the CPU engine has no {name} of cuda-python; use real CUDA on an NVIDIA GPU")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Library:
    """CUDA's runtime library as ctypes would load it: results by number, values by reference."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        def routine(*arguments: Any) -> int:
            given = [getattr(one, "value", one) or 0 for one in arguments if not hasattr(one, "_obj")]
            result, *values = _called(name, *given)
            for reference, value in zip((one for one in arguments if hasattr(one, "_obj")), values, strict=False):
                reference._obj.value = value
            return int(result)

        return routine
