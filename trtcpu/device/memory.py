"""The CPU engine's "device" memory: host buffers that are known by their real address.

A pointer is checked as cuda-memcheck would check it: an address that was never allocated, one that was freed and a
range that leaves its allocation raise `DeviceMemoryError`. Buffers are aligned to 64 bytes and committed when they are
allocated, so that no page fault falls into a timed run.
"""

import weakref
from collections import deque
from collections.abc import Callable, Iterable

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


# There is no lock: objects are collected, and free what they hold, at any time, also in a thread that is inside here.
# Each step is one operation of a dictionary or a queue.
_live: dict[int, np.ndarray] = {}  # buffers by address
_freed: deque[tuple[int, int]] = deque(maxlen=_REMEMBERED_FREES)  # so that a use after free is named as such
_pagelocked: dict[int, int] = {}  # bytes by address: the buffers themselves must not be kept alive


def _base_of(address: int, ranges: Iterable[tuple[int, int]]) -> int | None:
    """Return the start of the range, given by address and bytes, that holds an address."""
    return next((base for base, nbytes in ranges if base <= address < base + nbytes), None)


def _live_base_of(address: int) -> int | None:
    return _base_of(address, [(base, buffer.nbytes) for base, buffer in list(_live.items())])


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
    buffer = _aligned(nbytes, np.zeros)  # the system zeroes each page when it is first used
    address = buffer.ctypes.data
    _live[address] = buffer
    return address


def release(address: int) -> None:
    """Free the allocation that begins at `address`.

    Raises:
        DeviceMemoryError: no live allocation begins there.
    """
    buffer = _live.pop(int(address), None)
    if buffer is None:
        raise DeviceMemoryError(_free_refused(int(address)))
    _freed.append((int(address), buffer.nbytes))


def view(address: int, nbytes: int) -> np.ndarray:
    """Return the `nbytes` bytes at `address` as a writable uint8 array `[nbytes]`; interior addresses are allowed.

    The array keeps the memory alive, so that work in flight never writes to memory that was freed meanwhile.

    Raises:
        DeviceMemoryError: the range is not inside one live allocation.
    """
    address, nbytes = int(address), int(nbytes)
    base = address if address in _live else _live_base_of(address)
    buffer = _live.get(base)
    if buffer is None:
        raise DeviceMemoryError(f"access of {nbytes} bytes at {address:#x}, {_unknown(address)}")
    offset = address - base
    if nbytes < 0 or offset + nbytes > buffer.nbytes:
        raise DeviceMemoryError(
            f"access of {nbytes} bytes at offset {offset} of device allocation {base:#x} leaves its "
            f"{buffer.nbytes} bytes; allocate as much as the tensor's shape and type need"
        )
    return buffer[offset : offset + nbytes]


def _unknown(address: int) -> str:
    if _base_of(address, _freed.copy()) is not None:
        return (
            "inside a device allocation that was freed; keep the DeviceAllocation object alive as long as its address "
            "is in use"
        )
    return "which is no device memory; pass int(cuda.mem_alloc(nbytes)), not the address of a host array"


def _free_refused(address: int) -> str:
    base = _live_base_of(address)
    if base is not None:
        return f"{address:#x} is inside device allocation {base:#x}; free the address that mem_alloc gave"
    if address in dict(_freed.copy()):
        return f"device allocation {address:#x} was freed already; free it once"
    return f"{address:#x} was never allocated on the device; free only what mem_alloc gave"


def allocated_bytes() -> int:
    """Return the bytes of device memory that are allocated now."""
    return sum(buffer.nbytes for buffer in list(_live.values()))


def is_device(address: int) -> bool:
    """Tell whether `address` lies in device memory."""
    return _live_base_of(address) is not None


def pagelocked_buffer(nbytes: int) -> np.ndarray:
    """Return a new uint8 array `[nbytes]` that counts as page-locked for as long as any view of it lives."""
    buffer = _aligned(nbytes, np.empty)
    address = buffer.ctypes.data
    _pagelocked[address] = nbytes
    weakref.finalize(buffer.base, _pagelocked.pop, address, None).atexit = False
    return buffer


def is_pagelocked(address: int) -> bool:
    """Tell whether `address` lies in memory from `pagelocked_buffer`."""
    return _base_of(address, list(_pagelocked.items())) is not None
