"""Step 13: two clocks, the time until the first answer, an engine's build, and after how many calls it has paid off."""

import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypedDict
from unittest import mock

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.case import Case
from helpers.checks.points.pure import compare, plain
from helpers.checks.points.task import Task
from helpers.checks.points.timed import (
    PATIENCE_S,
    Ran,
    Timed,
    called,
    counted,
    milliseconds,
    number,
    ran,
    rank_is,
    spread,
    timed,
    until_done,
    warm_up_waited_for,
    warmed_up,
)
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.builds import FailedBuild, Recorded, as_bytes, failed_build, plan_facts, recorded_builds
from helpers.checks.probes.timed_calls import StandIn
from helpers.engine.backend import cuda
from helpers.toys.clock import SimulatedClock
from helpers.toys.networks import tiny_onnx
from helpers.toys.timed import TimedModel

HOST, EVENTS, COMPILE, PLAN, BREAK_EVEN = (
    "time_with_host_clock",
    "time_with_events",
    "compile_seconds",
    "build_plan",
    "break_even",
)
PROMISES = (
    "It must also work with `warmup=0` and with `iterations=1`",
    "a dictionary with `median_ms` and `p95_ms`",
)
"""What the notebook's text says in figures."""

CLOCKS = Task("compilers_clocks", check="check_clocks", takes=(HOST, EVENTS))
COSTS = Task("compilers_costs", check="check_costs", takes=(COMPILE, PLAN, BREAK_EVEN))
TASKS = (CLOCKS, COSTS)

_EVENTS = "where events are recorded, and what the device does between them: simulated in the student's process"
_CALLS, _SLOW_CALLS = 200, 5
_SLOW = [40.0] * _SLOW_CALLS
_EARLY = {"durations_ms": [2.5, 3.5, 3.0], "asynchronous": True, "in_call": [0.25, 1.0, 0.0]}


@probe
def time_by_host(notebook: Notebook, *, iterations: int, warmup: int, patience_s: float) -> Ran:
    """Call time_with_host_clock with the served model."""
    measure = notebook[HOST]

    def run(model: StandIn) -> Any:
        return measure(lambda: model(None), model.synchronize, iterations, warmup)

    return ran(notebook, measure, run, patience_s)


def _by_host(case: Case, iterations: int, warmup: int, **model: Any) -> Timed:
    found = timed(case, HOST, time_by_host, model, iterations=iterations, warmup=warmup)
    return counted(found, iterations, warmup)


class EventRun(TypedDict):
    """What `time_by_events` answers: what came back, TimedModel's log, and what happened with events.

    `marks`: of each record, the calls before it; `elsewhere`: how many of these were not in the stream; `early`: how
    many times were asked for before their event was reached.
    """

    returned: Any
    log: dict[str, Any]
    marks: list[int]
    elsewhere: int
    early: int


@probe
def time_by_events(notebook: Notebook, *, model: dict[str, Any], iterations: int, warmup: int) -> EventRun:
    """Call time_with_events with a TimedModel whose work is on a stream."""
    measure, clock = notebook[EVENTS], SimulatedClock(PATIENCE_S)
    device = TimedModel(clock, asynchronous=True, queue=10_000, **model)
    found: EventRun = {"returned": None, "log": {}, "marks": [], "elsewhere": 0, "early": 0}
    stream = SimpleNamespace(synchronize=device.synchronize, handle=4096, is_done=lambda: clock.now() >= device.done_s)
    with clock.read_by(measure), _events_of(clock, device, stream, found):
        found["returned"] = plain(measure(lambda: device(None), stream, iterations, warmup))
    return {**found, "log": device.log()}


