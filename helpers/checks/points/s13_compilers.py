"""Step 13: two clocks, the time to the first result, an engine's build, and the break-even number of calls."""

import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypedDict
from unittest import mock

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.case import Case
from helpers.checks.points.pure import agree, compare, plain
from helpers.checks.points.task import Task
from helpers.checks.points.timed import (
    BRIEF,
    EARLY,
    PATIENCE_S,
    SLOW_AT_FIRST,
    Ran,
    Timed,
    called,
    milliseconds,
    ran,
    rank_is,
    spread,
    timed,
    until_done,
    warm_up_left_out,
    warm_up_waited_for,
)
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.builds import Recorded, as_bytes, recorded_builds
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
"""Figures in the notebook's text."""

CLOCKS = Task("compilers_clocks", check="check_clocks", takes=(HOST, EVENTS))
COSTS = Task("compilers_costs", check="check_costs", takes=(COMPILE, PLAN, BREAK_EVEN))
TASKS = (CLOCKS, COSTS)

_EVENTS = "recorded events, and the device's work between them: simulated in the student's process"
_CALLS = 200


@probe
def time_by_host(notebook: Notebook, *, iterations: int, warmup: int) -> Ran:
    """Call time_with_host_clock with the served model."""
    measure = notebook[HOST]
    return ran(notebook, measure, lambda model: measure(lambda: model(None), model.synchronize, iterations, warmup))


def _by_host(case: Case, model: dict[str, Any], iterations: int = _CALLS, warmup: int = 0) -> Timed:
    calls = (iterations, warmup)
    return timed(case, HOST, time_by_host, model, calls=calls, iterations=iterations, warmup=warmup)


class EventRun(TypedDict):
    """The answer of `time_by_events`: the function's result, TimedModel's log, and the recorded events.

    `marks`: for each event, the number of calls before it; `elsewhere`: how many events were not in the stream.
    """

    returned: Any
    log: dict[str, Any]
    marks: list[int]
    elsewhere: int


@probe
def time_by_events(notebook: Notebook, *, model: dict[str, Any], iterations: int, warmup: int) -> EventRun:
    """Call time_with_events with a TimedModel whose work is on a stream."""
    measure, clock = notebook[EVENTS], SimulatedClock(PATIENCE_S)
    device = TimedModel(clock, asynchronous=True, queue=10_000, **model)
    found: EventRun = {"returned": None, "log": {}, "marks": [], "elsewhere": 0}
    stream = SimpleNamespace(synchronize=device.synchronize)
    with clock.read_by(measure), _events_of(clock, device, stream, found):
        found["returned"] = plain(measure(lambda: device(None), stream, iterations, warmup))
    return {**found, "log": device.log()}


@contextmanager
def _events_of(clock: SimulatedClock, device: TimedModel, stream: Any, found: EventRun) -> Iterator[None]:
    """Simulate `cuda.Event` and `cuda.Context.synchronize` for a device inside the block."""

    class Event:
        def __init__(self, flags: int = 0) -> None:
            self.moment = math.inf

        def record(self, where: Any = None) -> "Event":
            found["marks"].append(len(device.log()["start_s"]))
            found["elsewhere"] += where is not stream
            self.moment = max(clock.now(), device.done_s)
            return self

        def synchronize(self) -> None:
            device.synchronize()

        def time_since(self, event: "Event") -> float:
            if clock.now() < max(self.moment, event.moment):
                raise RuntimeError("the device has not reached this event yet: synchronize first")
            return (self.moment - event.moment) * 1e3

        def time_till(self, event: "Event") -> float:
            return event.time_since(self)

    with mock.patch.multiple(cuda, Event=Event, Context=SimpleNamespace(synchronize=device.synchronize)):
        yield


def _by_events(case: Case, model: dict[str, Any], iterations: int = _CALLS, warmup: int = 0) -> Timed:
    """Time calls that return at once."""
    found = case.call(time_by_events, model=model, iterations=iterations, warmup=warmup).require(EVENTS)
    starts = found["log"]["start_s"]
    if not len(starts):
        raise Missed(f"{iterations} timed calls of run", "none", "call run in the timed loop, once per iteration")
    work_ms = np.array([*model.get("first_ms", []), *np.resize(model["durations_ms"], len(starts))])
    ends = starts + work_ms[: len(starts)] / 1e3  # between the two events of a call
    return Timed(found["returned"], {**found["log"], "end_s": ends}, 0, found, iterations, warmup)


