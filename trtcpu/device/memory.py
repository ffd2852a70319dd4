"""The CPU engine's "device" memory: host buffers that are known by their real address.

A pointer is checked as cuda-memcheck would check it: an address that was never allocated, one that was freed and a
range that leaves its allocation raise `DeviceMemoryError`. Buffers are aligned to 64 bytes and committed when they are
allocated, so that no page fault falls into a timed run.
"""

import bisect
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import psutil

from trtcpu.errors import EngineError

ALIGNMENT = 64
_REMEMBERED_FREES = 4096
_RESERVE_BYTES = 64 << 20


class CudaError(EngineError):
    """Base of the errors that pycuda.driver raises; `cuda.Error`."""


class LogicError(CudaError):
    """A call that the CUDA driver would refuse: a bad pointer, size, stream or event; `cuda.LogicError`."""


class DeviceMemoryError(LogicError):
    """An access outside every live allocation, as cuda-memcheck reports it."""


class OutOfMemoryError(CudaError):
    """More device memory was asked for than is free; `cuda.MemoryError`."""


class _Registry:
    """Live buffers by base address, and the last freed ones so that a use after free is named as such.

    Objects are collected at any time, also in a thread that is inside here. So `drop`, which they call, never waits for
    the lock: what it cannot free now is freed by the thread that holds it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._dropped: deque[int] = deque()
        self._buffers: dict[int, np.ndarray] = {}
        self._bases: list[int] = []
        self._freed: OrderedDict[int, int] = OrderedDict()
        self.nbytes = 0

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            with self._lock:
                yield
        finally:
            self._free_dropped()

    def add(self, buffer: np.ndarray) -> int:
        address = buffer.ctypes.data
        with self._locked():
            self._buffers[address] = buffer
            bisect.insort(self._bases, address)
            self._freed.pop(address, None)
            self.nbytes += buffer.nbytes
        return address

    def remove(self, address: int) -> None:
        with self._locked():
            self._remove(address)

    def drop(self, address: int) -> None:
        """Remove the buffer of an object that is collected, now or as soon as the lock is free."""
        self._dropped.append(address)
        self._free_dropped()

    def _free_dropped(self) -> None:
        while self._dropped and self._lock.acquire(blocking=False):
            try:
                while self._dropped:
                    self._remove(self._dropped.popleft())
            finally:
                self._lock.release()

    def _remove(self, address: int) -> None:
        buffer = self._buffers.pop(address, None)
        if buffer is None:
            raise DeviceMemoryError(self._free_refused(address))
        del self._bases[bisect.bisect_left(self._bases, address)]
        self.nbytes -= buffer.nbytes
        self._freed[address] = buffer.nbytes
        if len(self._freed) > _REMEMBERED_FREES:
            self._freed.popitem(last=False)

    def find(self, address: int, nbytes: int) -> np.ndarray:
        buffer = self._buffers.get(address)
        if buffer is not None and 0 <= nbytes <= buffer.nbytes:
            return buffer[:nbytes]
        with self._locked():
            base = self._base_of(address)
            if base is None:
                raise DeviceMemoryError(self._unknown(address, nbytes))
            buffer, offset = self._buffers[base], address - base
        if nbytes < 0 or offset + nbytes > buffer.nbytes:
            raise DeviceMemoryError(
                f"access of {nbytes} bytes at offset {offset} of device allocation {base:#x} leaves its "
                f"{buffer.nbytes} bytes; allocate as much as the tensor's shape and type need"
            )
        return buffer[offset : offset + nbytes]

    def _base_of(self, address: int) -> int | None:
        index = bisect.bisect_right(self._bases, address) - 1
        if index < 0:
            return None
        base = self._bases[index]
        return base if address < base + self._buffers[base].nbytes else None

    def _freed_base_of(self, address: int) -> int | None:
        inside = (base for base, nbytes in reversed(self._freed.items()) if base <= address < base + nbytes)
        return next(inside, None)

    def _unknown(self, address: int, nbytes: int) -> str:
        freed = self._freed_base_of(address)
        if freed is not None:
            return (
                f"access of {nbytes} bytes at {address:#x}, inside a device allocation that was freed; keep the "
                "DeviceAllocation object alive as long as its address is in use"
            )
        return (
            f"access of {nbytes} bytes at {address:#x}, which is no device memory; pass int(cuda.mem_alloc(nbytes)), "
            "not the address of a host array"
        )

    def _free_refused(self, address: int) -> str:
        base = self._base_of(address)
        if base is not None:
            return f"{address:#x} is inside device allocation {base:#x}; free the address that mem_alloc gave"
        if address in self._freed:
            return f"device allocation {address:#x} was freed already; free it once"
        return f"{address:#x} was never allocated on the device; free only what mem_alloc gave"


_device = _Registry()
_pagelocked = _Registry()


def _aligned(nbytes: int, make: Callable[..., np.ndarray]) -> np.ndarray:
    raw = make(nbytes + ALIGNMENT, np.uint8)
    offset = -raw.ctypes.data % ALIGNMENT
    return raw[offset : offset + nbytes]


def allocate(nbytes: int) -> int:
    """Allocate `nbytes` zeroed bytes and return their address, aligned to 64 bytes.

    Raises:
        LogicError: `nbytes` is not positive (the driver refuses 0 as an invalid argument).
        OutOfMemoryError: the machine has not that much memory left.
    """
    nbytes = int(nbytes)
    if nbytes <= 0:
        raise LogicError(f"cannot allocate {nbytes} bytes of device memory; ask for at least 1")
    free = psutil.virtual_memory().available
    if nbytes > free - _RESERVE_BYTES:
        raise OutOfMemoryError(f"cannot allocate {nbytes} bytes of device memory; {free} bytes are free: use less")
    return _device.add(_aligned(nbytes, np.zeros))  # the system zeroes each page when it is first used


def release(address: int) -> None:
    """Free the allocation that begins at `address`.

    Raises:
        DeviceMemoryError: no live allocation begins there.
    """
    _device.remove(int(address))


def drop(address: int) -> None:
    """Free an allocation whose owner is being collected."""
    _device.drop(address)


def view(address: int, nbytes: int) -> np.ndarray:
    """Return the `nbytes` bytes at `address` as a writable uint8 array `[nbytes]`; interior addresses are allowed.

    The array keeps the memory alive, so that work in flight never writes to memory that was freed meanwhile.

    Raises:
        DeviceMemoryError: the range is not inside one live allocation.
    """
    return _device.find(int(address), int(nbytes))


def allocated_bytes() -> int:
    """Return the bytes of device memory that are allocated now."""
    return _device.nbytes


def pagelocked_buffer(nbytes: int) -> np.ndarray:
    """Return a new uint8 array `[nbytes]` that counts as page-locked for as long as any view of it lives."""
    buffer = _aligned(nbytes, np.empty)
    if nbytes:
        address = _pagelocked.add(_without_owner(buffer))
        weakref.finalize(buffer.base, _pagelocked.drop, address).atexit = False
    return buffer


class _Range:
    """Bytes at an address, for NumPy."""

    def __init__(self, buffer: np.ndarray) -> None:
        data = buffer.ctypes.data, False
        self.__array_interface__ = {"data": data, "shape": buffer.shape, "typestr": "|u1", "version": 3}


def _without_owner(buffer: np.ndarray) -> np.ndarray:
    """Return the same bytes without a reference to their owner: the registry must not keep them alive."""
    return np.asarray(_Range(buffer))


def is_pagelocked(address: int) -> bool:
    """Tell whether `address` lies in memory from `pagelocked_buffer`."""
    try:
        _pagelocked.find(address, 1)
    except DeviceMemoryError:
        return False
    return True
