"""A run of benchmark_latency with a model that keeps a log: what it returned, and what its calls really took."""

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers.checks.missed import Missed

UNITS = {0: "milliseconds", 1: "seconds", -1: "microseconds", -2: "nanoseconds"}
"""By the power of 1000 that turns them into milliseconds."""


@dataclass(frozen=True)
class Timed:
    """What benchmark_latency returned, the model's log, and of which number of calls the statistics must be.

    `simulated` tells a simulated clock; without `known`, the code read another one and nothing is known. `strangers`
    counts the calls with another input than the one handed over.
    """

    numbers: dict[str, float]
    others: dict[str, str]
    log: dict[str, Any]
    iterations: int
    simulated: bool = True
    known: bool = True
    strangers: int = 0

    @property
    def calls(self) -> int:
        """How often the model was called."""
        return len(self.log["start_s"])

    def true_ms(self, column: str = "end_s") -> np.ndarray:
        """Return the true latencies of all calls in milliseconds, until `end_s` or until `waited_s`."""
        return (self.log[column] - self.log["start_s"]) * 1e3

    @property
    def times(self) -> np.ndarray:
        """The true latencies of the timed calls in milliseconds."""
        return self.true_ms()[-self.iterations :]

    def bounds(
        self, statistic: Callable[[np.ndarray], tuple[float, float]], first: int | None = None
    ) -> tuple[float, float]:
        """Return the least and largest true value of a statistic, which says its own range, of the timed calls.

        On the machine's clock a wait for work that is done takes its time too: a latency may end before the wait that
        follows its call, or after. Without `first`, the last `iterations` calls are the timed ones.
        """
        first, ends = -self.iterations if first is None else first, [self.true_ms()]
        if not self.simulated:
            followed = self.log["waited_s"] <= np.append(self.log["start_s"][1:], np.inf)  # before the next call came
            ends.append(np.where(followed, self.true_ms("waited_s"), ends[0]))
        low, high = zip(*(statistic(times[first:]) for times in ends), strict=True)
        return min(low), max(high)

    def figure(self, name: str) -> float:
        """Return a statistic by its name, with or without _ms; raise Missed where it is no finite number."""
        value = self.numbers.get(f"{name}_ms", self.numbers.get(name))
        if value is None or not math.isfinite(value):
            kind = self.others.get(f"{name}_ms", self.others.get(name))
            found = f"a {kind}" if kind else f"{value}" if value is not None else f"the keys {sorted(self.numbers)}"
            advice = "return a dictionary with the five keys of the task"
            if value is not None:
                advice = "a percentile and a mean exist for any number of latencies, few ones too"
            raise Missed(f"a finite number under {name}_ms of {self.iterations} latencies", found, advice)
        return value

    @property
    def unit(self) -> int:
        """The power of 1000 that turns what was returned into milliseconds: a wrong unit costs one point here."""
        truth = {"mean": float(self.times.mean()), "median": statistics.median(self.times.tolist())}
        found = {name: self.numbers.get(f"{name}_ms", self.numbers.get(name, 0.0)) for name in truth}
        powers = [math.log(truth[name] / value, 1e3) for name, value in found.items() if 1e-99 < value < math.inf]
        nearest = min(powers, key=lambda power: abs(power - round(power)), default=0.0)
        return min(UNITS, key=lambda power: abs(power - nearest))

    def in_ms(self, name: str) -> float:
        """Return a statistic in milliseconds, whatever unit it came in."""
        return 1e3**self.unit * self.figure(name)