def _long(case: Case) -> dict[str, Any]:
    return {"durations_ms": spread(case, "compilers.times", _CALLS)}


def _figures(time: Callable[..., Timed], case: Case, advice: str) -> str:
    found = time(case, _long(case))
    ranks = rank_is(found, "median", 50, advice), rank_is(found, "p95", 95, advice)
    return "; ".join((milliseconds(time(case, BRIEF, 5)), *ranks))


def _calls(time: Callable[..., Timed], case: Case) -> str:
    random = case.random("compilers.calls")
    counts = (int(random.integers(6, 15)), int(random.integers(2, 6))), (1, 0)
    said = [called(time(case, BRIEF, *each)) for each in counts]
    return "; ".join((*said, warm_up_left_out(time(case, SLOW_AT_FIRST, 4, 5), "median")))


@CLOCKS.point("host.times", 0.25, "Host clock: median and p95 are right, in milliseconds")
def host_times(case: Case) -> str:
    return _figures(_by_host, case, "time each call until its work is done, and take median and p95 of these times")


@CLOCKS.point("host.calls", 0.25, "Host clock: warmup + iterations calls of run, the warm-up not timed")
def host_calls(case: Case) -> str:
    return f"{_calls(_by_host, case)}; {warm_up_waited_for(_by_host(case, EARLY, 12, 4))}"


@CLOCKS.point("host.waits", 0.25, "Host clock: each time ends when the work is done")
def host_waits(case: Case) -> str:
    return until_done(_by_host(case, EARLY, 12, 4))


@CLOCKS.point("events.times", 0.25, "Events: median and p95 are right, in milliseconds", reported=_EVENTS)
def events_times(case: Case) -> str:
    return _figures(_by_events, case, "read the milliseconds between each call's two events, after the synchronisation")


@CLOCKS.point(
    "events.stream", 0.25, "Events: one before and one after each timed call, in the stream", reported=_EVENTS
)
def events_stream(case: Case) -> str:
    found = _by_events(case, _long(case))
    marks, elsewhere = set(found.rest["marks"]), found.rest["elsewhere"]
    lacking = [calls for calls in range(found.calls - _CALLS, found.calls + 1) if calls not in marks]
    found_so = {"events outside the stream": elsewhere, "calls with no event after them": lacking}
    right = {"events outside the stream": 0, "calls with no event after them": []}
    advice = "record two events per call, or one between two calls, and pass the stream to record"
    agree(found_so, right, f"{_CALLS} timed calls", advice)
    return f"{len(marks)} events in the stream around {_CALLS} calls"


@CLOCKS.point("events.fed", 0.25, "Events: no synchronisation until the last timed call, then one", reported=_EVENTS)
def events_fed(case: Case) -> str:
    found = _by_events(case, _long(case))
    waits = {calls for calls in found.log["waits"] if calls > found.calls - _CALLS}
    advice = "make all calls and keep their events, then synchronize once before you read times"
    found_so, right = {"synchronised after calls": sorted(waits)}, {"synchronised after calls": [found.calls]}
    agree(found_so, right, f"{_CALLS} timed calls", advice)
    return f"{_CALLS} calls, then one synchronisation"


@CLOCKS.point(
    "events.calls",
    0.25,
    "Events: warmup + iterations calls of run, the warm-up not counted",
    reported=_EVENTS,
)
def events_calls(case: Case) -> str:
    return _calls(_by_events, case)


_INPUT = [2, 3, 4, 4]


@probe
def time_first_answer(notebook: Notebook) -> Ran:
    """Call compile_seconds with the served model as the network; making it is a call, too, without an input.

    Returns the seconds, and for each further value whether it is the network that was made.
    """
    measure, first_input = notebook[COMPILE], np.zeros(_INPUT, np.float32)

    def run(model: StandIn) -> Any:
        def make() -> StandIn:
            model(None)
            return model

        returned = measure(make, first_input)
        seconds, *others = returned if isinstance(returned, (tuple, list)) else [returned]
        told = "the network" if seconds is model else seconds
        return {"seconds": told, "made": [other is model for other in others]}

    return ran(notebook, measure, run)


