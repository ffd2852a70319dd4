"""Throughput: images per second with the queue kept full, every runner in turns in the same run."""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trtlab.timing.runners import Runner


@dataclass(frozen=True)
class Throughput:
    """Images per second of one runner at one batch size: the median over the turns.

    `executions` and `seconds` are those of all turns together.
    """

    name: str
    batch: int
    images_per_s: float
    executions: int
    seconds: float


def measure_throughput(
    runners: Sequence[Runner],
    batch_sizes: Sequence[int],
    *,
    seconds: float,
    rounds: int = 4,
    progress: Callable[[str], None] = lambda text: None,
) -> list[Throughput]:
    """Run each runner for about `seconds` at each batch size that it takes, split into `rounds` turns.

    The runners take turns so that a drift of the machine's clock meets all alike; the median turn counts, so that one
    disturbed by another program does not. Only executions that have been waited for are counted.
    """
    results = []
    for batch in sorted(set(batch_sizes)):
        fitting = [runner for runner in runners if runner.min_batch <= batch <= runner.max_batch]
        for runner in fitting:
            runner.bind(batch)
            _run_group(runner, 1)
        turns: dict[str, list[tuple[int, float]]] = {runner.name: [] for runner in fitting}
        for turn in range(rounds):
            for runner in fitting:
                progress(f"batch {batch}: {runner.name}, turn {turn + 1} of {rounds}")
                turns[runner.name].append(_turn(runner, seconds / rounds))
        for name, measured in turns.items():
            executions, elapsed = sum(count for count, _ in measured), sum(each for _, each in measured)
            rate = batch * statistics.median(count / each for count, each in measured)
            results.append(Throughput(name, batch, rate, executions, elapsed))
    return results


def _turn(runner: Runner, seconds: float) -> tuple[int, float]:
    """Return executions and seconds of one turn; its first execution is not counted, so that caches settle."""
    group = max(1, min(runner.in_flight, math.floor(seconds / max(_run_group(runner, 1), 1e-6))))
    executions, start = 0, time.perf_counter()
    while True:
        _run_group(runner, group)
        executions += group
        elapsed = time.perf_counter() - start
        if elapsed >= seconds:
            return executions, elapsed


def _run_group(runner: Runner, number: int) -> float:
    """Enqueue `number` executions, wait for all of them, and return the seconds that this took."""
    start = time.perf_counter()
    for _ in range(number):
        runner.enqueue()
    runner.synchronize()
    return time.perf_counter() - start