@contextmanager
def _events_of(clock: SimulatedClock, device: TimedModel, stream: Any, found: EventRun) -> Iterator[None]:
    """Let `cuda.Event` and `cuda.Context.synchronize` be a device's inside the block."""

    class Event:
        def __init__(self, flags: int = 0) -> None:
            self.moment = math.nan

        def record(self, where: Any = None) -> "Event":
            found["marks"].append(len(device.log()["start_s"]))
            found["elsewhere"] += where is not stream
            self.moment = max(clock.now(), device.done_s if where in (stream, None) else 0.0)
            return self

        def query(self) -> bool:
            return not clock.now() < self.moment

        def synchronize(self) -> "Event":
            device.synchronize()
            return self

        def time_since(self, event: "Event") -> float:
            early = not (self.query() and event.query())
            found["early"] += early
            return math.nan if early else (self.moment - event.moment) * 1e3

        def time_till(self, event: "Event") -> float:
            return event.time_since(self)

    with mock.patch.multiple(cuda, Event=Event, Context=SimpleNamespace(synchronize=device.synchronize)):
        yield


def _by_events(case: Case, iterations: int = _CALLS, warmup: int = 0, **model: Any) -> Timed:
    """Time calls that return at once, by default a few hundred whose work takes different times."""
    model = model or {"durations_ms": spread(case, "compilers.events", iterations)}
    found = dict(case.call(time_by_events, model=model, iterations=iterations, warmup=warmup).require(EVENTS))
    log = found.pop("log")
    if not log["start_s"].size:
        raise Missed(f"{iterations} timed calls of run", "none", "call run in the timed loop, once an iteration")
    work_ms = np.array([*model.get("first_ms", []), *np.resize(model["durations_ms"], log["start_s"].size)])
    log["end_s"] = log["start_s"] + work_ms[: log["start_s"].size] / 1e3  # what lies between the events of a call
    return Timed(found.pop("returned"), log, 0, found, iterations, warmup)


def _figures(found: Timed, advice: str) -> str:
    return f"{milliseconds(found)}; {rank_is(found, 'median', 50, advice)}; {rank_is(found, 'p95', 95, advice)}"


def _counts(case: Case, purpose: str) -> list[tuple[int, int]]:
    random = case.random(purpose)
    return [(int(random.integers(6, 15)), int(random.integers(2, 6))), (int(random.integers(6, 15)), 0), (1, 0)]


def _warmed_up(time: Callable[..., Timed], case: Case) -> str:
    found, without = (time(case, 4, _SLOW_CALLS, durations_ms=[2.5], first_ms=first) for first in (_SLOW, []))
    return warmed_up("median", found.figure("median"), without.figure("median"))


@CLOCKS.point("host.times", 0.25, "By the host's clock: median and p95 are right, in milliseconds")
def host_times(case: Case) -> str:
    found = _by_host(case, _CALLS, 0, durations_ms=spread(case, "compilers.host", _CALLS))
    return _figures(found, "from before the call until its work is done; median and p95 of the single calls")


@CLOCKS.point("host.calls", 0.25, "By the host's clock: run is called warmup + iterations times, the warm-up untimed")
def host_calls(case: Case) -> str:
    said = [called(_by_host(case, *counts, durations_ms=[3.0])) for counts in _counts(case, "compilers.host calls")]
    slow = _warmed_up(_by_host, case)
    return f"{', '.join(said)}; {slow}; {warm_up_waited_for(_by_host(case, 12, 4, **_EARLY))}"


@CLOCKS.point("host.waits", 0.25, "By the host's clock: each time ends when the call's work is done")
def host_waits(case: Case) -> str:
    factor = _by_host(case, _CALLS, 0, durations_ms=spread(case, "compilers.host", _CALLS)).factor
    return until_done(_by_host(case, 12, 4, **_EARLY), "median", factor)


@CLOCKS.point("events.times", 0.25, "By events: median and p95 are right, in milliseconds", reported=_EVENTS)
def events_times(case: Case) -> str:
    found = _by_events(case)
    if found.rest["early"]:
        text = f"{found.rest['early']} times asked for before their event was reached"
        raise Missed("times that are read when the work is done", text, "wait once, after the last call")
    return _figures(found, "the milliseconds from each call's first event to its second, read after the wait")


