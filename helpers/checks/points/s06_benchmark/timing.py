"""Probes that call the student's functions with models of known timing, and how often a point looks at them."""

from collections.abc import Callable
from functools import partial
from numbers import Real
from typing import Any, TypedDict, TypeVar

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.student import Reply
from helpers.checks.probes.timed_calls import ServedModel, StandIn
from helpers.toys.clock import RealClock, SimulatedClock, StillRunningError
from helpers.toys.networks import EDGE

SHAPE = (3, EDGE, EDGE)
"""Channels, height and width of the images."""

ATTEMPTS = 3
"""How often a point looks, where the student's clock is the machine's own: another program may have disturbed it."""

Found = TypeVar("Found")


class Numbers(TypedDict):
    """What `numbers` answers."""

    numbers: dict[str, float]
    others: dict[str, str]
    type: str


class TimedRun(Numbers):
    """What `time_latency` and `time_throughput` answer."""

    stopped: bool
    known: bool


@probe
def time_latency(
    notebook: Notebook,
    *,
    batch: int | None,
    counts: dict[str, int],
    patience_s: float,
    long: bool = False,
    runs: int = 1,
    attempt: int = 0,
) -> TimedRun:
    """Call benchmark_latency with the model that is served.

    Args:
        batch: images in the input; without, the input is None.
        counts: `num_iterations` and `warmup`; what is not there is left to the function's defaults.
        patience_s: seconds of the model's clock after which it is stopped.
        long: not to be done in real time.
        runs: how often, one after the other with the same model; the last one's numbers count.
        attempt: makes a repeated call another request.

    Returns:
        `numbers` and `others` of what came back, its `type`, `stopped` (whether it went on beyond `patience_s`), and
        `known` (False where a `long` call read another clock: nothing is known).
    """
    benchmark, given = notebook["benchmark_latency"], None if batch is None else images(batch, attempt)

    def run(model: StandIn) -> Any:
        return [benchmark(model, given, **counts) for _ in range(runs)][-1]

    return _on_timed_model(notebook, benchmark, given, patience_s, long, run)


@probe
def time_throughput(
    notebook: Notebook,
    *,
    batch: int,
    seconds: float | None,
    patience_s: float,
    long: bool = False,
    runs: int = 1,
    attempt: int = 0,
) -> TimedRun:
    """Call benchmark_throughput with the served model; `seconds` None leaves duration_sec to its default. As above."""
    benchmark, given = notebook["benchmark_throughput"], {} if seconds is None else {"duration_sec": seconds}

    def run(model: StandIn) -> Any:
        return [benchmark(model, batch, **given) for _ in range(runs)][-1]

    return _on_timed_model(notebook, benchmark, None, patience_s, long, run)


def _on_timed_model(
    notebook: Notebook, function: Any, given: Any, patience_s: float, long: bool, run: Callable[[StandIn], Any]
) -> TimedRun:
    """Run on a simulated clock; where the code did not live by it, in real time."""
    for kind in (SimulatedClock,) if long else (SimulatedClock, RealClock):
        clock, returned, stopped = kind(patience_s), None, False
        notebook.ask("begin", simulated=kind is SimulatedClock)
        try:
            with clock.read_by(function):
                returned = run(model := StandIn(notebook, clock, given))
            model.finish()
        except StillRunningError:
            stopped = True
        except Exception:
            if clock.followed:
                raise
        if clock.followed:
            break
    return {**numbers(returned), "stopped": stopped, "known": clock.followed}


def timed_reply(
    case: Case, probe: Callable[..., Any], model: dict[str, Any], patience_s: float, **asked: Any
) -> tuple[Reply, dict[str, Any]]:
    """Run a probe of this file on a TimedModel of these arguments, which lives on this side.

    Returns the reply, and what this side knows: `simulated`, `stopped`, `strangers` and the `log` of ServedModel.
    """
    serves = partial(ServedModel, model=model, limit_s=patience_s)
    reply = case.call(probe, serves=serves, patience_s=patience_s, **asked)
    own = reply.served
    seen = {"simulated": own.simulated, "stopped": own.stopped, "strangers": own.strangers, "log": own.log()}
    return reply, seen


def numbers(returned: Any) -> Numbers:
    """Return what a function gave as plain data: `numbers` and, for what is none, `others` by name, and its `type`.

    A value that is no dictionary has the name "".
    """
    values = {str(key): value for key, value in returned.items()} if isinstance(returned, dict) else {"": returned}
    real = {key: _real(value) for key, value in values.items()}
    return {
        "numbers": {key: value for key, value in real.items() if value is not None},
        "others": {key: type(values[key]).__name__ for key, value in real.items() if value is None},
        "type": type(returned).__name__,
    }


def _real(value: Any) -> float | None:
    """Return a number as a float: Python's, NumPy's, or a tensor's of one element; None for anything else."""
    if isinstance(value, (bool, str)):
        return None
    try:
        return float(value) if isinstance(value, Real) or getattr(value, "ndim", None) == 0 else None
    except (TypeError, ValueError):
        return None


def images(batch: int, seed: int) -> np.ndarray:
    """Return float32 images [batch, 3, 224, 224]."""
    return np.random.default_rng(seed).standard_normal((batch, *SHAPE), dtype=np.float32)


def settled(measure: Callable[[int], Found], judge: Callable[[Found], str]) -> str:
    """Return the evidence of a measurement that `judge` accepts: the only one on a simulated clock, else of three.

    What was measured says `simulated`. What `measure` raises ends it at once: code that raised would do so again.

    Raises:
        Missed: none was accepted; what the last one lacked.
    """
    for attempt in range(ATTEMPTS):
        found = measure(attempt)
        try:
            return judge(found)
        except Missed:
            if found.simulated or attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")
