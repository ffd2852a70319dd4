"""What is asked of benchmark_throughput(model, batch_size, duration_sec=60)."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.point import Reported, point
from helpers.checks.points.s06_benchmark.timing import SHAPE, Numbers, settled, time_throughput, timed_reply

FUNCTION = "benchmark_throughput"
DURATION_S = 60
PROMISES = (
    f"benchmark_throughput(model, batch_size, duration_sec={DURATION_S})",
    "a few calls, or a tenth of the time",
)

TOLERANCE = 0.01
"""Of a rate: what the clock's steps and a wait at another place in the loop may move."""

_WARM_UP_SHARE, _WARM_UP_CALLS = 0.25, 12
"""What may have been a warm-up: this share of the time, or so many calls. The log cannot tell which it was."""

_SHORT_S, _LONG_S = 0.5, 1.1
_SLOW_FIRST_MS = 200.0
_UNEVEN_S, _UNEVEN_MS = 2.0, [3.0] * 367 + [9.0] * 25 + [200.0] + [9.0] * 175
"""A model that is fast for 1.1 s, then slow, and rests once: no part of the time is a measure of the whole."""

_QUICK_FIRST_MS = [4.0] * 20
"""First calls that tell nothing of how many will fit into the time."""

_FAILS_FROM = 8
_RUNS = 2
_LARGE = (65, 97)


