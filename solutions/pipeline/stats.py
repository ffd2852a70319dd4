"""Latency statistics over a run's per-query times.

Percentiles interpolate linearly between the two nearest ranks, as `numpy.percentile` does by default; trtexec picks a
rank instead (see trtexec_format.trtexec_percentile), so p99 of a short run can differ between the two.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from helpers.errors import InputError

__all__ = ["LatencyStats", "percentile"]


def percentile(values: Sequence[float] | np.ndarray, percent: float) -> float:
    """Return the `percent`-th percentile (0 to 100) of `values`, linear between ranks (Hyndman and Fan's type 7).

    Raises:
        InputError: no values, or `percent` outside 0 to 100.
    """
    if not 0 <= percent <= 100:
        raise InputError(f"a percentile lies between 0 and 100, not at {percent}")
    ordered = np.sort(np.asarray(values, dtype=np.float64).ravel())
    if not ordered.size:
        raise InputError("no times were measured, so there is no percentile; run at least one iteration")
    position = (ordered.size - 1) * percent / 100
    low = math.floor(position)
    high = min(low + 1, ordered.size - 1)
    return float(ordered[low] + (ordered[high] - ordered[low]) * (position - low))


@dataclass(frozen=True)
class LatencyStats:
    """Statistics of one run's latencies in milliseconds; `std_ms` is the population's standard deviation (ddof 0)."""

    count: int
    mean_ms: float
    median_ms: float
    p90_ms: float
    p95_ms: float
    p99_ms: float
    std_ms: float
    min_ms: float
    max_ms: float

    @classmethod
    def from_ms(cls, times_ms: Sequence[float] | np.ndarray) -> "LatencyStats":
        """Summarise per-query times in milliseconds.

        Raises:
            InputError: no times, or a time that is negative or not finite.
        """
        times = np.asarray(times_ms, dtype=np.float64).ravel()
        if not times.size:
            raise InputError("no times were measured; run at least one iteration")
        if not np.isfinite(times).all() or times.min() < 0:
            raise InputError("a measured time is negative or not finite; measure again with a monotonic clock")
        p50, p90, p95, p99 = (percentile(times, q) for q in (50, 90, 95, 99))
        return cls(
            count=times.size,
            mean_ms=float(times.mean()),
            median_ms=p50,
            p90_ms=p90,
            p95_ms=p95,
            p99_ms=p99,
            std_ms=float(times.std()),
            min_ms=float(times.min()),
            max_ms=float(times.max()),
        )
