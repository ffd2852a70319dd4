"""What the lab uses of pycuda.driver, on NVIDIA's cuda-python: its wheels need no compiler and no CUDA toolkit.

    driver.py    the one door: a call by name, results as pycuda's exceptions
    device.py    the GPU, its primary context (PyTorch's too), and handles that are released with their owners
    streams.py   streams and events
    memory.py    allocations, page-locked arrays, copies

Names, arguments and errors are pycuda's, so that notebooks run on either. Kernels, textures, arrays and contexts of
one's own are not here: code that needs them needs pycuda itself.
"""

from typing import NoReturn

from helpers.engine.cuda_python.device import (
    Context,
    Device,
    device_attribute,
    get_driver_version,
    get_version,
    init,
    use_primary_context,
)
from helpers.engine.cuda_python.driver import Error, LaunchError, LogicError, MemoryError, RuntimeError
from helpers.engine.cuda_python.memory import (
    DeviceAllocation,
    from_device,
    from_device_like,
    mem_alloc,
    mem_get_info,
    memcpy_dtod,
    memcpy_dtod_async,
    memcpy_dtoh,
    memcpy_dtoh_async,
    memcpy_htod,
    memcpy_htod_async,
    memset_d8,
    memset_d8_async,
    memset_d32,
    memset_d32_async,
    pagelocked_empty,
    pagelocked_empty_like,
    pagelocked_zeros,
    pagelocked_zeros_like,
    to_device,
)
from helpers.engine.cuda_python.streams import Event, Stream

__all__ = [
    "Context",
    "Device",
    "DeviceAllocation",
    "Error",
    "Event",
    "LaunchError",
    "LogicError",
    "MemoryError",
    "RuntimeError",
    "Stream",
    "device_attribute",
    "from_device",
    "from_device_like",
    "get_driver_version",
    "get_version",
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
    "memset_d32",
    "memset_d32_async",
    "pagelocked_empty",
    "pagelocked_empty_like",
    "pagelocked_zeros",
    "pagelocked_zeros_like",
    "to_device",
    "use_primary_context",
]


def __getattr__(name: str) -> NoReturn:
    hint = "" if name.startswith("_") else "; where pycuda.driver has it, install that: pip install pycuda"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
