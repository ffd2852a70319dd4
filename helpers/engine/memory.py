"""How much memory a run takes: GPU memory through NVML, process memory if there is no GPU.

with PeakMemory() as peak:
    engine.infer(batch)
print(peak.process_bytes, peak.gpu_bytes)
"""

import ctypes
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

SAMPLE_SECONDS = 0.005
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")


def process_memory_bytes() -> int:
    """Return this process's resident memory (RSS)."""
    return psutil.Process().memory_info().rss


def keep_freed_memory() -> bool:
    """Let this process keep what it frees, for a PyTorch baseline at its best; return whether the C library does.

    glibc gives every block above 32 MB back to the system as soon as it is freed, and eager PyTorch frees each layer's
    output: at large batches it then pays page faults for every layer of every call (ResNet-50, batch 32, two cores:
    7 images/s instead of 12). The parameters are those of glibc's mallopt(3); other C libraries are left alone.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(_M_MMAP_MAX, 0) and mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))


def gpu_memory_bytes(device: int = 0, *, whole_device: bool = False) -> int | None:
    """Return the GPU memory of this process in bytes, as NVML sees it; None if there is no NVIDIA GPU or driver.

    `device` counts as CUDA does: among those of CUDA_VISIBLE_DEVICES, if that is set.
    Inside a container NVML cannot tell processes apart; then, and with `whole_device`, it is all that is in use there.
    """
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no package, no driver or no device: all mean "no GPU to measure"
        return None
    try:
        handle = _handle(pynvml, device)
        own = None if whole_device else _own_gpu_bytes(pynvml, handle)
        return int(pynvml.nvmlDeviceGetMemoryInfo(handle).used) if own is None else own
    except pynvml.NVMLError:
        return None
    finally:
        pynvml.nvmlShutdown()


def _handle(pynvml: Any, device: int) -> Any:
    """NVML numbers all of the machine's GPUs and does not know CUDA_VISIBLE_DEVICES."""
    visible = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    chosen = visible[device] if device < len(visible) else str(device)
    if chosen.isdigit():
        return pynvml.nvmlDeviceGetHandleByIndex(int(chosen))
    return pynvml.nvmlDeviceGetHandleByUUID(chosen)


def _own_gpu_bytes(pynvml: Any, handle: Any) -> int | None:
    for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle):
        if process.pid == os.getpid() and process.usedGpuMemory is not None:
            return int(process.usedGpuMemory)
    return None


class PeakMemory:
    """The highest memory while the block runs, in bytes: `process_bytes`, and `gpu_bytes` (None without a GPU).

    On Linux the kernel's own high-water mark (VmHWM, reset on entry through /proc/self/clear_refs) is used for the
    process, so that no short peak is missed; elsewhere, and for the GPU, a thread samples every 5 ms.
    """

    process_bytes: int
    gpu_bytes: int | None

    def __init__(self, *, whole_device: bool = False) -> None:
        """`whole_device` counts every process on the GPU, for a difference that is right inside a container too."""
        self._whole_device = whole_device

    def __enter__(self) -> "PeakMemory":
        self._kernel_mark = _reset_high_water_mark()
        self.process_bytes = process_memory_bytes()
        self.gpu_bytes = gpu_memory_bytes(whole_device=self._whole_device)
        self._stop = threading.Event()
        self._sampler: threading.Thread | None = None
        if not self._kernel_mark or self.gpu_bytes is not None:
            self._sampler = threading.Thread(target=self._sample_until_stopped, daemon=True)
            self._sampler.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._sampler is not None:
            self._sampler.join()
        self._sample()
        if self._kernel_mark:
            self.process_bytes = max(self.process_bytes, _high_water_mark())

    def _sample_until_stopped(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            self._sample()

    def _sample(self) -> None:
        self.process_bytes = max(self.process_bytes, process_memory_bytes())
        if self.gpu_bytes is not None:
            self.gpu_bytes = max(self.gpu_bytes, gpu_memory_bytes(whole_device=self._whole_device) or 0)


def _reset_high_water_mark() -> bool:
    """Ask the kernel to restart VmHWM; False if it cannot (not Linux, or /proc is read-only)."""
    try:
        _CLEAR_REFS.write_text("5")
        return _high_water_mark() > 0
    except OSError:
        return False


def _high_water_mark() -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0
