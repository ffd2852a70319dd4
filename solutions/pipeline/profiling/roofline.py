"""The roofline of this machine, measured: arithmetic from a large matrix product, bandwidth from a large copy.

A layer whose arithmetic intensity (FLOP per byte moved) lies left of the ridge, peak / bandwidth, cannot be faster than
the memory allows; right of it the arithmetic units are the limit. Williams, Waterman, Patterson: Roofline, CACM 52
(2009).
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["ITEM_BYTES", "Roofline", "measure_roofline"]

ITEM_BYTES = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "int8": 1}
CPU_SIZE, GPU_SIZE = 1024, 4096
COPY_BYTES = {"cpu": 1 << 28, "cuda": 1 << 30}
LEAST_REPEATS, LEAST_SECONDS = 8, 0.5


@dataclass(frozen=True)
class Roofline:
    """Peaks of a device: `peak_gflops` by precision (int8: giga-operations), `bandwidth_gb_s` of reads plus writes."""

    device: str
    peak_gflops: dict[str, float]
    bandwidth_gb_s: float

    def ridge(self, precision: str) -> float | None:
        """Return the intensity in FLOP/byte from which `precision` is compute-bound; None if it was not measured."""
        peak = self.peak_gflops.get(precision)
        return None if peak is None else peak / self.bandwidth_gb_s

    def bound(self, precision: str, intensity: float | None) -> str | None:
        """Return "compute" or "memory", or None where the intensity or the peak is unknown."""
        ridge = self.ridge(precision)
        if ridge is None or intensity is None:
            return None
        return "compute" if intensity >= ridge else "memory"

    def raised(self, attained_gflops: Iterable[tuple[str, float]]) -> "Roofline":
        """Return the roofline with each measured peak no lower than any rate that a layer attained in the same run."""
        peaks = dict(self.peak_gflops)
        for precision, gflops in attained_gflops:
            if precision in peaks:
                peaks[precision] = max(peaks[precision], gflops)
        return replace(self, peak_gflops=peaks)

    def least_ms(self, precision: str, flops: float, moved_bytes: float) -> float | None:
        """Return the time in ms below which the roof lets no layer go; None if the precision was not measured."""
        peak = self.peak_gflops.get(precision)
        return None if peak is None else max(flops / peak, moved_bytes / self.bandwidth_gb_s) / 1e6


def measure_roofline(precisions: Iterable[str], device: str, threads: int | None = None) -> Roofline:
    """Measure with torch on `device` ("cpu" or "cuda"); a precision that torch cannot multiply here is left out.

    On a CPU fp16 is measured as bf16, which is what such engines compute in, and tf32 as fp32.
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
    return Roofline(device, peaks, _bandwidth(torch, device))


def _peak_gflops(torch: Any, precision: str, device: str) -> float:
    size = GPU_SIZE if device == "cuda" else CPU_SIZE
    if precision == "int8":
        left, right = (torch.randint(-127, 127, (size, size), dtype=torch.int8, device=device) for _ in range(2))
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
    """Return the shortest of several times: a peak is what the machine can do, not what it did on average."""
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
