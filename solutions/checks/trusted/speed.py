"""Compares two speeds in one run: interleaved pairs, the ratio of throughputs, its confidence interval.

Never in milliseconds: a grade must not depend on the machine, nor on its load.
"""

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from scipy import stats

from helpers.checks.missed import Missed
from helpers.checks.points.task import Earned
from solutions.checks.trusted.stillness import still

Turn = Callable[[int], float]
"""Runs something this many times in a row; returns the median seconds of an execution."""

FULL, NONE = 0.9, 0.6
_LEAST_PAIRS, _MOST_PAIRS = 5, 20
_NARROW = 0.05
_PAIR_SECONDS = 0.4


@dataclass(frozen=True)
class Ratio:
    """The ratio of two speeds: the median of the pairs, and the 95 % interval of their geometric mean."""

    median: float
    low: float
    high: float
    pairs: int

    def __str__(self) -> str:
        return f"{self.median:.2f} (95 % interval {self.low:.2f} to {self.high:.2f}, {self.pairs} pairs)"


def compare_speed(ours: Turn, other: Turn, bounds: tuple[float, ...] = (NONE, FULL)) -> Ratio:
    """Return how many times as fast `ours` is as `other`.

    At least five pairs, and more until the interval is within ±5 % or clear of every bound. The order alternates from
    pair to pair, so a disturbance or a warming processor hits both.
    """
    logs: list[float] = []
    with still():
        executions = _executions(other)
        ours(executions)
        while len(logs) < _LEAST_PAIRS or (len(logs) < _MOST_PAIRS and not _settled(logs, bounds)):
            first, second = (ours, other) if len(logs) % 2 else (other, ours)
            times = {id(turn): turn(executions) for turn in (first, second)}
            logs.append(math.log(times[id(other)] / times[id(ours)]))
    return Ratio(*map(math.exp, (statistics.median(logs), *_interval(logs))), len(logs))


def _settled(logs: list[float], bounds: tuple[float, ...]) -> bool:
    low, high = _interval(logs)
    return high - low <= 2 * _NARROW or not any(low <= math.log(bound) <= high for bound in bounds)


def judge_ratio(ratio: Ratio, what: str, try_this: str) -> Earned:
    """Give full points from 0.9 of the reference's speed, none below 0.6, a share in between.

    The interval's upper end counts: noise must not cost points.
    """
    share = (ratio.high - NONE) / (FULL - NONE)
    missed = None
    if ratio.high < FULL:
        missed = Missed(f"{what}: at least {FULL} of the reference engine's speed", str(ratio), try_this)
    return Earned(round(min(1.0, max(0.0, share)), 2), f"{what}: {ratio}", missed)


def _executions(turn: Turn) -> int:
    """Return how many executions fill one turn; the first one is a warm-up."""
    turn(1)
    return max(1, min(200, round(_PAIR_SECONDS / 2 / max(turn(1), 1e-5))))


def _interval(logs: list[float]) -> tuple[float, float]:
    mean, spread = statistics.fmean(logs), statistics.stdev(logs) / math.sqrt(len(logs))
    half = float(stats.t.ppf(0.975, len(logs) - 1)) * spread
    return mean - half, mean + half
