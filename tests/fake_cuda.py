"""A small CUDA in memory under the names of cuda.bindings.driver, for what must hold without a GPU.

Device memory is host memory whose addresses are checked; a stream runs what was enqueued when somebody waits for it.
Results, arguments and their order are those of cuda-bindings 12.9 and 13.
"""

import ctypes
import enum
import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from helpers.engine.cuda_python import device, driver

CAPACITY = 1 << 24
_SYSTEM_BYTES = CAPACITY - 4096


class CUresult(enum.IntEnum):
    """The results that the fake gives, and one of each class that only a GPU has."""

    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_INVALID_DEVICE = 101
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_INVALID_HANDLE = 400
    CUDA_ERROR_NOT_READY = 600
    CUDA_ERROR_LAUNCH_FAILED = 719
    CUDA_ERROR_UNKNOWN = 999


class CUdevice_attribute(enum.IntEnum):
    """The attributes that the fake's device has."""

    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76


TEXTS = {
    CUresult.CUDA_ERROR_INVALID_VALUE: b"invalid argument",
    CUresult.CUDA_ERROR_OUT_OF_MEMORY: b"out of memory",
    CUresult.CUDA_ERROR_INVALID_HANDLE: b"invalid resource handle",
}
_ATTRIBUTES = {16: 132, 75: 9, 76: 0}
_OK, _INVALID = CUresult.CUDA_SUCCESS, CUresult.CUDA_ERROR_INVALID_VALUE


def _within(buffers: dict[int, Any], address: int, nbytes: int) -> bool:
    return any(start <= address <= start + len(buffer) - nbytes for start, buffer in buffers.items())