def _first_answer(case: Case, *seconds: float) -> Timed:
    """Return the run of compile_seconds on a network that takes these seconds to make, and for its first call."""
    model = {"first_ms": [1e3 * each for each in seconds], "durations_ms": [200.0]}
    return timed(case, COMPILE, time_first_answer, model)


@COSTS.point("compile.first_answer", 0.25, "The time to the first result, whenever it compiles")
def first_answer(case: Case) -> str:
    long, short = (float(case.random("compilers.first").uniform(*ends)) for ends in ((1, 2), (0.1, 0.2)))
    advice = "time make() and the first call of its result together, in seconds"
    for seconds, when in (((long, short), "in make"), ((short, long), "in the first call")):
        found = _first_answer(case, *seconds).returned
        agree(found, {"seconds": long + short}, f"{COMPILE}, compiling {when}", advice, rtol=0.01)
    return f"{long + short:.3f} s, whenever it compiles"


@COSTS.point(
    "compile.made_once",
    0.25,
    "The network is made once, called once with first_input, and returned",
    reported="if the returned network is the one that was made: the student's process says so",
)
def made_once(case: Case) -> str:
    found = _first_answer(case, 0.1, 1.0)
    did = {"inputs": found.log["shapes"], "returned": found.returned}
    right = {"inputs": [[], _INPUT], "returned": {"made": [True]}}
    advice = "call the network of make() once with first_input, and return (seconds, network)"
    agree(did, right, f"{COMPILE}: make(), one call of the network, and its return", advice)
    return "made once, called once, returned"


class BuiltPlan(TypedDict):
    """The answer of `build_a_plan`."""

    plan: bytes | None
    builds: list[Recorded]


@probe
def build_a_plan(notebook: Notebook, *, onnx: bytes, half: bool) -> BuiltPlan:
    """Call build_plan for a model, with or without `half`."""
    with tempfile.TemporaryDirectory() as folder, recorded_builds() as builds:
        source = Path(folder) / "model.onnx"
        source.write_bytes(onnx)
        plan = as_bytes(notebook[PLAN](source, half))
    return {"plan": plan, "builds": builds}


@COSTS.point("compile.plans", 0.25, "An engine of the file, with FP16 allowed only if half is true")
def plans(case: Case) -> str:
    onnx = tiny_onnx(case.number("compilers.plan"), batch=2)
    for half in (False, True):
        built, what = case.call(build_a_plan, onnx=onnx, half=half).require(PLAN), f"{PLAN}(onnx_path, {half})"
        builders.facts_of(built["plan"], f"the return value of {what}")
        agree(builders.asked_for(built)["flags"], {"FP16": half}, f"the flags of {what}", "set FP16 only if half")
    return "engines that load, FP16 allowed only if asked for"


@COSTS.point("break_even.calls", 0.25, "The smallest number of calls after which compiling pays off")
def paid_off(case: Case) -> str:
    random = case.random("compilers.break even")
    asked = [(float(random.integers(2, 9)), 4.0, 8.0), (0.5, 1.0, 1.5)]  # exact whole numbers
    asked += [(random.uniform(1, 90), ms := random.uniform(0.5, 5), ms * random.uniform(1.2, 9)) for _ in range(5)]
    pairs = [(each, math.ceil(each[0] * 1e3 / (each[2] - each[1]))) for each in asked]
    advice = "divide the milliseconds by what one call saves, and round up"
    return compare(case, BREAK_EVEN, pairs, advice)


@COSTS.point("break_even.never", 0.25, "None if it never pays off")
def never(case: Case) -> str:
    ms = float(case.random("compilers.never").uniform(2, 5))
    pairs = [((2.0, 8.0, 8.0), None), ((3.0, ms, ms / 2), None)]
    return compare(case, BREAK_EVEN, pairs, "return None if a call saves no time")
