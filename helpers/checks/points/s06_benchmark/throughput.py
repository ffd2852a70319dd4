"""The points of benchmark_throughput(model, batch_size, duration_sec=60)."""

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.pure import agree
from helpers.checks.points.s06_benchmark.latency import SHAPE
from helpers.checks.points.task import Task
from helpers.checks.points.timed import Ran, Timed, number, ran, timed
from helpers.checks.probes.answer import Notebook, probe

FUNCTION = "benchmark_throughput"
PROMISES = ("a few calls, or a tenth of the time",)

THROUGHPUT = Task("benchmark_throughput", check="check_throughput", takes=(FUNCTION,))

_TOLERANCE = 0.005


@probe
def time_throughput(notebook: Notebook, *, batch: int, seconds: float) -> Ran:
    """Call benchmark_throughput with the served model."""
    function = notebook[FUNCTION]
    return ran(notebook, function, lambda model: function(model, batch, seconds))


def _timed(case: Case, seconds: float, batch: int = 0, **model: object) -> Timed:
    batch = batch or int(case.random("throughput.batch").integers(5, 10))
    return timed(case, FUNCTION, time_throughput, model, batch=batch, seconds=seconds)


def _rate(found: Timed) -> float:
    return number(found.returned, "images per second", found.returned, "return images / seconds")


def _agrees(rate: float, right: float, advice: str, *others: float) -> str:
    """Return evidence that a rate is right: `right` or one of `others`."""
    if not any(abs(rate - value) <= _TOLERANCE * value for value in (right, *others)):
        raise Missed(f"{right:.2f} images/s, by the model's own log", f"{rate:.2f} images/s", advice)
    return f"{rate:.2f} images/s"


@THROUGHPUT.point("throughput.images", 1.5, "Images divided by the seconds that passed")
def images(case: Case) -> str:
    random = case.random("throughput.steady")
    batch, right = int(random.integers(5, 10)), int(random.integers(55, 65)) + 0.5  # not a whole number
    brief_s = 0.5 * batch / right  # every third call takes four times as long: the median tells nothing
    found = _timed(case, 23.6 * brief_s, batch, durations_ms=[1e3 * brief_s, 1e3 * brief_s, 4e3 * brief_s])
    starts, end, given = found.log["start_s"], found.log["end_s"][-1], sum(found.log["images"]) / found.calls
    rates = [given * (found.calls - warm) / (end - starts[warm]) for warm in range(found.calls // 2 + 1)]
    advice = "count batch_size images per timed call, divide by the time that passed, and do not round"
    return _agrees(_rate(found), right * given / batch, advice, *rates)


@THROUGHPUT.point("throughput.duration", 0.75, "It measures for duration_sec")
def duration(case: Case) -> str:
    seconds = 3.0
    found = _timed(case, seconds, durations_ms=[40.0], first_ms=[10.0] * 20)
    span = float(found.log["end_s"][-1] - found.log["start_s"][0])
    if not 0.9 * seconds < span < 1.5 * seconds:
        advice = "run the model until duration_sec seconds have passed on the clock"
        raise Missed(f"calls for {seconds:g} s", f"{span:.2f} s", advice)
    return f"{span:.2f} s of {seconds:g}"


@THROUGHPUT.point(
    "throughput.batch",
    0.5,
    "One float32 input of batch_size, made before the clock starts",
    reported="the array that the model is called with: it never leaves the student's process",
)
def batch_size(case: Case) -> str:
    batch = int(case.random("throughput.large").integers(65, 97))
    found, advice = _timed(case, 1.0, batch, durations_ms=[90.0]), "make one input of batch_size before the clock"
    inputs = {"shapes": sorted(set(map(tuple, found.log["shapes"]))), "types": found.log["dtypes"]}
    right = {"shapes": [[batch, *SHAPE]], "types": ["float32"]}
    agree(inputs, right, f"the model's inputs for batch_size={batch}", advice)
    if found.strangers > found.calls // 2:  # another array in the warm-up is fine
        text = f"another array in {found.strangers} of {found.calls} calls"
        raise Missed("the same input in each timed call", text, f"{advice}: the loop would time the random numbers too")
    return f"{found.calls} calls with float32 {[batch, *SHAPE]}"


@THROUGHPUT.point("throughput.warm_up", 0.5, "The warm-up does not count")
def warm_up(case: Case) -> str:
    found, without = (_timed(case, 2.0, durations_ms=[40.0], first_ms=first) for first in ([2000.0], []))
    return _agrees(_rate(found), _rate(without), "run the model a few times before you start the clock")


@THROUGHPUT.point("throughput.synchronized", 1, "Only finished work counts")
def synchronized(case: Case) -> str:
    hint = "synchronize after the warm-up and after the last call, before you read the clock"
    early = {"asynchronous": True, "queue": 2}  # the third call in flight waits for the first
    found, waiting = (_timed(case, 1.05, durations_ms=[100.0], **how) for how in (early, {}))
    if found.calls not in found.log["waits"]:
        text = f"the last one after {max(found.log['waits'], default=0)} of {found.calls} calls"
        raise Missed("a synchronisation after the last call", text, hint)
    right = _rate(waiting)  # the same work, in calls that return when it is done
    return f"{_agrees(_rate(found), right, hint)}, whether calls return early or not"
