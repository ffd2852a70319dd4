"""What is asked of time_with_host_clock and time_with_events: figures, waits, and where events are recorded."""

import math
import statistics
from dataclasses import dataclass

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.point import Reported, point
from helpers.checks.points.s06_benchmark.timing import settled
from helpers.checks.points.s13_compilers.device import Log, Run
from helpers.checks.points.s13_compilers.probes import time_calls

_SIMULATED = Reported("what passed on the simulated device: its log is made in the student's process")

HOST, EVENTS = "time_with_host_clock", "time_with_events"
TOLERANCE = 0.01
"""Of every figure: far below what one call more or less moves, far above what the clock's steps do."""

_CALLS, _LEAST_MS, _LARGEST = 40, 2.0, 6.0
"""Calls, the shortest, and the longest over it; of 40 each common definition of p95 lies between two neighbours."""

_SLOW_MS, _SLOW_CALLS = 40.0, 5
_LAUNCH_MS = 0.25


@dataclass(frozen=True)
class Timed:
    """What a timing function returned, and the device's log; `simulated` tells a simulated clock."""

    numbers: dict[str, float]
    kind: str
    log: Log
    iterations: int
    simulated: bool

    @property
    def calls(self) -> int:
        """How often `run` was called."""
        return len(self.log["runs"])

    @property
    def timed(self) -> list[Run]:
        """The timed calls."""
        return self.log["runs"][-self.iterations :]

    @property
    def host_ms(self) -> np.ndarray:
        """What the host waits for each timed call, where it waits."""
        return np.array([(run["done"] - run["came"]) * 1e3 for run in self.timed])

    @property
    def events_ms(self) -> np.ndarray:
        """What lies between the events of each timed call."""
        before = [0.0, *(run["done"] for run in self.log["runs"])][-len(self.timed) - 1 :]
        pairs = zip(self.timed, before, strict=False)
        return np.array([(run["done"] - max(run["came"], done)) * 1e3 for run, done in pairs])

    def figure(self, name: str) -> float:
        """Return a statistic; raise Missed where it is no finite number."""
        value = self.numbers.get(f"{name}_ms")
        if value is None or not math.isfinite(value):
            found = f"{value}" if value is not None else f"a {self.kind} with {sorted(self.numbers) or 'no numbers'}"
            early = self.log["early"]
            advice = "return a dictionary with median_ms and p95_ms"
            if early:
                found, advice = f"{early} times asked for before their event was reached", "wait once, at the end"
            raise Missed(f"a finite number under {name}_ms", found, advice)
        return value

    def median_in_ms(self, truth: float) -> float:
        """Return the median in milliseconds whatever unit it came in: a wrong unit is another point's matter."""
        value = self.figure("median")
        off = truth / value if value > 0 else 0
        return value * 1e3 ** round(math.log(off, 1e3)) if 1e-9 < off < 1e9 else value


def _time(case: Case, function: str, iterations: int, warmup: int, attempt: int = 0, **device: list[float]) -> Timed:
    """Return what a timing function does with a device; raise Missed where it gives nothing or does not end."""
    longest = max(device["host_ms"]) + max(device["device_ms"])
    patience = 1 + 5e-3 * ((iterations + warmup) * longest + sum(device.get("first_ms", ())))
    asked = {"function": function, "device": device, "iterations": iterations, "warmup": warmup}
    found = case.call(time_calls, **asked, patience_s=patience, attempt=attempt).require(function)
    log = {key: found[key] for key in ("runs", "waits", "marks", "early")}
    if found["stopped"]:
        expected = f"{function} to return after {warmup} + {iterations} calls"
        raise Missed(expected, f"still running after {len(log['runs'])}", "let iterations end the timed loop")
    result = Timed(found["numbers"], found["type"], log, iterations, found["simulated"])
    if result.calls < iterations:
        expected = f"{iterations} timed calls of run"
        raise Missed(expected, f"{result.calls} calls", "call run in the timed loop, once an iteration")
    return result