class FakeDriver:
    """One GPU; every method that starts with cu is a routine of the driver and returns (result, values…)."""

    CUDA_VERSION = 13000
    CUresult, CUdevice_attribute = CUresult, CUdevice_attribute

    def __init__(self) -> None:
        self.device: dict[int, Any] = {}  # by address: the buffer that is the memory
        self.pinned: dict[int, Any] = {}
        self.streams: dict[int, list[Callable[[], None]]] = {0: []}
        self.events: dict[int, float | None] = {}  # the time that an event was reached, -1 while it is enqueued
        self.current = threading.local()
        self.handles, self.clock = itertools.count(0x1000), itertools.count(1)

    def _stack(self) -> list[int]:
        if not hasattr(self.current, "stack"):
            self.current.stack = []
        return self.current.stack

    # Context and device

    def cuInit(self, flags: int) -> tuple:
        return (_OK,)

    def cuDriverGetVersion(self) -> tuple:
        return _OK, 13020

    def cuGetErrorString(self, error: CUresult) -> tuple:
        return (_OK, TEXTS[error]) if error in TEXTS else (_INVALID, None)

    def cuDeviceGet(self, ordinal: int) -> tuple:
        return (_OK, 0) if ordinal == 0 else (CUresult.CUDA_ERROR_INVALID_DEVICE, None)

    def cuDeviceGetCount(self) -> tuple:
        return _OK, 1

    def cuDeviceGetName(self, length: int, dev: int) -> tuple:
        return _OK, b"A GPU in memory".ljust(length, b"\0")

    def cuDeviceTotalMem(self, dev: int) -> tuple:
        return _OK, CAPACITY

    def cuDeviceGetAttribute(self, attribute: int, dev: int) -> tuple:
        return _OK, _ATTRIBUTES[attribute]

    def cuDevicePrimaryCtxRetain(self, dev: int) -> tuple:
        return _OK, 0xC0

    def cuCtxGetCurrent(self) -> tuple:
        return _OK, self._stack()[-1] if self._stack() else 0

    def cuCtxSetCurrent(self, context: int) -> tuple:
        self._stack()[-1:] = [context]
        return (_OK,)

    def cuCtxPushCurrent(self, context: int) -> tuple:
        self._stack().append(context)
        return (_OK,)

    def cuCtxPopCurrent(self) -> tuple:
        return _OK, self._stack().pop()

    def cuCtxGetDevice(self) -> tuple:
        return (_OK, 0) if self._stack() else (CUresult.CUDA_ERROR_INVALID_CONTEXT, None)

    def cuCtxSynchronize(self) -> tuple:
        for work in self.streams.values():
            self._run(work)
        return (_OK,)

    # Memory

    def _used(self) -> int:
        return sum(len(buffer) for buffer in self.device.values())

    def cuMemGetInfo(self) -> tuple:
        return _OK, _SYSTEM_BYTES - self._used(), CAPACITY

    def cuMemAlloc(self, nbytes: int) -> tuple:
        if not self._stack():
            return CUresult.CUDA_ERROR_INVALID_CONTEXT, None
        if nbytes == 0:
            return _INVALID, None
        if nbytes + self._used() > CAPACITY:
            return CUresult.CUDA_ERROR_OUT_OF_MEMORY, None
        return self._allocated(self.device, nbytes)

    def cuMemHostAlloc(self, nbytes: int, flags: int) -> tuple:
        return self._allocated(self.pinned, nbytes) if nbytes else (_INVALID, None)

    def _allocated(self, where: dict[int, Any], nbytes: int) -> tuple:
        buffer = (ctypes.c_ubyte * nbytes)()
        where[address := ctypes.addressof(buffer)] = buffer
        return _OK, address

    def cuMemFree(self, address: int) -> tuple:
        return (_OK if self._stack() and self.device.pop(address, None) is not None else _INVALID,)

    def cuMemFreeHost(self, address: int) -> tuple:
        return (_OK if self.pinned.pop(address, None) is not None else _INVALID,)

    def _reaches(self, address: int, nbytes: int) -> bool:
        return _within(self.device, address, nbytes)

    def _copy(self, device: list[int], to: int, source: int, nbytes: int, stream: int | None) -> tuple:
        if not all(self._reaches(address, nbytes) for address in device):
            return (_INVALID,)
        return self._do(lambda: ctypes.memmove(to, source, nbytes), stream)

    def _do(self, work: Callable[[], Any], stream: int | None) -> tuple:
        if stream is None:
            self.cuCtxSynchronize()
            work()
        elif stream not in self.streams:
            return (CUresult.CUDA_ERROR_INVALID_HANDLE,)
        else:
            self.streams[stream].append(work)
        return (_OK,)

    def cuMemcpyHtoD(self, to: int, host: int, nbytes: int, stream: int | None = None) -> tuple:
        return self._copy([to], to, host, nbytes, stream)

    def cuMemcpyDtoH(self, host: int, source: int, nbytes: int, stream: int | None = None) -> tuple:
        return self._copy([source], host, source, nbytes, stream)

    def cuMemcpyDtoD(self, to: int, source: int, nbytes: int, stream: int | None = None) -> tuple:
        return self._copy([to, source], to, source, nbytes, stream)

    cuMemcpyHtoDAsync, cuMemcpyDtoDAsync = cuMemcpyHtoD, cuMemcpyDtoD

    def cuMemcpyDtoHAsync(self, host: int, source: int, nbytes: int, stream: int) -> tuple:
        result = self.cuMemcpyDtoH(host, source, nbytes, stream)
        if result == (_OK,) and not _within(self.pinned, host, nbytes):
            self._run(self.streams[stream])  # a copy to pageable memory returns when it is done
        return result

    def _set(self, to: int, value: int, item: int, count: int, stream: int | None) -> tuple:
        if not self._reaches(to, item * count):
            return (_INVALID,)
        content = value.to_bytes(item, "little") * count
        return self._do(lambda: ctypes.memmove(to, content, len(content)), stream)

    def cuMemsetD8(self, to: int, value: int, count: int, stream: int | None = None) -> tuple:
        return self._set(to, value, 1, count, stream)

    def cuMemsetD32(self, to: int, value: int, count: int, stream: int | None = None) -> tuple:
        return self._set(to, value, 4, count, stream)

    cuMemsetD8Async, cuMemsetD32Async = cuMemsetD8, cuMemsetD32

    # Streams and events

    def _run(self, work: list[Callable[[], None]]) -> None:
        while work:
            work.pop(0)()

    def cuStreamCreate(self, flags: int) -> tuple:
        self.streams[handle := next(self.handles)] = []
        return _OK, handle

    def cuStreamDestroy(self, stream: int) -> tuple:
        self._run(self.streams.pop(stream))
        return (_OK,)

    def cuStreamSynchronize(self, stream: int) -> tuple:
        self._run(self.streams[stream])
        return (_OK,)

    def cuStreamQuery(self, stream: int) -> tuple:
        return (CUresult.CUDA_ERROR_NOT_READY if self.streams[stream] else _OK,)

    def cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> tuple:
        return self._do(lambda: self.cuEventSynchronize(event), stream)

    def cuEventCreate(self, flags: int) -> tuple:
        self.events[handle := next(self.handles)] = None
        return _OK, handle

    def cuEventDestroy(self, event: int) -> tuple:
        del self.events[event]
        return (_OK,)

    def cuEventRecord(self, event: int, stream: int) -> tuple:
        self.events[event] = -1
        return self._do(lambda: self.events.update({event: float(next(self.clock))}), stream)

    def cuEventSynchronize(self, event: int) -> tuple:
        while self.events[event] == -1:
            next(work for work in self.streams.values() if work).pop(0)()
        return (_OK,)

    def cuEventQuery(self, event: int) -> tuple:
        return (CUresult.CUDA_ERROR_NOT_READY if self.events[event] == -1 else _OK,)

    def cuEventElapsedTime(self, start: int, end: int) -> tuple:
        times = self.events[start], self.events[end]
        if None in times:
            return CUresult.CUDA_ERROR_INVALID_HANDLE, None
        if -1 in times:
            return CUresult.CUDA_ERROR_NOT_READY, None
        return _OK, times[1] - times[0]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """The fake behind helpers.engine.cuda_python, its primary context current in the test's thread."""
    fake = FakeDriver()
    monkeypatch.setattr(driver, "_api", fake)
    monkeypatch.setattr(device, "_primary", 0)
    device.use_primary_context()
    return fake
