"""pycuda.driver's names for the CPU engine: "device" memory, copies, streams and events.

Device memory is host memory with checked addresses (device/memory.py); streams really run beside the calling thread
(device/streams.py). What pycuda does and this does too:

- `memcpy_htod`, `memcpy_dtoh` and the other synchronous calls first wait for all streams, as in CUDA;
- `memcpy_htod_async` takes a copy of pageable memory at once; page-locked memory is read when the stream gets there;
- `memcpy_dtoh_async` into pageable memory returns when the copy is done; page-locked memory is filled later;
- host arrays must be contiguous. Here that means C order: pycuda copies a Fortran-ordered array's bytes as they lie.

There is no kernel launch, no texture and no array memory: those names raise `UnsupportedError`.
"""

import math
from typing import Any

import numpy as np
import psutil

from trtcpu import _openvino
from trtcpu.device import memory
from trtcpu.device.memory import CudaError, DeviceMemoryError, LogicError, OutOfMemoryError
from trtcpu.device.streams import DEFAULT_STREAM, Event, Stream, stream_from_handle, synchronize_all
from trtcpu.errors import UnsupportedError

__all__ = [
    "Context",
    "Device",
    "DeviceAllocation",
    "DeviceMemoryError",
    "Error",
    "Event",
    "LogicError",
    "MemoryError",
    "Stream",
    "from_device",
    "from_device_like",
    "init",
    "mem_alloc",
    "mem_get_info",
    "memcpy_dtod",
    "memcpy_dtod_async",
    "memcpy_dtoh",
    "memcpy_dtoh_async",
    "memcpy_htod",
    "memcpy_htod_async",
    "memset_d8",
    "memset_d8_async",
    "pagelocked_empty",
    "pagelocked_empty_like",
    "pagelocked_zeros",
    "pagelocked_zeros_like",
    "stream_from_handle",
    "to_device",
]

Error = CudaError
MemoryError = OutOfMemoryError

_UNSUPPORTED = frozenset(
    "Array ArrayDescriptor Function In InOut Linker Module Out SurfaceReference TextureReference aligned_empty "
    "from_array managed_empty matrix_to_array mem_alloc_pitch memcpy_atoh memcpy_htoa memcpy_peer memset_d16 "
    "memset_d2d8 memset_d32 module_from_buffer module_from_file register_host_memory start_profiler "
    "stop_profiler".split()
)


def __getattr__(name: str) -> Any:
    if name in _UNSUPPORTED:
        raise UnsupportedError(f"the CPU engine has no cuda.{name}: it has no kernels, textures or managed memory")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class HostArrayError(LogicError, ValueError):
    """A host array that cannot be copied as it is; pycuda raises ValueError too."""


class DeviceAllocation:
    """Device memory that is freed with this object, or earlier by `free`; `int()` gives its address."""

    def __init__(self, nbytes: int) -> None:
        self._address = 0
        self._address = memory.allocate(nbytes)
        self._live = True

    def __int__(self) -> int:
        return self._address

    __index__ = __int__

    def __repr__(self) -> str:
        return f"<DeviceAllocation at {self._address:#x}{'' if self._live else ', freed'}>"

    def free(self) -> None:
        """Free the memory.

        Raises:
            LogicError: it was freed already.
        """
        if not self._live:
            raise DeviceMemoryError(f"device allocation {self._address:#x} was freed already; free it once")
        memory.release(self._address)
        self._live = False

    def __del__(self) -> None:
        if getattr(self, "_live", False):
            memory.release(self._address)


Pointer = DeviceAllocation | int


class Device:
    """The one device: this machine's processor."""

    def __init__(self, ordinal: int = 0) -> None:
        if ordinal != 0:
            raise LogicError(f"there is no device {ordinal}; the CPU engine has device 0 only")

    @staticmethod
    def count() -> int:
        """Return 1."""
        return 1

    def name(self) -> str:
        """Return the processor's name, marked as the CPU engine's."""
        return f"CPU engine, {_openvino.cpu_name()}"

    def total_memory(self) -> int:
        """Return the machine's memory in bytes."""
        return psutil.virtual_memory().total

    def compute_capability(self) -> tuple[int, int]:
        """Raise UnsupportedError: a CPU has no compute capability."""
        raise UnsupportedError("the CPU engine has no compute capability; it runs on the processor, not on a GPU")

    def make_context(self, flags: int = 0) -> "Context":
        """Return a context; the CPU engine needs none."""
        return Context()

    retain_primary_context = make_context


class Context:
    """The driver's context: kept for its calls, without effect except `synchronize`."""

    @staticmethod
    def pop() -> None:
        """Accepted; there is nothing to make current, to take away or to release."""

    push = detach = pop

    @staticmethod
    def get_device() -> Device:
        """Return the one device."""
        return Device(0)

    @staticmethod
    def synchronize() -> None:
        """Wait for every stream and raise the first error of their work."""
        synchronize_all()


def init(flags: int = 0) -> None:
    """Accepted; there is no driver to start."""


def mem_alloc(bytes: int) -> DeviceAllocation:
    """Allocate device memory; its size in bytes may come from NumPy.

    Raises:
        LogicError: the size is not positive.
        MemoryError: the machine has not that much memory left.
    """
    return DeviceAllocation(int(bytes))


def mem_get_info() -> tuple[int, int]:
    """Return (free, total) bytes of the machine's memory."""
    machine = psutil.virtual_memory()
    return machine.available, machine.total


