"""The student's side of step 13: its functions on a simulated device, a network that compiles late, and small files."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from helpers.checks.points.s06_benchmark.timing import Numbers, numbers
from helpers.checks.points.s13_compilers.device import Device, Log
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.builds import Recorded, as_bytes, recorded_builds
from helpers.checks.probes.frames import said
from helpers.toys.clock import Clock, RealClock, SimulatedClock, StillRunningError


class TimedCalls(Numbers, Log):
    """What `time_calls` answers."""

    stopped: bool
    simulated: bool


class Answered(TypedDict):
    """What `answer_first` answers."""

    seconds: float | None
    returned: str
    same: bool
    stopped: bool
    made: int
    inputs: list[bool]
    simulated: bool


class BuiltPlan(TypedDict):
    """One call of build_plan that gives a plan."""

    plan: bytes | None
    type: str
    builds: list[Recorded]


class Raised(TypedDict):
    """One that raises."""

    type: str | None
    message: str


class Plans(TypedDict):
    """What `build_plans` answers."""

    plain: BuiltPlan
    half: BuiltPlan
    unbuilt: Raised
    broken: Raised


class Value(TypedDict):
    """What a function returned."""

    type: str
    value: float | None


@probe
def time_calls(
    notebook: Notebook,
    *,
    function: str,
    device: dict[str, Any],
    iterations: int,
    warmup: int,
    patience_s: float,
    attempt: int = 0,
) -> TimedCalls:
    """Call a timing function with a Device of these arguments.

    Returns what `numbers` and `Device.log` give, `stopped` (whether it went on beyond `patience_s` of the clock), and
    `simulated`. `attempt` makes it another request.
    """
    measure = notebook[function]

    def run(clock: Clock) -> dict[str, Any]:
        simulated, returned, stopped = Device(clock, **device), None, False
        given = simulated.synchronize if function == "time_with_host_clock" else simulated.stream
        try:
            with simulated.as_cuda():
                returned = measure(simulated.run, given, iterations, warmup)
        except StillRunningError:
            stopped = True
        return {**numbers(returned), "stopped": stopped, **simulated.log()}

    return _by_a_clock(measure, patience_s, run, needs_clock=function == "time_with_host_clock")


def _by_a_clock(
    function: Any, patience_s: float, run: Callable[[Clock], dict[str, Any]], *, needs_clock: bool = True
) -> dict[str, Any]:
    """Return what `run` gives on a simulated clock; where the code read another one, in real time. And `simulated`."""
    found: dict[str, Any] = {}
    for kind in (SimulatedClock, RealClock):
        clock = kind(patience_s)
        with clock.read_by(function):
            found = run(clock)
        if clock.followed or not needs_clock:
            break
    return {**found, "simulated": kind is SimulatedClock}


@probe
def answer_first(
    notebook: Notebook, *, make_s: float, first_s: float, later_s: float, patience_s: float, attempt: int = 0
) -> Answered:
    """Call compile_seconds with a network that takes these times to be made, to answer first and to answer later.

    Returns `seconds` (None where that is no number), `returned` (the type), `same` (whether the network came back),
    `made`, and `inputs`: of each call, whether it got first_input itself.
    """
    measure = notebook["compile_seconds"]
    first_input = np.zeros((2, 3, 4, 4), np.float32)

    def run(clock: Clock) -> dict[str, Any]:
        inputs: list[bool] = []
        made: list[Callable[[Any], np.ndarray]] = []

        def make() -> Callable[[Any], np.ndarray]:
            clock.wait_until(clock.now() + make_s)

            def network(images: Any) -> np.ndarray:
                clock.wait_until(clock.now() + (later_s if inputs else first_s))
                inputs.append(images is first_input)
                return np.zeros((2, 10), np.float32)

            made.append(network)
            return network

        returned, stopped = None, False
        try:
            returned = measure(make, first_input)
        except StillRunningError:
            stopped = True
        pair = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        seconds = numbers(pair[0])["numbers"].get("") if pair else None
        same = len(pair) == 2 and any(pair[1] is network for network in made)
        about = {"seconds": seconds, "returned": type(returned).__name__, "same": same, "stopped": stopped}
        return {**about, "made": len(made), "inputs": inputs}

    return _by_a_clock(measure, patience_s, run)


@probe
def build_plans(notebook: Notebook, *, onnx: bytes, broken: bytes) -> Plans:
    """Call build_plan for a model with and without `half`, and for a file that is none.

    Returns `plain` and `half` (`plan`, None without one; `type`; `builds`), and `unbuilt` and `broken`:
    the `type` and `message` of what was raised where the build gives None, and for a file that is no model.
    """
    build, found = notebook["build_plan"], {}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "model.onnx"
        source.write_bytes(onnx)
        for name, half in (("plain", False), ("half", True)):
            with recorded_builds() as builds:
                returned = build(source, half)
            asked = [asdict(each) for each in builds]
            found[name] = {"plan": as_bytes(returned), "type": type(returned).__name__, "builds": asked}
        with recorded_builds(failing=True):
            found["unbuilt"] = _raised(lambda: build(source, False))
        source.write_bytes(broken)
        found["broken"] = _raised(lambda: build(source, False))
    return found


def _raised(call: Callable[[], Any]) -> Raised:
    try:
        call()
    except NotImplementedError:
        raise
    except Exception as error:
        kind = "RuntimeError" if isinstance(error, RuntimeError) else type(error).__name__
        return {"type": kind, "message": said(error)}
    return {"type": None, "message": ""}


@probe
def break_evens(notebook: Notebook, *, asked: Sequence[Sequence[float]]) -> list[Value]:
    """Return of each triple of arguments what break_even gives: its `type`, and `value`, None where it is no number."""
    function = notebook["break_even"]
    found = []
    for arguments in asked:
        returned = function(*arguments)
        found.append({"type": type(returned).__name__, "value": numbers(returned)["numbers"].get("")})
    return found