@CLOCKS.point(
    "events.stream", 0.25, "By events: one is recorded in the stream before and after each timed call", reported=_EVENTS
)
def events_stream(case: Case) -> str:
    found = _by_events(case)
    marks, elsewhere = found.rest["marks"], found.rest["elsewhere"]
    if elsewhere:
        text = f"{elsewhere} of {len(marks)} elsewhere"
        raise Missed("every event recorded in `stream`", text, "pass the stream to record")
    if not set(range(found.calls - _CALLS, found.calls + 1)) <= set(marks):
        text, advice = f"{len(marks)} events, and none between some calls", "two events a call, or one between two"
        raise Missed(f"an event before and after each of {_CALLS} timed calls", text, advice)
    return f"{len(marks)} events in the stream around {_CALLS} calls"


@CLOCKS.point(
    "events.fed", 0.25, "By events: nobody waits from the first timed call to the last, and then once", reported=_EVENTS
)
def events_fed(case: Case) -> str:
    found, waits = _by_events(case), _by_events(case).log["waits"]
    between = [calls for calls in waits if found.calls - _CALLS < calls < found.calls]
    if between:
        advice = "keep all events, and wait once the last call was made"
        raise Missed("no wait between the timed calls", f"{len(between)} waits", advice)
    if found.calls not in waits:
        raise Missed("a wait after the last call", "none", "synchronize the stream before you ask for times")
    return f"{_CALLS} calls without a wait, and one at the end"


@CLOCKS.point(
    "events.calls",
    0.25,
    "By events: run is called warmup + iterations times, the warm-up not in the statistics",
    reported=_EVENTS,
)
def events_calls(case: Case) -> str:
    said = [called(_by_events(case, *counts, durations_ms=[3.0])) for counts in _counts(case, "compilers.event calls")]
    return f"{', '.join(said)}; {_warmed_up(_by_events, case)}"


class FirstAnswer(Ran):
    """What `time_first_answer` answers: Ran, and whether the network that was made came back, with what."""

    same: bool
    kind: str


_INPUT = (2, 3, 4, 4)


@probe
def time_first_answer(notebook: Notebook, *, patience_s: float) -> FirstAnswer:
    """Call compile_seconds with a network that is the served model; making it is a call too, without an input."""
    measure, first_input, came = notebook[COMPILE], np.zeros(_INPUT, np.float32), {"same": False, "kind": ""}

    def run(model: StandIn) -> Any:
        made: list[Callable[[Any], np.ndarray]] = []

        def make() -> Callable[[Any], np.ndarray]:
            model(None)
            made.append(lambda images: model(images))
            return made[-1]

        returned = measure(make, first_input)
        pair = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        came.update(same=len(pair) == 2 and pair[1] in made, kind=type(returned).__name__)
        return pair[0] if pair else None

    return {**ran(notebook, measure, run, patience_s, given=first_input), **came}


def _first_answer(case: Case, made_early: bool) -> tuple[Timed, float]:
    """Return what compile_seconds does with a compiler that works in make, or at the first call; and the truth."""
    random = case.random(f"compilers.first {made_early}")
    long, short = random.uniform(1.0, 2.0), random.uniform(0.1, 0.2)
    seconds = [long, short] if made_early else [short, long]
    model = {"first_ms": [1e3 * each for each in seconds], "durations_ms": [1e3 * short]}
    return timed(case, COMPILE, time_first_answer, model), sum(seconds)


@COSTS.point("compile.first_answer", 0.25, "The seconds are those until the first answer, whenever the compiler works")
def first_answer(case: Case) -> str:
    said, advice = [], "one clock around both: make(), and the first call of what it returns; in seconds"
    for made_early, when in ((True, "before make returns"), (False, "at the network's first call")):
        found, truth = _first_answer(case, made_early)
        seconds = number(found.returned, "the seconds", found.returned, "return seconds, network")
        if not abs(seconds / truth - 1) < 0.01:
            raise Missed(f"{truth:.3f} s of a compiler that works {when}", f"{seconds:.6g}", advice)
        said.append(f"{seconds:.3f} s of {truth:.3f}")
    return "; ".join(said)


