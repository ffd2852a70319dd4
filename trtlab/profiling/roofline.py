"""The roofline of this machine, from its measured peaks.

A layer whose arithmetic intensity (FLOP per byte moved) lies left of the ridge, peak / bandwidth, cannot be faster than
the memory allows; right of it the arithmetic units are the limit. Williams, Waterman, Patterson: Roofline, CACM 52
(2009).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from helpers.engine.peaks import measured_peaks


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
    """Measure the roofline of `device`, as helpers.engine.peaks.measured_peaks does."""
    return Roofline(device, *measured_peaks(precisions, device, threads))
