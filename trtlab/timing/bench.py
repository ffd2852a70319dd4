"""Latency and throughput that can be compared: every runner is timed in the same run, in turns.

How a latency is taken: buffers resident, one host clock around enqueue and synchronise, the garbage collector off, the
warm-up not counted. Runners take turns in blocks of about 0.1 s, so that a machine's drift hits all alike; where
executions are short, the first ones of a turn are not counted (caches and threads settle).

Throughput is images per second with the queue kept full.
"""

import gc
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from datetime import date
from pathlib import Path
from typing import Any

from helpers.tools.files import write_json
from trtcpu.errors import InputError
from trtlab.stats import TAILS, LatencyStats, least_calls
from trtlab.timing.options import BenchOptions
from trtlab.timing.runners import About, Runner

BLOCK_MS = 100.0
SETTLE_BELOW_MS = 50.0
SETTLE_MS = 3.0
LEAST_BLOCKS = 5
LEAST_CALLS = 3

Note = Callable[[str], None]


@dataclass(kw_only=True)
class BenchResult(About):
    """One runner at one batch. `images_per_s` counts back-to-back executions: batch / mean latency."""

    batch: int
    stats: LatencyStats
    images_per_s: float
    peak_memory_bytes: int | None
    warmup_queries: int = 0
    warmup_ms: float = 0.0
    times_ms: list[float] = field(default_factory=list, repr=False)
    enqueue_ms: list[float] = field(default_factory=list, repr=False)

    def row(self) -> dict[str, Any]:
        """Return the result as the JSON row: names, and every figure with its unit in the key."""
        figures = {key: value for key, value in vars(self.stats).items() if key != "count"}
        return {
            "name": self.name,
            "batch": self.batch,
            "precision": self.precision,
            "ran_in": self.ran_in,
            "device": self.device,
            "iterations": self.stats.count,
            **figures,
            "images_per_s": self.images_per_s,
            "size_bytes": self.size_bytes,
            "peak_memory_bytes": self.peak_memory_bytes,
        }


@dataclass
class _Turn:
    """A runner's state while a batch is measured. `times` has what `_timed` returned of each execution."""

    runner: Runner
    warmup_queries: int = 0
    expected_ms: float = 1.0
    times: list[tuple[float, float]] = field(default_factory=list)

    def missing(self, options: BenchOptions) -> int:
        """Return how many executions are still to be timed; seconds are converted by the time of an execution."""
        done, spent_ms = len(self.times), math.fsum(total for total, _ in self.times)
        ends = (options.duration_s, options.limit_s)
        for_duration, until_limit = (math.ceil((end * 1e3 - spent_ms) / self.expected_ms) for end in ends)
        return max(0, LEAST_CALLS - done, for_duration, min(options.calls - done, until_limit))


def bench(
    runners: Sequence[Runner],
    options: BenchOptions,
    *,
    memory: Callable[[Runner, Sequence[int]], dict[int, int]] = lambda runner, batches: {},
    progress: Callable[[str, int, int], None] = lambda label, done, planned: None,
    note: Note = lambda text: None,
) -> list[BenchResult]:
    """Time every runner at every batch size that its profile allows.

    Args:
        memory: gives peak bytes by batch size for a runner (memory_probe.peak_memory); by default none.
        progress: called with a label, executions done and executions planned.
        note: called with one line for each batch size that a runner cannot run, or that the limit cut short.

    Returns:
        Results ordered by batch size, then as `runners`.

    Raises:
        InputError: nothing to run, two runners of one name, or no batch size that any runner can run.
    """
    _check_names(runners)
    plan = {batch: [runner for runner in runners if _fits(runner, batch, note)] for batch in options.batches}
    if not any(plan.values()):
        ranges = "; ".join(f"{runner.name} takes {runner.min_batch} to {runner.max_batch}" for runner in runners)
        raise InputError(f"no engine takes any of the batch sizes {options.batches}: {ranges}")
    peaks = {}  # measured before anything is timed, so that the measuring disturbs no time
    for runner in runners:
        fitting = [batch for batch in plan if runner in plan[batch]]
        peaks[runner.name] = memory(runner, fitting) if fitting else {}
    results = []
    for batch, fitting in plan.items():
        for turn in _measure(fitting, batch, options, progress):
            results.append(_result(turn, batch, options, peaks[turn.runner.name].get(batch)))
            _say_if_short(results[-1], options, note)
    return results


def _say_if_short(result: BenchResult, options: BenchOptions, note: Note) -> None:
    count = result.stats.count
    if count < options.calls:
        lost = [f"p{percent}" for percent in TAILS if count < least_calls(percent) <= options.calls]
        without = f"; too few for {' and '.join(lost)}" if lost else ""
        note(
            f"{result.name} at batch {result.batch}: {count} of {options.calls} calls within the limit of "
            f"{options.limit_s:g} s{without}"
        )


