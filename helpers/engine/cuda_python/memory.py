"""Device memory, page-locked memory of the host, and the copies between them."""

import ctypes
import math
import operator
from typing import Any

import numpy as np

from helpers.engine.cuda_python.device import released_with
from helpers.engine.cuda_python.driver import api, call, failed
from helpers.engine.cuda_python.streams import Stream


class DeviceAllocation:
    """Device memory that is freed with this object, or earlier by `free`; `int()` gives its address."""

    def __init__(self, address: int) -> None:
        self._address = address
        self._finalizer = released_with(self, "cuMemFree", address)

    def __int__(self) -> int:
        return self._address

    __index__ = __int__

    def free(self) -> None:
        """Free the memory.

        Raises:
            LogicError: it was freed already.
        """
        if not self._finalizer.alive:
            raise failed("device_allocation::free", api().CUresult.CUDA_ERROR_INVALID_HANDLE)
        self._finalizer()


Pointer = DeviceAllocation | int
_address = operator.index


def mem_alloc(bytes: int) -> DeviceAllocation:
    """Allocate device memory; its size in bytes may come from NumPy.

    Raises:
        LogicError: the size is 0.
        MemoryError: the GPU has not that much memory left.
    """
    return DeviceAllocation(int(call("cuMemAlloc", operator.index(bytes))))


def mem_get_info() -> tuple[int, int]:
    """Return (free, total) bytes of the GPU's memory."""
    return call("cuMemGetInfo")


def _host(array: Any, writable: bool = False) -> tuple[int, int]:
    """Return (address, bytes) of a contiguous host buffer, in C or in Fortran order.

    Raises:
        ValueError: it is not contiguous, or read-only and to be written to.
        TypeError: it is no buffer.
    """
    host = array if isinstance(array, np.ndarray) else np.asarray(memoryview(array))
    if not (host.flags.c_contiguous or host.flags.f_contiguous):
        raise ValueError(f"the host array of shape {host.shape} is not contiguous; pass np.ascontiguousarray(array)")
    if writable and not host.flags.writeable:
        raise ValueError("the host array to copy to is read-only; pass an array of its own, such as np.empty")
    return host.__array_interface__["data"][0], host.nbytes


def _handle(stream: Stream | None) -> int:
    return 0 if stream is None else stream.handle


def memcpy_htod(dest: Pointer, src: Any) -> None:
    """Copy the host array `src` to device memory, after all enqueued work."""
    call("cuMemcpyHtoD", _address(dest), *_host(src))


def memcpy_htod_async(dest: Pointer, src: Any, stream: Stream | None = None) -> None:
    """Copy the host array `src` in the stream's order; keep a page-locked one unchanged until it is synchronised."""
    call("cuMemcpyHtoDAsync", _address(dest), *_host(src), _handle(stream))


def memcpy_dtoh(dest: Any, src: Pointer) -> None:
    """Fill the host array `dest` from device memory, after all enqueued work."""
    host, nbytes = _host(dest, writable=True)
    call("cuMemcpyDtoH", host, _address(src), nbytes)


def memcpy_dtoh_async(dest: Any, src: Pointer, stream: Stream | None = None) -> None:
    """Fill the host array `dest` in the stream's order; read a page-locked one after `stream.synchronize()`."""
    host, nbytes = _host(dest, writable=True)
    call("cuMemcpyDtoHAsync", host, _address(src), nbytes, _handle(stream))


def memcpy_dtod(dest: Pointer, src: Pointer, size: int) -> None:
    """Copy `size` bytes within device memory."""
    call("cuMemcpyDtoD", _address(dest), _address(src), size)


def memcpy_dtod_async(dest: Pointer, src: Pointer, size: int, stream: Stream | None = None) -> None:
    """Copy `size` bytes within device memory in the stream's order."""
    call("cuMemcpyDtoDAsync", _address(dest), _address(src), size, _handle(stream))


def memset_d8(dest: Pointer, data: int, size: int) -> None:
    """Set `size` bytes to `data`."""
    call("cuMemsetD8", _address(dest), data, size)


def memset_d32(dest: Pointer, data: int, size: int) -> None:
    """Set `size` times four bytes to `data`."""
    call("cuMemsetD32", _address(dest), data, size)


def memset_d8_async(dest: Pointer, data: int, size: int, stream: Stream | None = None) -> None:
    """Set `size` bytes to `data` in the stream's order."""
    call("cuMemsetD8Async", _address(dest), data, size, _handle(stream))


def memset_d32_async(dest: Pointer, data: int, size: int, stream: Stream | None = None) -> None:
    """Set `size` times four bytes to `data` in the stream's order."""
    call("cuMemsetD32Async", _address(dest), data, size, _handle(stream))


def to_device(bf_obj: Any) -> DeviceAllocation:
    """Return new device memory that holds the host array's bytes, in C order."""
    content = memoryview(bf_obj).tobytes()
    allocation = mem_alloc(len(content))
    memcpy_htod(allocation, content)
    return allocation


def from_device(devptr: Pointer, shape: tuple[int, ...] | int, dtype: Any, order: str = "C") -> np.ndarray:
    """Return a new host array of that shape and type, filled from device memory."""
    array = np.empty(shape, dtype, order)
    memcpy_dtoh(array, devptr)
    return array


def from_device_like(devptr: Pointer, other_ary: np.ndarray) -> np.ndarray:
    """Return a new host array like `other_ary`, filled from device memory."""
    array = np.empty_like(other_ary)
    memcpy_dtoh(array, devptr)
    return array


def pagelocked_empty(shape: tuple[int, ...] | int, dtype: Any, order: str = "C", mem_flags: int = 0) -> np.ndarray:
    """Return an uninitialised page-locked array; its memory is freed when it and all its views are collected.

    Raises:
        LogicError: it would have no bytes.
        MemoryError: the host has not that much memory to lock.
    """
    dims = (operator.index(shape),) if isinstance(shape, (int, np.integer)) else tuple(shape)
    nbytes = math.prod(dims) * np.dtype(dtype).itemsize
    address = int(call("cuMemHostAlloc", nbytes, mem_flags))
    memory = (ctypes.c_ubyte * nbytes).from_address(address)
    released_with(memory, "cuMemFreeHost", address)
    return np.ndarray(dims, dtype, buffer=memory, order=order)


def pagelocked_zeros(shape: tuple[int, ...] | int, dtype: Any, order: str = "C", mem_flags: int = 0) -> np.ndarray:
    """Return a page-locked array of zeros."""
    array = pagelocked_empty(shape, dtype, order, mem_flags)
    array.fill(0)
    return array


def _order(array: np.ndarray) -> str:
    return "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"


def pagelocked_empty_like(array: np.ndarray, mem_flags: int = 0) -> np.ndarray:
    """Return an uninitialised page-locked array of `array`'s shape, type and order."""
    return pagelocked_empty(array.shape, array.dtype, _order(array), mem_flags)


def pagelocked_zeros_like(array: np.ndarray, mem_flags: int = 0) -> np.ndarray:
    """Return a page-locked array of zeros of `array`'s shape, type and order."""
    return pagelocked_zeros(array.shape, array.dtype, _order(array), mem_flags)
