"""The GPU and its primary context, which PyTorch and every other user of CUDA's runtime in the process share."""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from helpers.engine.cuda_python.driver import Error, api, call

_NAME_BYTES = 1024
_primary = 0  # the handle of the primary context that `use_primary_context` made current


class _Attributes:
    """pycuda's short names of CUdevice_attribute: MULTIPROCESSOR_COUNT, CLOCK_RATE …"""

    def __getattr__(self, name: str) -> Any:
        return getattr(api().CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")


device_attribute = _Attributes()


class Device:
    """A GPU by its number, as CUDA counts: among those of CUDA_VISIBLE_DEVICES, if that is set."""

    def __init__(self, ordinal: int = 0) -> None:
        self._handle = int(call("cuDeviceGet", ordinal))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other._handle == self._handle

    def __hash__(self) -> int:
        return self._handle

    def __getattr__(self, name: str) -> int:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.get_attribute(getattr(device_attribute, name.upper()))

    @staticmethod
    def count() -> int:
        """Return the number of GPUs."""
        return call("cuDeviceGetCount")

    def name(self) -> str:
        """Return the product's name, such as "NVIDIA H200"."""
        return call("cuDeviceGetName", _NAME_BYTES, self._handle).partition(b"\0")[0].decode()

    def total_memory(self) -> int:
        """Return the memory in bytes."""
        return call("cuDeviceTotalMem", self._handle)

    def get_attribute(self, attribute: Any) -> int:
        """Return one of `device_attribute`."""
        return call("cuDeviceGetAttribute", attribute, self._handle)

    def compute_capability(self) -> tuple[int, int]:
        """Return (major, minor)."""
        return self.compute_capability_major, self.compute_capability_minor

    def retain_primary_context(self) -> "Context":
        """Return the context that all users of CUDA's runtime share; it is not made current."""
        return Context(int(call("cuDevicePrimaryCtxRetain", self._handle)))


class Context:
    """The primary context of a GPU; a context is current in one thread at a time, `push` makes it so in another."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def push(self) -> None:
        """Make it current in this thread."""
        call("cuCtxPushCurrent", self.handle)

    @staticmethod
    def pop() -> None:
        """Take the current context away from this thread; the one before is current again."""
        call("cuCtxPopCurrent")

    @staticmethod
    def get_device() -> Device:
        """Return the current context's GPU."""
        return Device(int(call("cuCtxGetDevice")))

    @staticmethod
    def synchronize() -> None:
        """Wait for all work of the current context."""
        call("cuCtxSynchronize")


def init(flags: int = 0) -> None:
    """Start the driver.

    Raises:
        RuntimeError: there is no GPU (this room's class), or no driver (Python's own).
    """
    call("cuInit", flags)


def use_primary_context() -> None:
    """Make the primary context current in this thread: of the GPU in use here, as PyTorch's, else of GPU 0."""
    global _primary
    init()
    current = int(call("cuCtxGetCurrent"))
    device = Context.get_device() if current else Device(0)
    _primary = device.retain_primary_context().handle
    if current != _primary:
        call("cuCtxSetCurrent", _primary)


@contextmanager
def _activated() -> Iterator[None]:
    """Have the primary context current in the block, whichever thread it runs in."""
    call("cuCtxPushCurrent", _primary)
    try:
        yield
    finally:
        call("cuCtxPopCurrent")


def released_with(owner: Any, routine: str, handle: int) -> weakref.finalize:
    """Release a handle by its routine when `owner` is collected; what lives until the process ends is the driver's."""
    finalizer = weakref.finalize(owner, _release, routine, handle)
    finalizer.atexit = False
    return finalizer


def _release(routine: str, handle: int) -> None:
    try:
        with _activated():
            call(routine, handle)
    except Error:  # as in pycuda: nobody can mend a failed clean-up, for instance after a kernel has crashed
        pass


def get_version() -> tuple[int, int, int]:
    """Return the CUDA that the bindings were made for."""
    version = int(api().CUDA_VERSION)
    return version // 1000, version % 1000 // 10, version % 10


def get_driver_version() -> int:
    """Return the newest CUDA that the driver can run, as 1000 × major + 10 × minor."""
    return call("cuDriverGetVersion")
