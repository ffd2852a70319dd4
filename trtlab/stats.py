"""Latency statistics over a run's per-query times.

Percentiles interpolate linearly between the two nearest ranks (Hyndman and Fan's type 7), as `numpy.percentile` does by
default, in every table, JSON and log of ours (NVIDIA's trtexec picks a rank instead). A percentile p of a summary needs
1 / (1 - p) calls, so that one lies beyond it: p99 of 20 calls would only be the slowest of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trtcpu.errors import InputError

# The percentiles of a summary.
TAILS = (90, 95, 99)

# Throughput times latency gives the batches in flight, one a stream; times or parts more than this contradict it.
MOST_APART = 3.0


def least_calls(percent: float) -> int:
    """Return how many calls the `percent`-th percentile (below 100) needs: 10 for p90, 20 for p95, 100 for p99."""
    return math.ceil(round(100 / (100 - percent), 6))


def tail(values: Sequence[float] | np.ndarray, percent: float) -> float | None:
    """Return the percentile, or None if there are fewer than `least_calls` of them."""
    return float(np.percentile(values, percent)) if np.size(values) >= least_calls(percent) else None


@dataclass(frozen=True)
class LatencyStats:
    """Statistics of one run's latencies in milliseconds; `std_ms` is the population's standard deviation (ddof 0).

    A percentile is None if `count` calls cannot give it.
    """

    count: int
    mean_ms: float
    median_ms: float
    p90_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
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
        return cls(
            count=times.size,
            mean_ms=float(times.mean()),
            median_ms=float(np.median(times)),
            p90_ms=tail(times, 90),
            p95_ms=tail(times, 95),
            p99_ms=tail(times, 99),
            std_ms=float(times.std()),
            min_ms=float(times.min()),
            max_ms=float(times.max()),
        )


def times_apart(batch: int, latency_ms: float, images_per_s: float, streams: int = 1) -> float | None:
    """Return how many times throughput and latency contradict each other, above `MOST_APART`; None if they agree.

    Args:
        latency_ms, images_per_s: NaN if it was not measured.
        streams: how many shared the throughput.
    """
    in_flight = images_per_s * latency_ms / (1e3 * batch)
    times = max(in_flight / streams, 1 / in_flight)
    return times if times > MOST_APART else None
