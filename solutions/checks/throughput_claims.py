"""Claims of step 6 on benchmark_throughput, settled with models whose timing is known and then on a real engine."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers.missed import Missed
from helpers.points.case import Case
from helpers.probes.student import Student
from solutions.checks.core.claim import claim
from solutions.checks.trusted.agreement import agreement, first_kept
from solutions.checks.trusted.benchmark_engine import engine_plan, trusted_images_per_s

FUNCTION = "benchmark_throughput"
LIMIT_S = 6.0
TOLERANCE = 0.02
_CYCLE = [4.0] * 5 + [9.0] + [4.0] * 3 + [11.0]
_SHORT_S, _LONG_S = 0.5, 1.1
_SLOW_MS = 57.0
_UNEVEN = [3.0] * 30 + [9.0] * 10
_ENGINE_BATCH, _ENGINE_S = 8, 0.2


@dataclass(frozen=True)
class Timed:
    """What benchmark_throughput returned for a timed model, and the model's own log."""

    images_per_s: float
    log: dict[str, Any]

    @property
    def calls(self) -> int:
        """How often the model was called."""
        return len(self.log["start_s"])

    @property
    def span_s(self) -> float:
        """Seconds from the first call's start to the last call's end."""
        return float(self.log["end_s"][-1] - self.log["start_s"][0])

    def rates(self, after: int = 0, column: str = "end_s") -> tuple[float, float]:
        """Return the least and largest true rate in images a second, over what may be counted.

        How many calls were a warm-up, the log cannot tell; so each count from `after` to half of the calls is tried.
        """
        images, start, end = np.array(self.log["images"]), self.log["start_s"], self.log[column][-1]
        rates = [images[first:].sum() / (end - start[first]) for first in range(after, max(after + 1, self.calls // 2))]
        return float(min(rates)), float(max(rates))


def _time(student: Student, attempt: int, *, model: dict[str, Any], batch: int, seconds: float) -> Timed:
    reply = student.call(
        "probe_throughput", model=model, batch=batch, duration_sec=seconds, attempt=attempt, limit_s=LIMIT_S
    ).require(FUNCTION)
    timed = Timed(_images_per_s(reply["returned"], reply["returned_type"]), reply["log"])
    if timed.calls < 4:
        hint = "call the model until duration_sec is over"
        raise Missed(f"calls of the model for {seconds:g} s, some hundred or so", f"{timed.calls}", hint)
    return timed


def _images_per_s(returned: float | dict[str, float] | None, kind: str = "value") -> float:
    """Return the rate, of a number or of a dictionary that holds it under images_per_s or as its only number."""
    if isinstance(returned, dict):
        named = [value for key, value in returned.items() if "images_per_s" in key or "throughput" in key]
        returned = (named or list(returned.values()) or [None])[0]
    if returned is None or not math.isfinite(returned):
        raise Missed("images per second as a number", f"a {kind}: {returned}", "return images / seconds")
    return float(returned)


def _steady(student: Student, case: Case, attempt: int, seconds: float = _SHORT_S) -> tuple[Timed, int]:
    random = case.random("throughput.steady")
    batch, unit = int(random.integers(5, 10)), random.uniform(0.8, 1.2)
    model = {"durations_ms": [unit * duration for duration in _CYCLE]}
    return _time(student, attempt, model=model, batch=batch, seconds=seconds), batch


def _power(student: Student, case: Case) -> int:
    """Return the power of the batch size that turns what is returned into images, so that it is missed only once.

    0 is right; 1 where batches were counted, -1 where the batch size was multiplied in twice.
    """
    timed, batch = _steady(student, case, 0)
    if timed.images_per_s <= 0:
        return 0
    off = math.log(timed.rates()[0] / timed.images_per_s)
    return min((0, 1, -1), key=lambda power: abs(power * math.log(batch) - off))


@claim("throughput.images", cell="benchmark_throughput", points=1, title="It is images over the seconds that passed")
def images(student: Student, case: Case) -> str:
    def judge(measured: tuple[Timed, int]) -> str:
        timed, batch = measured
        low, high = timed.rates()
        slack, found = TOLERANCE + 1 / timed.calls, timed.images_per_s
        if not low * (1 - slack) <= found <= high * (1 + slack):
            batches = low * 0.9 <= found * batch <= high * 1.1
            hint = "count batch_size images an execution" if batches else "divide all images by all seconds that passed"
            raise Missed(
                f"{low:.1f} to {high:.1f} images/s, by the model's own log",
                f"{found:.1f}" + (" (that is batches per second)" if batches else ""),
                hint,
            )
        return f"{found:.1f} images/s; the model's own log says {low:.1f} to {high:.1f}"

    said = [first_kept(lambda attempt: _steady(student, case, attempt), judge)]
    # So few calls that one too many or too few is a tenth of them; then a model that is slow for a while now and then,
    # so that the best part of the time is no measure of the whole.
    for durations, what in (([_SLOW_MS], f"takes {_SLOW_MS:g} ms a call"), (_UNEVEN, "is slow now and then")):
        said.append(_counted(student, case, durations, what))
    return "; ".join(said)


def _counted(student: Student, case: Case, durations: list[float], what: str) -> str:
    """Return the rate of a model that takes `durations` (ms) in turn; raise Missed where it is not its own log's."""
    batch = int(case.random("throughput.counted").integers(5, 10))

    def judge(timed: Timed) -> str:
        low, high = timed.rates()
        if not low * (1 - TOLERANCE) <= timed.images_per_s <= high * (1 + TOLERANCE):
            raise Missed(
                f"{low:.1f} to {high:.1f} images/s for a model that {what}, by its own log",
                f"{timed.images_per_s:.1f}",
                "count every image of the timed calls, once, and divide by the whole time that those calls took",
            )
        return f"{timed.images_per_s:.1f} images/s of a model that {what}"

    model = {"durations_ms": durations}
    return first_kept(lambda number: _time(student, number, model=model, batch=batch, seconds=_SHORT_S), judge)


@claim("throughput.duration", cell="benchmark_throughput", points=0.75, title="It measures for duration_sec")
def duration(student: Student, case: Case) -> str:
    def measure(attempt: int) -> tuple[float, float]:
        short, long = (_steady(student, case, attempt, seconds)[0].span_s for seconds in (_SHORT_S, _LONG_S))
        return short, long

    def judge(spans: tuple[float, float]) -> str:
        short, long = spans
        found = f"{short:.2f} s and {long:.2f} s"
        more = _LONG_S - _SHORT_S
        if short < 0.9 * _SHORT_S or long < 0.9 * _LONG_S or not 0.7 * more < long - short < 1.4 * more:
            asked = f"runs of {_SHORT_S:g} s and {_LONG_S:g} s when asked for them"
            raise Missed(asked, found, "run the model until duration_sec seconds have passed on the clock")
        return f"asked for {_SHORT_S:g} s and {_LONG_S:g} s, the model was busy for {found}"

    return first_kept(measure, judge)


@claim("throughput.batch", cell="benchmark_throughput", points=0.5, title="The model gets batches of batch_size")
def batch_size(student: Student, case: Case) -> str:
    timed, batch = _steady(student, case, 0)
    counted = timed.log["shapes"][timed.calls // 2 :]
    wrong = [shape for shape in counted if shape != [batch, 3, 224, 224]]
    if wrong:
        hint = "make the input from batch_size, once, before the clock starts"
        raise Missed(f"inputs of shape [{batch}, 3, 224, 224] for batch_size={batch}", f"{wrong[0]}", hint)
    if not all(name.endswith("float32") for name in timed.log["dtypes"]):
        raise Missed("float32 inputs", ", ".join(timed.log["dtypes"]), "NumPy's random numbers are float64: convert")
    return f"{len(counted)} inputs of shape [{batch}, 3, 224, 224]"


@claim("throughput.warm_up", cell="benchmark_throughput", points=0.5, title="The first executions do not count")
def warm_up(student: Student, case: Case) -> str:
    power, first_ms, batch = _power(student, case), 200.0, 6

    def measure(attempt: int) -> Timed:
        model = {"durations_ms": [4.0], "first_ms": [first_ms]}
        return _time(student, attempt, model=model, batch=batch, seconds=_SHORT_S)

    def judge(timed: Timed) -> str:
        (low, high), found = timed.rates(after=1), timed.images_per_s * batch**power
        slack = 0.08 + 1 / timed.calls
        if not low * (1 - slack) <= found <= high * (1 + slack):
            expected = f"about {low:.0f} images/s: only the first call of this model is slow ({first_ms:.0f} ms)"
            raise Missed(expected, f"{found:.0f}", "run the model a few times before the clock starts")
        return f"{found:.0f} images/s though the first call took {first_ms:.0f} ms"

    return first_kept(measure, judge)


@claim("throughput.synchronized", cell="benchmark_throughput", points=0.75, title="Only finished work counts")
def synchronized(student: Student, case: Case) -> str:
    power, batch = _power(student, case), 5
    hint = "synchronize after the last execution and before you read the clock for the last time"

    def measure(attempt: int) -> Timed:
        model = {"durations_ms": [4.0], "asynchronous": True, "queue": 40}
        return _time(student, attempt, model=model, batch=batch, seconds=_SHORT_S)

    def judge(timed: Timed) -> str:
        if timed.calls not in timed.log["waits"]:
            waited = max(timed.log["waits"], default=0)
            found = f"the last wait came after {waited} of {timed.calls} calls"
            raise Missed("a wait after the last call of an asynchronous model", found, hint)
        (low, high), found = timed.rates(column="waited_s"), timed.images_per_s * batch**power
        slack = TOLERANCE + 1 / timed.calls
        if not low * (1 - slack) * 0.95 <= found <= high * (1 + slack):
            raise Missed(f"{low:.0f} to {high:.0f} images/s, until the last work is done", f"{found:.0f}", hint)
        return f"{found:.0f} images/s, {len(timed.log['waits'])} waits for {timed.calls} calls"

    return first_kept(measure, judge)


@claim("throughput.engine", cell="benchmark_throughput", points=0.75, title="On an engine it finds the grader's figure")
def engine(student: Student, case: Case) -> str:
    plan, own = engine_plan(case), []

    def ratio(number: int) -> float:
        reply = student.call(
            "engine_throughput",
            plan=plan,
            batch=_ENGINE_BATCH,
            duration_sec=_ENGINE_S,
            attempt=number,
            limit_s=LIMIT_S,
        ).require(FUNCTION)
        found = _images_per_s(reply["returned"], reply["returned_type"])
        own.append(found / _logged_rate(reply["log"]))
        least, most = sorted(trusted_images_per_s(plan, _ENGINE_BATCH, _ENGINE_S))
        return found / min(max(found, least), most)  # a wait after each execution is as right as one after several

    found = agreement(ratio)
    if not (found.within or (found.comparable and abs(float(np.median(own)) - 1) <= 0.1)):
        raise Missed(
            "the grader's throughput of the same engine, measured in turns, within 10 %",
            str(found),
            "look at the points above: images, not batches; synchronize; nothing but the model in the timed loop",
        )
    return str(found)


def _logged_rate(log: dict[str, Any]) -> float:
    """Return images a second of busy time by the engine's own log; infinite where work was not waited for."""
    starts, ends = log["start_s"], log["waited_s"]
    if not len(starts) or not np.isfinite(ends).all():
        return math.inf
    half = len(starts) // 2  # the first calls may be a warm-up
    before = np.concatenate([[starts[half]], ends[half:-1]])
    busy = float((ends[half:] - np.maximum(starts[half:], before)).sum())
    return float(log["images"][half:].sum()) / max(busy, 1e-9)