@COSTS.point(
    "compile.made_once",
    0.25,
    "The network is made once, called once with first_input, and returned",
    reported="whether it is first_input that the network gets, and the network that comes back",
)
def made_once(case: Case) -> str:
    found, _ = _first_answer(case, False)
    shapes = found.log["shapes"]
    if shapes != [[], list(_INPUT)]:
        text = f"made {shapes.count([])} times, called {len(shapes) - shapes.count([])} times"
        raise Missed("a network that is made once and called once", text, "keep what make returns, and call that")
    if found.strangers > 1:  # the one is make, which gets none
        raise Missed("a call with first_input itself", "another object", "pass it on as it is")
    if not found.rest["same"]:
        text = f"a {found.rest['kind']} without it"
        raise Missed("two things: the seconds, and the network that make returned", text, "return seconds, network")
    return "made once, called once, returned"


class BuiltPlan(TypedDict):
    """What `build_a_plan` answers."""

    plan: bytes | None
    kind: str
    builds: list[Recorded]


@probe
def build_a_plan(notebook: Notebook, *, onnx: bytes, half: bool) -> BuiltPlan:
    """Call build_plan for a model, with or without `half`."""
    with tempfile.TemporaryDirectory() as folder, recorded_builds() as builds:
        source = Path(folder) / "model.onnx"
        source.write_bytes(onnx)
        returned = notebook[PLAN](source, half)
    return {"plan": as_bytes(returned), "kind": type(returned).__name__, "builds": [asdict(each) for each in builds]}


@probe
def fail_a_plan(notebook: Notebook, *, onnx: bytes, parsed: bool) -> FailedBuild:
    """Call build_plan for what is no model or, with `parsed`, where the build gives None."""
    build = notebook[PLAN]
    return failed_build(lambda source, target: build(source, False), onnx, parsed=parsed)


@COSTS.point("compile.plans", 0.25, "The engine is the file's, with FP16 allowed where half is true and only there")
def plans(case: Case) -> str:
    onnx = tiny_onnx(case.number("compilers.plan"), batch=2)
    for half in (False, True):
        built, what = case.call(build_a_plan, onnx=onnx, half=half).require(PLAN), f"{PLAN}(onnx_path, {half})"
        if not (built["plan"] and built["builds"] and plan_facts(built["plan"])):
            advice = "return what build_serialized_network gives"
            raise Missed(f"{what} to return a serialized engine", f"a {built['kind']}", advice)
        if built["builds"][-1]["flags"]["FP16"] != half:
            expected = f"{what} with FP16 {'allowed' if half else 'not allowed'}"
            raise Missed(expected, "the opposite", "look at `half` for the flag")
    ways = {False: (builders.NO_MODEL, "a file that is no ONNX model"), True: (onnx, "a build that gives None")}
    for parsed, (model, what) in ways.items():
        failed = case.call(fail_a_plan, onnx=model, parsed=parsed).require(PLAN)
        if not failed["as_asked"]:
            found, advice = failed["raised"] or "no exception", "look at what parser.parse and the build return"
            raise Missed(f"a RuntimeError for {what}", found, advice)
    return "FP16 only where asked for; a RuntimeError where it cannot be parsed or built"


@COSTS.point("break_even.calls", 0.25, "The number of calls is the least after which compiling has paid off")
def paid_off(case: Case) -> str:
    random = case.random("compilers.break even")
    asked = [(float(random.integers(2, 9)), 4.0, 8.0), (0.5, 1.0, 1.5)]  # which fit a whole number exactly
    asked += [(random.uniform(1, 90), ms := random.uniform(0.5, 5), ms * random.uniform(1.2, 9)) for _ in range(5)]
    pairs = [(each, math.ceil(each[0] * 1e3 / (each[2] - each[1]))) for each in asked]
    advice = "milliseconds over what one call saves; the next whole number, where it is none"
    return compare(case, BREAK_EVEN, pairs, advice)


@COSTS.point("break_even.never", 0.25, "Where it never pays off, the answer is None")
def never(case: Case) -> str:
    ms = float(case.random("compilers.never").uniform(2, 5))
    pairs = [((2.0, 8.0, 8.0), None), ((3.0, ms, ms / 2), None)]
    return compare(case, BREAK_EVEN, pairs, "a call that saves nothing pays for nothing")
