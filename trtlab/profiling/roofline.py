"""The roofline of this machine, from its measured peaks.

A layer whose arithmetic intensity (FLOP per byte moved) lies left of the ridge, peak / bandwidth, cannot be faster than
the memory allows; right of it the arithmetic units are the limit. Williams, Waterman, Patterson: Roofline, CACM 52
(2009).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from helpers.engine.backend import ENGINE
from helpers.engine.peaks import measured_peaks
from trtlab.timing.runners import physical_cores


@dataclass(frozen=True)
class Roofline:
    """Peaks of a device: `peak_gflops` by precision (int8: giga-operations), `bandwidth_gb_s` of reads plus writes."""

    device: str
    peak_gflops: dict[str, float]
    bandwidth_gb_s: float

    def ridge(self, precision: str) -> float:
        """Return the intensity in FLOP/byte from which a precision that was measured is compute-bound."""
        return self.peak_gflops[precision] / self.bandwidth_gb_s

    def least_ms(self, precision: str, flops: float, moved_bytes: float) -> float:
        """Return the time in ms below which the roof lets no layer go, in a precision that was measured."""
        return max(flops / self.peak_gflops[precision], moved_bytes / self.bandwidth_gb_s) / 1e6

    def raised(self, attained_gflops: Sequence[tuple[str, float]]) -> "Roofline":
        """Return the roofline with each measured peak no lower than any rate that a layer attained in the same run."""
        peaks = {
            precision: max([peak, *(gflops for name, gflops in attained_gflops if name == precision)])
            for precision, peak in self.peak_gflops.items()
        }
        return replace(self, peak_gflops=peaks)


def measure_roofline(precisions: Iterable[str]) -> Roofline:
    """Measure the roofline of the device that engines run on; without the precisions that it cannot multiply in."""
    device = "cuda" if ENGINE == "tensorrt" else "cpu"
    return Roofline(device, *measured_peaks(precisions, device, physical_cores()))
