"""Is a peak of memory seen, and only while it is watched?"""

import mmap
import sys
import time
import types

import numpy as np
import psutil
import pytest

from helpers.engine import memory

MIB = 1 << 20


def _held(mebibytes: int) -> np.ndarray:
    """Return new pages, each written to: not from the C library, which may keep what it frees (keep_freed_memory)."""
    pages = np.frombuffer(mmap.mmap(-1, mebibytes * MIB), np.uint8)
    pages.fill(1)
    return pages


def _touch(mebibytes: int) -> None:
    _held(mebibytes)


def test_process_memory_agrees_with_psutil() -> None:
    assert abs(memory.process_memory_bytes() - psutil.Process().memory_info().rss) < 32 * MIB


def test_peak_sees_memory_that_is_freed_before_the_end() -> None:
    before = memory.process_memory_bytes()
    with memory.PeakMemory() as peak:
        _touch(128)
    assert peak.process_bytes - before > 120 * MIB


def test_a_peak_before_the_block_does_not_count() -> None:
    _touch(128)
    before = memory.process_memory_bytes()
    with memory.PeakMemory() as peak:
        _touch(1)
    assert peak.process_bytes - before < 64 * MIB


def test_without_the_kernel_mark_a_thread_samples(monkeypatch) -> None:
    monkeypatch.setattr(memory, "_reset_high_water_mark", lambda: False)
    before = memory.process_memory_bytes()
    with memory.PeakMemory() as peak:
        held = _held(64)
        deadline = time.monotonic() + 20
        while peak.process_bytes - before <= 60 * MIB and time.monotonic() < deadline:
            time.sleep(memory.SAMPLE_SECONDS)
        del held
    assert peak.process_bytes - before > 60 * MIB


def test_the_peak_is_kept_when_the_block_raises() -> None:
    peak = memory.PeakMemory()
    try:
        with peak:
            raise ValueError
    except ValueError:
        pass
    assert peak.process_bytes > 0


def test_gpu_memory_is_none_or_positive() -> None:
    used = memory.gpu_memory_bytes()
    assert used is None or used > 0


@pytest.mark.parametrize(
    ("visible", "device", "asked"), [("", 1, 1), ("3,2", 1, 2), ("GPU-5a, GPU-7c", 1, "GPU-7c"), ("2", 0, 2)]
)
def test_gpus_are_counted_as_cuda_counts_them(
    monkeypatch: pytest.MonkeyPatch, visible: str, device: int, asked: int | str
) -> None:
    nvml = types.SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
        nvmlDeviceGetMemoryInfo=lambda handle: types.SimpleNamespace(used={asked: 7}[handle]),
        NVMLError=RuntimeError,
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert memory.gpu_memory_bytes(device, whole_device=True) == 7