def _check_names(runners: Sequence[Runner]) -> None:
    names = [runner.name for runner in runners]
    if not names:
        raise InputError("there is nothing to benchmark; give --engine, --engines, --pytorch or --ort")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"two things to benchmark are called {', '.join(twice)}; rename one of the files")


def _fits(runner: Runner, batch: int, note: Note) -> bool:
    fits = runner.min_batch <= batch <= runner.max_batch
    if not fits:
        note(f"{runner.name} skips batch {batch}: its profile takes {runner.min_batch} to {runner.max_batch}")
    return fits


def _measure(
    runners: Sequence[Runner], batch: int, options: BenchOptions, progress: Callable[[str, int, int], None]
) -> list[_Turn]:
    turns = [_Turn(runner) for runner in runners]
    for turn in turns:
        turn.runner.bind(batch)
        _warm_up(turn, options.warmup_ms)
    gc.collect()
    gc.disable()
    try:
        waiting = list(turns)
        while waiting:
            for turn in waiting:
                _block(turn, options)
                done = sum(len(each.times) for each in turns)
                missing = sum(each.missing(options) for each in turns)
                progress(f"batch {batch}: {turn.runner.name}", done, done + missing)
            waiting = [turn for turn in waiting[1:] + waiting[:1] if turn.missing(options)]
    finally:
        gc.enable()
    return turns


def _warm_up(turn: _Turn, warmup_ms: float) -> None:
    """Run for `warmup_ms`, and at least twice: the first execution may still allocate or compile."""
    start = time.perf_counter()
    while turn.warmup_queries < 2 or (time.perf_counter() - start) * 1e3 < warmup_ms:
        turn.expected_ms = max(_timed(turn.runner)[0], 1e-3)
        turn.warmup_queries += 1


def _block(turn: _Turn, options: BenchOptions) -> None:
    """Take one turn: settle, then time as many executions as fit into a block."""
    if turn.expected_ms < SETTLE_BELOW_MS:
        for _ in range(max(1, round(SETTLE_MS / turn.expected_ms))):
            turn.runner.run()
    missing = turn.missing(options)
    blocks = math.ceil((len(turn.times) + missing) / LEAST_BLOCKS)
    for _ in range(max(1, min(round(BLOCK_MS / turn.expected_ms), blocks, missing))):
        turn.times.append(_timed(turn.runner))


def _timed(runner: Runner, executions: int = 1) -> tuple[float, float]:
    """Execute; return milliseconds until all results are there, and until the calls to start them returned."""
    start = time.perf_counter()
    for _ in range(executions):
        runner.enqueue()
    enqueued = time.perf_counter()
    runner.synchronize()
    return (time.perf_counter() - start) * 1e3, (enqueued - start) * 1e3


def _result(turn: _Turn, batch: int, options: BenchOptions, peak: int | None) -> BenchResult:
    times_ms, enqueue_ms = map(list, zip(*turn.times, strict=True))
    stats = LatencyStats.from_ms(times_ms)
    return BenchResult(
        **{each.name: getattr(turn.runner, each.name) for each in fields(About)},
        batch=batch,
        stats=stats,
        images_per_s=batch * 1e3 / max(stats.mean_ms, 1e-9),
        peak_memory_bytes=peak,
        warmup_queries=turn.warmup_queries,
        warmup_ms=options.warmup_ms,
        times_ms=times_ms,
        enqueue_ms=enqueue_ms,
    )


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
    progress: Note = lambda text: None,
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
            runner.run()
        turns: dict[str, list[tuple[int, float]]] = {runner.name: [] for runner in fitting}
        for turn in range(rounds):
            for runner in fitting:
                progress(f"batch {batch}: {runner.name}, turn {turn + 1} of {rounds}")
                turns[runner.name].append(_executions(runner, seconds / rounds))
        for name, measured in turns.items():
            executions, elapsed = sum(count for count, _ in measured), sum(each for _, each in measured)
            rate = batch * statistics.median(count / each for count, each in measured)
            results.append(Throughput(name, batch, rate, executions, elapsed))
    return results


def _executions(runner: Runner, seconds: float) -> tuple[int, float]:
    """Return executions and seconds of one turn; its first execution is not counted, so that caches settle."""
    group = max(1, min(runner.in_flight, math.floor(seconds * 1e3 / max(_timed(runner)[0], 1e-3))))
    executions, elapsed = 0, 0.0
    while elapsed < seconds:
        elapsed += _timed(runner, group)[0] / 1e3
        executions += group
    return executions, elapsed


def check_writable(path: Path) -> None:
    """Find out before anything is measured whether the results can be kept.

    Raises:
        InputError: the path is a folder, or nothing can be written where it lies.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(0, "it is a folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; choose another file") from error


def write_measured(path: Path, **found: Any) -> None:
    """Write a JSON of what was found, with the engine, the day and the versions that it was measured with."""
    from helpers.engine.backend import describe
    from trtlab.versions import versions

    about = {"engine": describe(), "measured": date.today().isoformat(), "versions": versions()}
    write_json(path, {**about, **found})