@dataclass(frozen=True)
class Timed:
    """What benchmark_throughput returned for a timed model of `batch` images a call, and the model's own log."""

    images_per_s: float
    batch: int
    log: dict[str, Any]
    simulated: bool = True
    known: bool = True

    @property
    def calls(self) -> int:
        """How often the model was called."""
        return len(self.log["start_s"])

    @property
    def span_s(self) -> float:
        """Seconds from the first call's start to the last call's end."""
        return float(self.log["end_s"][-1] - self.log["start_s"][0])

    def rates(
        self, after: int = 0, column: str = "end_s", share: float = _WARM_UP_SHARE, waited: bool = False
    ) -> tuple[float, float]:
        """Return the least and largest true rate in images per second, by the call that a warm-up may end before.

        It took `after` calls at least, and at most `share` of the time or a dozen calls; `waited`: a wait ended it.
        """
        images, start, end = np.array(self.log["images"]), self.log["start_s"], self.log[column][-1]
        warm = start - start[0] <= share * (end - start[0])
        last = min(max(after, int(warm.sum()) - 1, _WARM_UP_CALLS), 3 * self.calls // 4)
        ends = {0, *self.log["waits"]} if waited else range(self.calls)
        firsts = [first for first in range(after, max(after, last) + 1) if first in ends]
        rates = [images[first:].sum() / (end - start[first]) for first in firsts]
        return float(min(rates)), float(max(rates))

    @property
    def power(self) -> int:
        """The power of the batch size that turns what came back into images, so that it costs one point here.

        0 is right; 1 where batches were counted, -1 where the batch size was multiplied in twice.
        """
        low, _ = self.rates()
        if min(low, self.images_per_s) <= 0:
            return 0
        off = math.log(low / self.images_per_s)
        return min((0, 1, -1), key=lambda power: abs(power * math.log(self.batch) - off))


def timed(case: Case, attempt: int, batch: int, seconds: float | None, runs: int = 1, **model: Any) -> Timed:
    """Return what benchmark_throughput does with a TimedModel of these arguments, `runs` times one after the other.

    Raises:
        Missed: it gives no rate, does not end, or hardly calls the model.
    """
    asked_s = DURATION_S if seconds is None else seconds
    patience_s = runs * (10 * asked_s + 5)
    asked = {"batch": batch, "seconds": seconds, "long": asked_s > 10, "runs": runs, "attempt": attempt}
    reply, seen = timed_reply(case, time_throughput, model, patience_s, **asked)
    found, log = reply.require(FUNCTION), seen["log"]
    known = found["known"] or not asked["long"]  # what is done in real time too is always known
    if known and (found["stopped"] or seen["stopped"]):
        text = f"still calling the model after {patience_s:g} s"
        advice = "end the loop when duration_sec seconds have passed on the clock, not a fixed number of seconds"
        raise Missed(f"{FUNCTION} to return after duration_sec={asked_s:g} seconds", text, advice)
    rate = rate_of(found) if known else math.nan
    if known and len(log["start_s"]) < 4:
        hint = "call the model until duration_sec is over"
        raise Missed(f"calls of the model for {asked_s:g} s, several at least", f"{len(log['start_s'])}", hint)
    return Timed(rate, batch, log, seen["simulated"], known)


def rate_of(found: Numbers) -> float:
    """Return the rate, of a number or of a dictionary that holds it under images_per_s or as its only number.

    Raises:
        Missed: there is none.
    """
    values = found["numbers"]
    named = [value for key, value in values.items() if "images_per_s" in key or "throughput" in key]
    value = (named or list(values.values()) or [None])[0]
    if value is None or not math.isfinite(value):
        text = f"a {found['type']}" if value is None else f"{value}"
        raise Missed("images per second as a number", text, "return images / seconds")
    return float(value)


def _batch(case: Case, purpose: str) -> int:
    return int(case.random(f"throughput.{purpose}").integers(5, 10))


def _steady(case: Case, attempt: int) -> Timed:
    """Time a model of which a call takes some 90 ms: so few calls that one more or less shows.

    The last call ends well after the time is up, so that the seconds asked for are not those that passed.
    """
    unit = float(case.random("throughput.unit").uniform(87, 94))
    return timed(case, attempt, _batch(case, "steady"), _SHORT_S, durations_ms=[unit])


def _uneven(case: Case, attempt: int) -> Timed:
    return timed(case, attempt, _batch(case, "uneven"), _UNEVEN_S, durations_ms=_UNEVEN_MS)


def _judge_images(found: Timed) -> str:
    low, high = found.rates()
    if not low * (1 - TOLERANCE) <= found.images_per_s <= high * (1 + TOLERANCE):
        batches = low * 0.9 <= found.images_per_s * found.batch <= high * 1.1
        hint = "count every image of the timed calls once, and divide by the whole time that those calls took"
        text = f"{found.images_per_s:.1f}" + (" (that is batches per second)" if batches else "")
        expected = f"{low:.1f} to {high:.1f} images/s, by the model's own log"
        raise Missed(expected, text, "count batch_size images an execution" if batches else hint)
    return f"{found.images_per_s:.1f} images/s; the model's own log says {low:.1f} to {high:.1f}"


def _judge_steady(found: Timed) -> str:
    said = _judge_images(found)
    if found.images_per_s.is_integer():  # its calls take a random time, so that its rate is no whole number
        advice = "do not round: a large network on a small machine gives two or three images per second"
        raise Missed("the rate as a float, as it was computed", f"{found.images_per_s:g}, a whole number", advice)
    return said


@point("It is images over the seconds that passed")
def images(case: Case) -> str:
    runs = ((_steady, _judge_steady), (_uneven, _judge_images))
    return "; ".join(settled(lambda attempt, run=run: run(case, attempt), judge) for run, judge in runs)


@dataclass(frozen=True)
class _Spans:
    """Seconds that the model was busy in a run, by the seconds asked for."""

    seconds: dict[float, float]
    simulated: bool


def _spans(case: Case, attempt: int) -> _Spans:
    batch = _batch(case, "duration")
    asked = {
        seconds: timed(case, attempt, batch, seconds, _RUNS, durations_ms=[call_ms], first_ms=_QUICK_FIRST_MS)
        for seconds, call_ms in ((_SHORT_S, 20.0), (_LONG_S, 20.0), (None, 100.0))
    }
    if not asked[None].known and asked[_SHORT_S].simulated:
        raise Missed("the clock that it reads in shorter runs", "another one", "read time.perf_counter")
    found = {seconds or float(DURATION_S): run.span_s / _RUNS for seconds, run in asked.items() if run.known}
    return _Spans(found, all(run.simulated for run in asked.values()))


def _judge_spans(spans: _Spans) -> str:
    asked, found = list(spans.seconds), list(spans.seconds.values())
    said = " and ".join(f"{span:.2f} s" for span in found)
    ratios = [(b - a) / (more - less) for a, b, less, more in zip(found, found[1:], asked, asked[1:], strict=False)]
    if any(span < 0.9 * seconds for seconds, span in spans.seconds.items()) or not all(0.7 < r < 1.4 for r in ratios):
        expected = f"runs of {' and '.join(f'{seconds:g} s' for seconds in asked)} when asked for them"
        hint = f"run the model until duration_sec seconds have passed on the clock; the default is {DURATION_S}"
        raise Missed(expected, said, hint)
    return f"asked for {asked} s, the model was busy for {said}"


@point("It measures for duration_sec")
def duration(case: Case) -> str:
    return settled(lambda attempt: _spans(case, attempt), _judge_spans)


@point(
    "The model gets batches of batch_size, in float32",
    Reported("shape and type of what the model is called with: the arrays never leave the process"),
)
def batch_size(case: Case) -> str:
    found = timed(case, 0, int(case.random("throughput.large").integers(*_LARGE)), _SHORT_S, durations_ms=[90.0])
    shape = [found.batch, *SHAPE]
    wrong = [given for given in found.log["shapes"] if given != shape]
    if wrong:
        hint = "make the input from batch_size, once, before the clock starts"
        raise Missed(f"inputs of shape {shape} for batch_size={found.batch}", f"{wrong[0]}", hint)
    if not all(name.endswith("float32") for name in found.log["dtypes"]):
        raise Missed("float32 inputs", ", ".join(found.log["dtypes"]), "NumPy's random numbers are float64: convert")
    return f"{found.calls} inputs of shape {shape}"


@point("The first executions do not count")
def warm_up(case: Case) -> str:
    steady = _steady(case, 0)

    def judge(found: Timed) -> str:
        (low, high), rate = found.rates(after=1), found.images_per_s * found.batch**steady.power
        slack = 0.08 + 1 / found.calls
        if not low * (1 - slack) <= rate <= high * (1 + slack):
            slow = f"only the first call of this model is slow ({_SLOW_FIRST_MS:.0f} ms)"
            hint = "run the model a few times, and wait, before the clock starts"
            raise Missed(f"about {low:.0f} images/s: {slow}", f"{rate:.0f}", hint)
        return f"{rate:.0f} images/s though the first call took {_SLOW_FIRST_MS:.0f} ms"

    model = {"durations_ms": [4.0], "first_ms": [_SLOW_FIRST_MS]}
    return settled(lambda attempt: timed(case, attempt, _batch(case, "warm_up"), _SHORT_S, **model), judge)


@point("Only finished work counts")
def synchronized(case: Case) -> str:
    steady = _steady(case, 0)
    most = steady.rates()[1] * (1 + TOLERANCE)
    hint = "synchronize twice at least: after the warm-up, and after the last execution, before you read the clock"

    def judge(found: Timed) -> str:
        if found.calls not in found.log["waits"]:
            text = f"the last wait came after {max(found.log['waits'], default=0)} of {found.calls} calls"
            raise Missed("a wait after the last call of an asynchronous model", text, hint)
        (low, high), rate = found.rates(column="waited_s", waited=True), found.images_per_s * found.batch**steady.power
        # Work of a warm-up under way makes it slower. Where its calls are counted, that is missed in `images`.
        counted = 2 * (steady.images_per_s * found.batch**steady.power > most)
        slow, fast = (0.05 + calls / found.calls for calls in (1, counted))
        if not low * (1 - slow) <= rate <= high * (1 + fast):
            raise Missed(f"{low:.0f} to {high:.0f} images/s, until the last work is done", f"{rate:.0f}", hint)
        return f"{rate:.0f} images/s, {len(found.log['waits'])} waits for {found.calls} calls"

    # So long that the work of two calls of a warm-up shows where nobody waits for it.
    model = {"durations_ms": [40.0], "asynchronous": True, "queue": 40}
    said = settled(lambda attempt: timed(case, attempt, _batch(case, "queue"), _SHORT_S, **model), judge)
    return f"{said}; {_failing(case)}"


def _failing(case: Case) -> str:
    """Return evidence that what a failing model did not do is not counted; raise Missed where it is."""
    batch, model = _batch(case, "failing"), {"durations_ms": [20.0], "fails_from": _FAILS_FROM}
    reply, _ = timed_reply(case, time_throughput, model, 10 * _SHORT_S + 5, batch=batch, seconds=_SHORT_S)
    if reply.error:
        return f"a model that fails ends it: {reply.error['type']}"
    rate, most = rate_of(reply.value), _FAILS_FROM * batch / _SHORT_S
    if rate > most * (1 + TOLERANCE):
        expected = f"an exception, or {most:.0f} images/s at most: this model fails from call {_FAILS_FROM + 1} on"
        raise Missed(expected, f"{rate:.0f}", "let the model's exception go on, and count no call that raised")
    return f"{rate:.0f} images/s of a model that fails"


POINTS = (images, duration, batch_size, warm_up, synchronized)
