"""Claims of step 6 on benchmark_latency, settled with models whose timing is known and then on a real engine."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers.missed import Missed
from helpers.points.case import Case
from helpers.probes.student import Student
from solutions.checks.core.claim import claim
from solutions.checks.trusted.agreement import agreement, first_kept, percentile_range
from solutions.checks.trusted.benchmark_engine import engine_plan, trusted_latency_ms

__all__ = ["Timed"]

FUNCTION = "benchmark_latency"
LIMIT_S = 60.0
TOLERANCE = 0.02
_BULK, _MIDDLE, _TAIL = 108, 8, 4
_ENDS = 4
_FEW_MS = [2.0, 40.0, 4.0, 25.0, 6.0, 3.0]
_UNITS = {1.0: "milliseconds", 1e3: "seconds", 1e6: "minutes or hours", 1e-3: "microseconds", 1e-6: "nanoseconds"}
_NOT_TIMED = {"mean": math.inf, "median": math.inf}
_ENGINE_BATCH, _ENGINE_COUNTS = 8, {"num_iterations": 15, "warmup": 3}


@dataclass(frozen=True)
class Timed:
    """What benchmark_latency returned for a timed model, and the model's own log."""

    returned: dict[str, float]
    log: dict[str, Any]

    @property
    def calls(self) -> int:
        """How often the model was called."""
        return len(self.log["start_s"])

    def true_ms(self, column: str) -> np.ndarray:
        """Return the true latencies of all calls in milliseconds, until `end_s` or until `waited_s`."""
        return (self.log[column] - self.log["start_s"]) * 1e3

    def figure(self, name: str, scale: float = 1.0) -> float:
        """Return a statistic by its name, with or without _ms, times `scale`; Missed where it is not there."""
        value = self.returned.get(f"{name}_ms", self.returned.get(name))
        if value is None or not math.isfinite(value):
            found = f"{value}" if value is not None else f"the keys {sorted(self.returned)}"
            raise Missed(f"a number under {name}_ms", found, "return a dictionary with the five keys of the task")
        return value * scale


def _time(student: Student, attempt: int, *, model: dict[str, Any], batch: int, counts: dict[str, int]) -> Timed:
    reply = student.call(
        "probe_latency", model=model, batch=batch, counts=counts, attempt=attempt, limit_s=LIMIT_S
    ).require(FUNCTION)
    if reply["returned"] is None:
        raise Missed(
            "a dictionary of statistics",
            f"a {reply['returned_type']}",
            "return a dictionary with mean_ms, median_ms, p95_ms, p99_ms and std_ms",
        )
    return Timed(reply["returned"], reply["log"])