def _host_bytes(array: Any, writable: bool) -> np.ndarray:
    """Return a C-contiguous host buffer as uint8 `[nbytes]` without copying."""
    host = array if isinstance(array, np.ndarray) else np.frombuffer(array, np.uint8)
    if not host.flags.c_contiguous:
        raise HostArrayError(
            f"the host array of shape {host.shape} is not contiguous in C order; pass np.ascontiguousarray(array)"
        )
    if writable and not host.flags.writeable:
        raise HostArrayError("the host array to copy to is read-only; pass an array of its own, such as np.empty")
    return host.reshape(-1).view(np.uint8)


def memcpy_htod(dest: Pointer, src: Any) -> None:
    """Copy the host array `src` to device memory, after all enqueued work."""
    host = _host_bytes(src, writable=False)
    synchronize_all(blocking_only=True)
    np.copyto(memory.view(dest, host.nbytes), host)


def memcpy_dtoh(dest: Any, src: Pointer) -> None:
    """Fill the host array `dest` from device memory, after all enqueued work."""
    host = _host_bytes(dest, writable=True)
    synchronize_all(blocking_only=True)
    np.copyto(host, memory.view(src, host.nbytes))


def memcpy_dtod(dest: Pointer, src: Pointer, size: int) -> None:
    """Copy `size` bytes within device memory, after all enqueued work."""
    synchronize_all(blocking_only=True)
    np.copyto(memory.view(dest, size), memory.view(src, size))


def memset_d8(dest: Pointer, data: int, size: int) -> None:
    """Set `size` bytes of device memory to `data`, after all enqueued work."""
    synchronize_all(blocking_only=True)
    memory.view(dest, size).fill(data)


def memcpy_htod_async(dest: Pointer, src: Any, stream: Stream | None = None) -> None:
    """Copy the host array `src` to device memory in the stream's order.

    Pageable memory is read before the call returns; page-locked memory when the stream gets there, so it must not
    change before `stream.synchronize()`.
    """
    stream, host = stream or DEFAULT_STREAM, _host_bytes(src, writable=False)
    device = memory.view(dest, host.nbytes)
    if memory.is_pagelocked(host.ctypes.data):
        stream.submit(lambda: np.copyto(device, host))
    elif stream.try_now(lambda: np.copyto(device, host)):
        return
    else:
        staged = host.copy()
        stream.submit(lambda: np.copyto(device, staged))


def memcpy_dtoh_async(dest: Any, src: Pointer, stream: Stream | None = None) -> None:
    """Fill the host array `dest` from device memory in the stream's order.

    Pageable memory is filled when the call returns; read page-locked memory after `stream.synchronize()`.
    """
    stream, host = stream or DEFAULT_STREAM, _host_bytes(dest, writable=True)
    device = memory.view(src, host.nbytes)
    if memory.is_pagelocked(host.ctypes.data):
        stream.submit(lambda: np.copyto(host, device))
    elif not stream.try_now(lambda: np.copyto(host, device)):
        stream.submit(lambda: np.copyto(host, device))
        stream.finish()


def memcpy_dtod_async(dest: Pointer, src: Pointer, size: int, stream: Stream | None = None) -> None:
    """Copy `size` bytes within device memory in the stream's order."""
    target, source = memory.view(dest, size), memory.view(src, size)
    (stream or DEFAULT_STREAM).submit(lambda: np.copyto(target, source))


def memset_d8_async(dest: Pointer, data: int, size: int, stream: Stream | None = None) -> None:
    """Set `size` bytes of device memory to `data` in the stream's order."""
    target = memory.view(dest, size)
    (stream or DEFAULT_STREAM).submit(lambda: target.fill(data))


def to_device(bf_obj: Any) -> DeviceAllocation:
    """Return new device memory that holds the host array's bytes."""
    allocation = mem_alloc(_host_bytes(bf_obj, writable=False).nbytes)
    memcpy_htod(allocation, bf_obj)
    return allocation


def from_device(devptr: Pointer, shape: tuple[int, ...] | int, dtype: Any, order: str = "C") -> np.ndarray:
    """Return a new host array of that shape and type, filled from device memory."""
    flat = np.empty(shape, dtype).reshape(-1)
    memcpy_dtoh(flat, devptr)
    return flat.reshape(shape, order=order)


def from_device_like(devptr: Pointer, other_ary: np.ndarray) -> np.ndarray:
    """Return a new host array like `other_ary`, filled from device memory."""
    return from_device(devptr, other_ary.shape, other_ary.dtype)


def pagelocked_empty(shape: tuple[int, ...] | int, dtype: Any, order: str = "C", mem_flags: int = 0) -> np.ndarray:
    """Return an uninitialised page-locked array: asynchronous copies from it are asynchronous indeed."""
    dims = tuple(shape) if isinstance(shape, (tuple, list)) else (int(shape),)
    flat = memory.pagelocked_buffer(math.prod(dims) * np.dtype(dtype).itemsize)
    return flat.view(dtype).reshape(dims, order=order)


def pagelocked_zeros(shape: tuple[int, ...] | int, dtype: Any, order: str = "C", mem_flags: int = 0) -> np.ndarray:
    """Return a page-locked array of zeros."""
    array = pagelocked_empty(shape, dtype, order, mem_flags)
    array.fill(0)
    return array


def pagelocked_empty_like(array: np.ndarray, mem_flags: int = 0) -> np.ndarray:
    """Return an uninitialised page-locked array of `array`'s shape and type."""
    return pagelocked_empty(array.shape, array.dtype, mem_flags=mem_flags)


def pagelocked_zeros_like(array: np.ndarray, mem_flags: int = 0) -> np.ndarray:
    """Return a page-locked array of zeros of `array`'s shape and type."""
    return pagelocked_zeros(array.shape, array.dtype, mem_flags=mem_flags)
