"""What is asked of benchmark_throughput(model, batch_size, duration_sec=60)."""

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.s06_benchmark.latency import SHAPE
from helpers.checks.points.task import Task
from helpers.checks.points.timed import Ran, Timed, number, ran, timed, warmed_up
from helpers.checks.probes.answer import Notebook, probe

FUNCTION = "benchmark_throughput"
DURATION_S = 60
PROMISES = (
    f"benchmark_throughput(model, batch_size, duration_sec={DURATION_S})",
    "a few calls, or a tenth of the time",
)

THROUGHPUT = Task("benchmark_throughput", check="check_throughput", takes=(FUNCTION,))

_TOLERANCE, _PATIENCE_S = 0.005, 100.0
_UNEVEN_MS = [25.0] * 40 + [200.0] + [50.0] * 40
"""For about two seconds: no part of that time is a measure of the whole."""


@probe
def time_throughput(notebook: Notebook, *, batch: int, seconds: float | None, patience_s: float) -> Ran:
    """Call benchmark_throughput with the served model; `seconds` None leaves duration_sec to its default."""
    function, more = notebook[FUNCTION], {} if seconds is None else {"duration_sec": seconds}
    return ran(notebook, function, lambda model: function(model, batch, **more), patience_s, repeated=True)


def _timed(case: Case, seconds: float | None, batch: int = 0, **model: object) -> Timed:
    batch = batch or int(case.random("throughput.batch").integers(5, 10))
    return timed(case, FUNCTION, time_throughput, model, _PATIENCE_S, batch=batch, seconds=seconds)


def _rate(found: Timed) -> float:
    """Return the images per second, of a number or of a dictionary that names them."""
    given = found.returned
    value = given.get("images_per_s") if isinstance(given, dict) else given
    return number(value, "images per second", given, "return images / seconds")


def _steady(case: Case) -> tuple[float, float]:
    """Return the rate of a few calls that take equally long, and the true one, which is no whole number."""
    random = case.random("throughput.steady")
    batch, right = int(random.integers(5, 10)), int(random.integers(55, 65)) + 0.5
    found = _timed(case, 5.3 * batch / right, batch, durations_ms=[1e3 * batch / right])
    return _rate(found), right * found.log["images"][-1] / batch


def _agrees(rate: float, low: float, high: float, advice: str) -> str:
    if not low * (1 - _TOLERANCE) <= rate <= high * (1 + _TOLERANCE):
        truth = f"{low:.2f}" if low == high else f"{low:.2f} to {high:.2f}"
        raise Missed(f"{truth} images/s, by the model's own log", f"{rate:.2f}", advice)
    return f"{rate:.2f} images/s"


@THROUGHPUT.point("throughput.images", 1.5, "It is images over the seconds that passed")
def images(case: Case) -> str:
    advice = "count batch_size images for each timed call, and divide by the whole time that passed; do not round"
    rate, right = _steady(case)
    said = _agrees(rate, right, right, advice)
    found = _timed(case, 2.0, durations_ms=_UNEVEN_MS)
    start, end = found.log["start_s"], found.log["end_s"][-1]
    done = np.cumsum(found.log["images"][::-1])[::-1]
    rates = (done / (end - start))[: found.calls // 3 + 1]  # the first third may have been a warm-up
    return f"{said}; {_agrees(_rate(found), float(rates.min()), float(rates.max()), advice)}"


@THROUGHPUT.point("throughput.duration", 0.75, "It measures for duration_sec")
def duration(case: Case) -> str:
    said = []
    for seconds, call_ms in ((3.0, 40.0), (6.0, 40.0), (None, 400.0)):
        found, expected = _timed(case, seconds, durations_ms=[call_ms], first_ms=[10.0] * 20), seconds or DURATION_S
        span = float(found.log["end_s"][-1] - found.log["start_s"][0])
        if not 0.9 * expected < span < 1.5 * expected:
            advice = f"run the model until duration_sec seconds have passed on the clock; the default is {DURATION_S}"
            raise Missed(f"calls for {expected:g} s", f"{span:.2f} s", advice)
        said.append(f"{span:.2f} s of {expected:g}")
    return ", ".join(said)


@THROUGHPUT.point(
    "throughput.batch",
    0.5,
    "The model gets one float32 input of batch_size, made before the clock starts",
    reported="what the model is called with: the arrays never leave the student's process",
)
def batch_size(case: Case) -> str:
    batch = int(case.random("throughput.large").integers(65, 97))
    found, advice = _timed(case, 1.0, batch, durations_ms=[90.0]), "make one input of batch_size before the clock"
    wrong = [given for given in found.log["shapes"] if given != [batch, *SHAPE]]
    if wrong or found.log["dtypes"] != ["float32"]:
        text = f"{wrong[0] if wrong else ''} {', '.join(found.log['dtypes'])}".strip()
        raise Missed(f"float32 inputs {[batch, *SHAPE]} for batch_size={batch}", text, f"{advice}, as float32")
    if found.strangers > found.calls // 2:  # who warms up with another array is right
        text = f"another array in {found.strangers} of {found.calls} calls"
        raise Missed("the same input in each timed call", text, f"{advice}: the loop would time the random numbers too")
    return f"{found.calls} calls with float32 {[batch, *SHAPE]}"


@THROUGHPUT.point("throughput.warm_up", 0.5, "The first executions do not count")
def warm_up(case: Case) -> str:
    found, without = (_timed(case, 2.0, durations_ms=[40.0], first_ms=first) for first in ([2000.0], []))
    return warmed_up("images/s", _rate(found), _rate(without))


@THROUGHPUT.point("throughput.synchronized", 1, "Only finished work counts")
def synchronized(case: Case) -> str:
    hint = "synchronize at least twice: after the warm-up, and after the last call, before you read the clock"
    early = {"durations_ms": [100.0], "asynchronous": True, "queue": 40}
    found, waiting = (_timed(case, 1.05, **how) for how in (early, {"durations_ms": [100.0]}))
    halfway = (_timed(case, seconds, **early, in_call=[0.9]) for seconds in (1.05, 1.2))  # between two waits, if it can
    for each in (found, *halfway):
        if each.calls not in each.log["waits"]:
            text = f"the last wait came after {max(each.log['waits'], default=0)} of {each.calls} calls"
            raise Missed("a wait after the last call of a model that returns early", text, hint)
    right = _rate(waiting)  # the same work, in calls that return when it is done
    return f"{_agrees(_rate(found), right, right, hint)}, whether calls return early or not"