def _skewed(student: Student, case: Case, attempt: int) -> tuple[Timed, np.ndarray]:
    """Time a synchronous model whose latencies have a tail; return its true latencies of the timed calls too.

    Of 120 latencies 108 spread over a factor of 1.5, eight are about twice and four about four times as long, so that
    each percentile asked for lies within its own group, whichever definition is taken. The first and the last two are
    no outliers: whoever counts one call more or less there loses latency.calls, and not the figures by chance.
    """
    random = case.random("latency.skewed")
    unit = random.uniform(0.8, 1.4)
    bulk = random.uniform(2.0, 3.0, _BULK)
    durations = unit * np.concatenate([bulk, random.uniform(5.0, 5.1, _MIDDLE), random.uniform(9.0, 9.1, _TAIL)])
    random.shuffle(durations[_ENDS:])
    durations = np.roll(durations, -_ENDS // 2)
    timed = _time(
        student,
        attempt,
        model={"durations_ms": durations.tolist(), "first_ms": [2.5 * unit]},
        batch=2,
        counts={"num_iterations": len(durations), "warmup": 1},
    )
    if timed.calls < len(durations):
        raise Missed(
            f"every timed iteration to run the model: {len(durations)} calls or more",
            f"{timed.calls} calls",
            "call the model inside the timed loop, once an iteration",
        )
    return timed, timed.true_ms("end_s")[-len(durations) :]


def _scale(timed: Timed, true_ms: np.ndarray) -> float:
    """Return the factor to milliseconds that fits what was returned best, so that a wrong unit is missed only once."""
    truth = {"mean": true_ms.mean(), "median": np.median(true_ms), "p95": np.percentile(true_ms, 95)}
    ratios = []
    for name, value in truth.items():
        found = timed.returned.get(f"{name}_ms", timed.returned.get(name))
        if found is not None and math.isfinite(found) and found > 0:
            ratios.append(math.log(value / found))
    if not ratios:
        return 1.0
    return min(_UNITS, key=lambda scale: abs(math.log(scale) - float(np.median(ratios))))


def _unit(student: Student, case: Case) -> float:
    return _scale(*_skewed(student, case, 0))


def _compare(name: str, found: float, low: float, high: float, try_this: str) -> str:
    if not low * (1 - TOLERANCE) <= found <= high * (1 + TOLERANCE):
        truth = f"{low:.3f} ms" if high - low < 0.0005 else f"{low:.3f} to {high:.3f} ms"
        raise Missed(f"{name} within {TOLERANCE:.0%} of the model's own {truth}", f"{found:.3f} ms", try_this)
    return f"{name} {found:.3f} ms"


@claim("latency.mean_median", cell="benchmark_latency", points=1, title="Mean and median are right")
def mean_median(student: Student, case: Case) -> str:
    def judge(measured: tuple[Timed, np.ndarray]) -> str:
        timed, true_ms = measured
        scale = _scale(timed, true_ms)
        mean, median = float(true_ms.mean()), percentile_range(true_ms, 50)
        return "; ".join(
            (
                _compare("mean", timed.figure("mean", scale), mean, mean, "the sum of the latencies over their number"),
                _compare("median", timed.figure("median", scale), *median, "the middle latency; it is not the mean"),
            )
        )

    return first_kept(lambda attempt: _skewed(student, case, attempt), judge)


@claim("latency.percentiles", cell="benchmark_latency", points=1, title="p95 and p99 are right")
def percentiles(student: Student, case: Case) -> str:
    def judge(measured: tuple[Timed, np.ndarray]) -> str:
        timed, true_ms = measured
        scale, evidence = _scale(timed, true_ms), []
        for percent in (95, 99):
            asked = f"{percent} % of the latencies are no longer than it"
            found = timed.figure(f"p{percent}", scale)
            evidence.append(_compare(f"p{percent}", found, *percentile_range(true_ms, percent), asked))
        return "; ".join(evidence)

    return first_kept(lambda attempt: _skewed(student, case, attempt), judge)


@claim("latency.std", cell="benchmark_latency", points=0.5, title="The standard deviation is that of the latencies")
def std(student: Student, case: Case) -> str:
    def judge(measured: tuple[Timed, np.ndarray]) -> str:
        timed, true_ms = measured
        found = timed.figure("std", _scale(timed, true_ms))
        hint = "the spread of single latencies, not of their mean; it does not shrink with more iterations"
        return _compare("std", found, float(true_ms.std()), float(true_ms.std(ddof=1)), hint)

    return first_kept(lambda attempt: _skewed(student, case, attempt), judge)


@claim("latency.milliseconds", cell="benchmark_latency", points=0.5, title="All figures are milliseconds")
def milliseconds(student: Student, case: Case) -> str:
    def judge(measured: tuple[Timed, np.ndarray]) -> str:
        timed, true_ms = measured
        scale, truth = _scale(timed, true_ms), float(np.median(true_ms))
        found = timed.figure("median")
        if scale != 1 or not truth / 3 < found < truth * 3:
            unit = f", which would be {_UNITS[scale]}" if scale != 1 else ""
            hint = "time.perf_counter counts seconds; a millisecond is a thousandth"
            raise Missed(f"a median near {truth:.2f}, in milliseconds", f"{found:.6g}{unit}", hint)
        return f"median {found:.3f} ms"

    return first_kept(lambda attempt: _skewed(student, case, attempt), judge)


@claim("latency.calls", cell="benchmark_latency", points=1, title="The model runs warmup + num_iterations times")
def calls(student: Student, case: Case) -> str:
    random = case.random("latency.calls")
    iterations, warmup, batch = (int(random.integers(*bounds)) for bounds in ((15, 30), (3, 9), (2, 5)))
    evidence = []
    for counts, expected in (({"num_iterations": iterations, "warmup": warmup}, iterations + warmup), ({}, 1010)):
        timed = _time(student, 0, model={"durations_ms": [0.1]}, batch=batch, counts=counts)
        given = ", ".join(f"{name}={value}" for name, value in counts.items()) or "the defaults"
        if timed.calls != expected:
            raise Missed(
                f"{expected} calls of the model with {given}",
                f"{timed.calls}",
                "call the model warmup times before the clock starts, then num_iterations times; the defaults are "
                "num_iterations=1000, warmup=10",
            )
        wrong = [shape for shape in timed.log["shapes"] if shape != [batch, 3, 224, 224]]
        if wrong:
            found = f"an input of shape {wrong[0]}"
            raise Missed(f"each call to get input_data [{batch}, 3, 224, 224]", found, "pass input_data as it is")
        others = sum(found != timed.log["given"] for found in timed.log["sums"])
        if others:
            found = f"another content in {others} of {timed.calls} calls"
            raise Missed("each call to get input_data, warm-up included", found, "pass input_data as it is")
        evidence.append(f"{timed.calls} calls with {given}")
    return "; ".join([*evidence, first_kept(lambda attempt: _few(student, attempt, batch), _judge_few)])


def _few(student: Student, attempt: int, batch: int) -> Timed:
    """Time four calls that differ so much that one more or one less shows in their mean."""
    counts = {"num_iterations": len(_FEW_MS) - 2, "warmup": 2}
    return _time(student, attempt, model={"durations_ms": _FEW_MS}, batch=batch, counts=counts)


def _judge_few(timed: Timed) -> str:
    true_ms = timed.true_ms("end_s")
    found = timed.figure("mean", _scale(timed, true_ms[2:]))
    truth = float(true_ms[2:].mean())
    others = [float(times.mean()) for times in (true_ms[1:], true_ms[3:], true_ms[2:-1])]
    if any(abs(found / other - 1) < TOLERANCE for other in others) and abs(found / truth - 1) > TOLERANCE:
        raise Missed(
            f"the statistics of the {len(true_ms) - 2} calls after the warm-up, with a mean of {truth:.2f} ms",
            f"{found:.2f} ms, as if the clock had run for one call more or less",
            "call the model warmup times without the clock, then time each of num_iterations calls",
        )
    return f"mean {found:.2f} ms of {len(true_ms) - 2} calls"


@claim("latency.warm_up", cell="benchmark_latency", points=0.75, title="The warm-up is not in the statistics")
def warm_up(student: Student, case: Case) -> str:
    slow = 5
    scale = _unit(student, case)

    def measure(attempt: int) -> Timed:
        model = {"durations_ms": [2.0, 3.0], "first_ms": [60.0] * slow}
        return _time(student, attempt, model=model, batch=1, counts={"num_iterations": 20, "warmup": slow})

    def judge(timed: Timed) -> str:
        true_ms = timed.true_ms("end_s")
        if timed.calls <= slow:
            raise Missed(f"more calls than the {slow} of the warm-up", f"{timed.calls}", "warm up, then time")
        expected, found = float(true_ms[slow:].mean()), timed.figure("mean", scale)
        if not 0.8 * expected < found < 1.25 * expected:
            raise Missed(
                f"a mean near {expected:.2f} ms: only this model's first {slow} calls are slow",
                f"{found:.2f} ms",
                "run the model warmup times without the clock, and keep only the times of the iterations that follow",
            )
        return f"mean {found:.2f} ms though the first {slow} calls took {true_ms[:slow].mean():.0f} ms"

    return first_kept(measure, judge)


def _asynchronous(student: Student, attempt: int) -> Timed:
    model = {"durations_ms": [2.5, 3.5, 3.0], "asynchronous": True}
    return _time(student, attempt, model=model, batch=1, counts={"num_iterations": 30, "warmup": 4})


@claim("latency.synchronized", cell="benchmark_latency", points=0.75, title="Each time ends when the work is done")
def synchronized(student: Student, case: Case) -> str:
    scale = _unit(student, case)
    hint = "synchronize after the call and before you read the clock, in every iteration"

    def judge(timed: Timed) -> str:
        waits, first = set(timed.log["waits"]), max(0, timed.calls - 30)
        missing = [number for number in range(first, timed.calls) if number + 1 not in waits]
        if missing or not timed.calls:
            found = f"{len(missing)} of {timed.calls - first} timed calls that the next one followed without a wait"
            raise Missed("a wait after each timed call of an asynchronous model", found, hint)
        expected, found = float(timed.true_ms("waited_s")[first:].mean()), timed.figure("mean", scale)
        if not 0.9 * expected < found < 1.1 * expected:
            truth = f"a mean near {expected:.2f} ms, the time until the work is done"
            raise Missed(truth, f"{found:.4f} ms", hint)
        return f"mean {found:.2f} ms, {len(waits)} waits"

    return first_kept(lambda attempt: _asynchronous(student, attempt), judge)


@claim(
    "latency.warm_up_ends", cell="benchmark_latency", points=0.25, title="The warm-up is over before the clock starts"
)
def warm_up_ends(student: Student, case: Case) -> str:
    timed = _asynchronous(student, 0)
    before = timed.calls - 30
    if before not in timed.log["waits"] or before < 1:
        found = "no warm-up" if before < 1 else "none: its work was still under way when the first timed call came"
        raise Missed("a wait between the warm-up and the first timed call", found, "synchronize after the warm-up too")
    return f"a wait after call {before}"


@claim("latency.engine", cell="benchmark_latency", points=0.75, title="On an engine it finds the grader's figure")
def engine(student: Student, case: Case) -> str:
    plan, own = engine_plan(case), []

    def ratio(number: int) -> float:
        reply = student.call(
            "engine_latency", plan=plan, batch=_ENGINE_BATCH, counts=_ENGINE_COUNTS, attempt=number, limit_s=LIMIT_S
        ).require(FUNCTION)
        timed = Timed(reply["returned"] or {}, reply["log"])
        median, mean = timed.figure("median"), timed.figure("mean")
        trusted = trusted_latency_ms(plan, _ENGINE_BATCH, **_ENGINE_COUNTS)
        logged = _logged_ms(timed)
        own.append(_nearest(median / logged["median"], mean / logged["mean"]))
        return _nearest(median / trusted["median"], mean / trusted["mean"])

    found = agreement(ratio)
    if not (found.within or (found.comparable and abs(float(np.median(own)) - 1) <= 0.1)):
        raise Missed(
            "the grader's latency of the same engine, measured in turns, within 10 %",
            str(found),
            "look at the points above: unit, synchronize, warm-up",
        )
    return str(found)


def _nearest(*ratios: float) -> float:
    """Return the ratio nearest to 1; a wrong median beside a right mean is another claim's matter."""
    return min(ratios, key=lambda ratio: abs(math.log(max(ratio, 1e-9))))


def _logged_ms(timed: Timed) -> dict[str, float]:
    """Return mean and median of the timed calls by the engine's own log; infinite where one was not as asked."""
    last = slice(-_ENGINE_COUNTS["num_iterations"], None)
    times = timed.true_ms("waited_s")[last]
    whole = len(times) and np.isfinite(times).all() and (timed.log["images"][last] == _ENGINE_BATCH).all()
    return {"mean": float(times.mean()), "median": float(np.median(times))} if whole else _NOT_TIMED
