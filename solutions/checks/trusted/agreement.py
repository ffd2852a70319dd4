"""Whether a student's figure and the trusted one agree, when both are taken in turns on a machine that may be busy."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy import stats

from helpers.missed import Missed

__all__ = ["Agreement", "agreement", "first_kept", "percentile_range"]

ATTEMPTS = 3
TOLERANCE = 0.10
_ROUNDS_IF_INCOMPARABLE, _LEAST_ROUNDS, _MOST_ROUNDS = 3, 5, 10
_SAME_MACHINE = 3.0
_NARROW, _FAR = 0.04, 1.5
_METHODS = (
    "inverted_cdf averaged_inverted_cdf closest_observation interpolated_inverted_cdf hazen weibull linear "
    "median_unbiased normal_unbiased lower higher midpoint nearest"
).split()

Value = TypeVar("Value")


def first_kept(measure: Callable[[int], Value], judge: Callable[[Value], str]) -> str:
    """Return the evidence of the first of three measurements that `judge` accepts.

    A busy machine can spoil a measurement, not make a wrong one right. What `measure` raises ends it at once: code that
    raised would do so again.

    Raises:
        Missed: none was accepted; what the last one lacked.
    """
    for attempt in range(ATTEMPTS):
        value = measure(attempt)
        try:
            return judge(value)
        except Missed as missed:
            if attempt == ATTEMPTS - 1:
                raise
            del missed
    raise AssertionError("unreachable")


@dataclass(frozen=True)
class Agreement:
    """The ratio of the student's figure to the trusted one: geometric mean and its 95 % interval."""

    mean: float
    low: float
    high: float
    rounds: int

    @property
    def within(self) -> bool:
        """Whether the interval reaches into one part in ten of the trusted figure: noise must not take points."""
        return self.high >= 1 - TOLERANCE and self.low <= 1 + TOLERANCE

    @property
    def comparable(self) -> bool:
        """Whether the two are of one size: all that can be said while the machine is very busy."""
        return 1 / _SAME_MACHINE < self.mean < _SAME_MACHINE

    @property
    def incomparable(self) -> bool:
        """Whether the two are surely not of one size, whatever noise there is."""
        return self.low > _SAME_MACHINE or self.high < 1 / _SAME_MACHINE

    @property
    def decided(self) -> bool:
        """Whether more rounds would change nothing: known within 4 %, surely within one part in ten, or far out."""
        narrow = self.high / self.low < (1 + _NARROW) ** 2
        inside = self.low >= 1 - TOLERANCE and self.high <= 1 + TOLERANCE
        return narrow or inside or self.low > _FAR or self.high < 1 / _FAR

    def __str__(self) -> str:
        interval = f"95 % interval {self.low:.3f} to {self.high:.3f}"
        return f"{self.mean:.3f} of the trusted figure ({interval}, {self.rounds} rounds)"


def agreement(ratio: Callable[[int], float]) -> Agreement:
    """Take rounds until the outcome is decided: five to ten, three where the figures are of different sizes.

    `ratio(round)` measures both in turn and returns the student's figure over the trusted one.
    """
    logs: list[float] = []
    while True:
        logs.append(math.log(max(ratio(len(logs)), 1e-9)))
        if len(logs) < _ROUNDS_IF_INCOMPARABLE:
            continue
        found = _interval(logs)
        if found.incomparable or (len(logs) >= _LEAST_ROUNDS and found.decided) or len(logs) == _MOST_ROUNDS:
            return found


def _interval(logs: Sequence[float]) -> Agreement:
    middle = statistics.fmean(logs)
    half = float(stats.t.ppf(0.975, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    half = min(half, 50.0)
    return Agreement(math.exp(middle), math.exp(middle - half), math.exp(middle + half), len(logs))


def percentile_range(times: np.ndarray, percent: float) -> tuple[float, float]:
    """Return the least and largest value that a sane definition of the percentile gives.

    NumPy's thirteen definitions, trtexec's rank and the rank int(n · p), which many write by hand.
    """
    ordered, number = np.sort(times), len(times)
    ranks = (number - 1 - int((1 - percent / 100) * number), int(number * percent / 100))
    values = [float(np.percentile(ordered, percent, method=method)) for method in _METHODS]
    values += [float(ordered[min(max(rank, 0), number - 1)]) for rank in ranks]
    return min(values), max(values)