def _spaced(case: Case, purpose: str) -> list[float]:
    """Return well spaced times in random order, in ms."""
    random = case.random(purpose)
    steps = (np.arange(_CALLS) + random.uniform(-0.15, 0.15, _CALLS)) / (_CALLS - 1)
    return random.permutation(random.uniform(0.95, 1.05) * _LEAST_MS * _LARGEST**steps).tolist()


def _right(found: Timed, truth: np.ndarray, what: str) -> str:
    """Return evidence that median and p95 are those of `truth`, in ms, and not rounded."""
    ordered = np.sort(truth)
    for name, rank in (("median", len(truth) // 2), ("p95", 19 * len(truth) // 20)):
        low, high, value = ordered[rank - 1], ordered[rank], found.figure(name)
        if not low * (1 - TOLERANCE) <= value <= high * (1 + TOLERANCE):
            truth_said = f"{name}_ms from {low:.3f} to {high:.3f} of {len(truth)} calls, in milliseconds"
            advice = f"{what}; median and p95 of the single calls, as milliseconds"
            raise Missed(truth_said, f"{value:.6g}", advice)
        if found.simulated and round(value, 2) == value:
            raise Missed(f"{name}_ms as it was computed", f"{value}", "do not round")
    return f"median {found.figure('median'):.3f} ms, p95 {found.figure('p95'):.3f} ms of {len(truth)} calls"


@point("By the host's clock: median and p95 are right, in milliseconds", _SIMULATED)
def host_times(case: Case) -> str:
    times = _spaced(case, "compilers.host")

    def measure(attempt: int) -> Timed:
        return _time(case, HOST, _CALLS, 1, attempt, host_ms=times, device_ms=[0.0])

    return settled(measure, lambda found: _right(found, found.host_ms, "from before the call until its work is done"))


def _counted(case: Case, function: str) -> str:
    """Return evidence that a function calls `run` as often as it is told."""
    random, said = case.random(f"compilers.calls {function}"), []
    asked = [(int(random.integers(6, 15)), int(random.integers(2, 6))), (int(random.integers(6, 15)), 0), (1, 0)]
    for iterations, warmup in asked:
        found = _time(case, function, iterations, warmup, host_ms=[_LAUNCH_MS], device_ms=[3.0])
        if found.calls != iterations + warmup:
            expected = f"{warmup} + {iterations} calls of run with warmup={warmup}, iterations={iterations}"
            raise Missed(expected, f"{found.calls}", "warmup calls first, then iterations timed ones")
        found.figure("median"), found.figure("p95")
        said.append(str(found.calls))
    return f"{', '.join(said)} calls of run"


def _without_warm_up(case: Case, function: str, attempt: int) -> Timed:
    device = {"host_ms": [2.0, 3.0], "device_ms": [0.0], "first_ms": [_SLOW_MS] * _SLOW_CALLS}
    return _time(case, function, _SLOW_CALLS - 1, _SLOW_CALLS, attempt, **device)


def _only_later(found: Timed) -> str:
    truth = statistics.median(found.host_ms.tolist())
    median = found.median_in_ms(truth)
    if not 0.7 * truth < median < 1.4 * truth:
        expected = f"a median near {truth:.1f} ms: only the {_SLOW_CALLS} calls of the warm-up are slow"
        raise Missed(expected, f"{median:.1f} ms", "time none of the warm-up's calls")
    return f"median {median:.2f} ms, though the warm-up's calls took {_SLOW_MS:.0f} ms"


@point(
    "By the host's clock: run is called warmup + iterations times; the warm-up is over before, and not counted",
    _SIMULATED,
)
def host_calls(case: Case) -> str:
    said = settled(lambda attempt: _without_warm_up(case, HOST, attempt), _only_later)
    found = _time(case, HOST, 6, 4, host_ms=[_LAUNCH_MS], device_ms=[3.0])
    before = found.calls - 6
    if before < 1 or before not in found.log["waits"]:
        expected = "a wait between the warm-up and the first timed call"
        raise Missed(expected, "none: its work was still under way", "wait once the warm-up's calls are made")
    return f"{_counted(case, HOST)}; {said}; a wait after call {before}"


@point("By the host's clock: each time ends when the call's work is done", _SIMULATED)
def host_waits(case: Case) -> str:
    iterations, times = 12, case.random("compilers.waits").uniform(2.0, 5.0, 12).tolist()

    def measure(attempt: int) -> Timed:
        return _time(case, HOST, iterations, 2, attempt, host_ms=[_LAUNCH_MS], device_ms=times)

    def judge(found: Timed) -> str:
        first = found.calls - iterations
        missing = set(range(first + 1, found.calls + 1)) - set(found.log["waits"])
        advice = "in every iteration: call, synchronize, and only then the clock"
        if missing:
            raise Missed("a wait after each timed call", f"{len(missing)} calls without one", advice)
        truth = statistics.median(found.host_ms.tolist())
        median = found.median_in_ms(truth)
        if not 0.9 * truth < median < 1.1 * truth:
            raise Missed(f"a median near {truth:.2f} ms, until the work is done", f"{median:.3f} ms", advice)
        return f"median {median:.2f} ms, of which the call itself takes {_LAUNCH_MS} ms"

    return settled(measure, judge)


def _by_events(case: Case, attempt: int = 0) -> Timed:
    """Time a device that is slower than the host which feeds it."""
    times = _spaced(case, "compilers.events")
    return _time(case, EVENTS, _CALLS, 1, attempt, host_ms=[_LAUNCH_MS], device_ms=times)


def _slow_host(case: Case) -> Timed:
    """Time a device that waits for its host between two calls; events see that it does."""
    times = _spaced(case, "compilers.slow host")
    return _time(case, EVENTS, _CALLS, 1, host_ms=times, device_ms=[0.5])


@point("By events: median and p95 are right, in milliseconds", _SIMULATED)
def events_times(case: Case) -> str:
    said, hint = [], "the milliseconds from each call's first event to its second, read after the wait"
    for found in (_by_events(case), _slow_host(case)):
        said.append(_right(found, found.events_ms, hint))
    return "; ".join(said)


@point("By events: one is recorded in the stream before and after each timed call", _SIMULATED)
def events_stream(case: Case) -> str:
    found = _by_events(case)
    marks = found.log["marks"]
    other = sum(not mark["own"] for mark in marks)
    if other:
        text = f"{other} of {len(marks)} elsewhere"
        raise Missed("every event recorded in `stream`", text, "pass the stream to record")
    first = found.calls - _CALLS
    lacking = set(range(first, found.calls + 1)) - {mark["calls"] for mark in marks}
    if lacking:
        text = f"{len(marks)} events, and none between some calls" if marks else "no event"
        raise Missed(
            f"an event before and after each of {_CALLS} timed calls", text, "two events a call, or one between"
        )
    return f"{len(marks)} events in the stream around {_CALLS} calls"


@point("By events: nobody waits from the first timed call to the last, and somebody does at the end", _SIMULATED)
def events_fed(case: Case) -> str:
    found = _by_events(case)
    first = found.calls - _CALLS
    between = [calls for calls in found.log["waits"] if first < calls < found.calls]
    if between:
        text = f"{len(between)} waits"
        raise Missed("no wait between the timed calls", text, "keep all events, and wait once the last call was made")
    if found.log["early"] or found.calls not in found.log["waits"]:
        advice = "synchronize the stream, or the last event, before you ask for times"
        raise Missed("a wait after the last call", "times asked for without one", advice)
    return f"{_CALLS} calls without a wait, and one at the end"


@point("By events: run is called warmup + iterations times, and the warm-up is not in the statistics", _SIMULATED)
def events_calls(case: Case) -> str:
    said = settled(lambda attempt: _without_warm_up(case, EVENTS, attempt), _only_later)
    return f"{_counted(case, EVENTS)}; {said}"
