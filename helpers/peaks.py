"""The peaks of this machine, measured: arithmetic by a large matrix product, bandwidth by a large copy."""

import time
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["ITEM_BYTES", "measured_peaks"]

ITEM_BYTES = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "int8": 1}
CPU_SIZE, GPU_SIZE = 1024, 8192
COPY_BYTES = {"cpu": 1 << 28, "cuda": 1 << 30}
LEAST_REPEATS, LEAST_SECONDS = 32, 0.5


def measured_peaks(
    precisions: Iterable[str], device: str, threads: int | None = None
) -> tuple[dict[str, float], float]:
    """Measure with torch on `device` ("cpu" or "cuda").

    On a CPU fp16 is measured as bf16, which is what such engines compute in, and tf32 as fp32.

    Returns:
        GFLOP/s by precision (of int8: giga-operations), without those that torch cannot multiply here; and the
        bandwidth in GB/s, reads plus writes.
    """
    import torch

    if device == "cpu" and threads:
        torch.set_num_threads(threads)
    peaks = {}
    for precision in sorted(set(precisions) & set(ITEM_BYTES)):
        try:
            peaks[precision] = _peak_gflops(torch, precision, device)
        except (RuntimeError, NotImplementedError):  # no kernel of this precision on this device
            continue
    return peaks, _bandwidth(torch, device)


def _peak_gflops(torch: Any, precision: str, device: str) -> float:
    size = GPU_SIZE if device == "cuda" else CPU_SIZE
    if precision == "int8":
        left, right = (torch.randint(-127, 127, (size, size), dtype=torch.int8, device=device) for _ in range(2))
        if device == "cuda":  # tensor cores take the second factor column by column; the other way a slow kernel runs
            right = right.t()
        seconds = _best_seconds(torch, device, lambda: torch._int_mm(left, right))
    else:
        kind = _torch_type(torch, precision, device)
        left, right = (torch.randn(size, size, device=device).to(kind) for _ in range(2))
        out = torch.empty_like(left)
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        try:
            seconds = _best_seconds(torch, device, lambda: torch.matmul(left, right, out=out))
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before
    return 2 * size**3 / seconds / 1e9


def _torch_type(torch: Any, precision: str, device: str) -> Any:
    if precision in ("fp16", "bf16"):
        return torch.float16 if precision == "fp16" and device == "cuda" else torch.bfloat16
    return torch.float32


def _bandwidth(torch: Any, device: str) -> float:
    source = torch.ones(COPY_BYTES[device], dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * source.numel() / _best_seconds(torch, device, lambda: target.copy_(source)) / 1e9


def _best_seconds(torch: Any, device: str, work: Callable[[], Any]) -> float:
    """Return the shortest of many times: a peak is what the machine can do, not what it did on average.

    Beside other processes few of them are undisturbed: a product of 1 ms takes 80 where a thread has to wait.
    """
    wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    work()
    wait()
    times: list[float] = []
    while len(times) < LEAST_REPEATS or sum(times) < LEAST_SECONDS:
        start = time.perf_counter()
        work()
        wait()
        times.append(time.perf_counter() - start)
    return min(times)
