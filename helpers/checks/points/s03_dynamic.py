"""Step 3: an engine for batches 1 to 32, how many images per second it does, and where more batch is of no more use."""

import math
from functools import partial
from typing import Any, TypedDict

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.case import Case
from helpers.checks.points.point import Check, Reported, point
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.builds import build_engine, failing_build
from helpers.checks.probes.loads import loads
from helpers.checks.probes.student import one_each
from helpers.checks.probes.timed_calls import ServedModel, StandIn
from helpers.course.settings import PROFILE_BATCHES
from helpers.engine.backend import trt
from helpers.toys.clock import RealClock
from helpers.toys.networks import EDGE, tiny_onnx

FUNCTION, RATE, SATURATION = "build_engine_dynamic", "images_per_second", "saturation_batch"
TABLE = "measured_throughput"
"""What the notebook calls {batch: images per second} of the FP16 engine."""
MEASURED = (1, 4, 16, 32)
"""The batches that the notebook measures."""
GAIN_PERCENT = 10
"""From this gain on, the next larger batch is worth it."""

PROMISES = (
    "min, opt, max = batch {}, {}, {}".format(*PROFILE_BATCHES),
    f"a workspace of {builders.WORKSPACE_GB} GB",
    f"gains less than {GAIN_PERCENT} %",
    f"every step gains {GAIN_PERCENT} % or more",
)
"""What the notebook's text says in figures."""

_CLOCK = 0.01  # how far clocks of one machine differ in resolution, and what a loop costs
_EARLIEST, _LATEST, _LATE_S = 0.9, 1.5, 0.3
"""Measuring takes at least _EARLIEST of the seconds asked for; no run starts after _LATEST of them and _LATE_S."""
_RATE_LIMIT_S = 30.0
_BATCHES = (*range(1, 65), *range(100, 1001, 50))
_LARGE = _BATCHES[64:]
_EXACT = range(470, 641, 10)
"""Rates of which 1.1 times are a float that every usual way to write the rule calls a gain of 10 % or more."""


def network(case: Case) -> bytes:
    """Return a small network with weights of the case's own."""
    return tiny_onnx(case.number("dynamic.network"))


def built(case: Case, onnx: bytes = b"", *, fresh: bool = False) -> builders.Built:
    """Return what `build_engine` answers for a model, or else the case's network; `fresh`: of another build."""
    return case.call(build_engine, fresh=fresh, function=FUNCTION, onnx=onnx or network(case)).require(FUNCTION)


def twin(case: Case) -> builders.Built:
    """Return the same for fp16=False."""
    return case.call(build_engine, function=FUNCTION, onnx=network(case), options={"fp16": False}).require(FUNCTION)


def _built_and_written(case: Case) -> str:
    builders.built_again(case, tiny_onnx(case.number("dynamic.other")), network(case), FUNCTION)
    return builders.written(built(case))


@point(
    "A serialized engine is built at each call, returned and written to engine_path",
    Reported(f"whether it was built at this call, and {builders.WRITTEN}", 0.3, _built_and_written),
)
def plan(case: Case) -> str:
    return builders.returned(built(case), FUNCTION)


@point("One profile: batch 1 to 32, tuned for 8")
def profile(case: Case) -> str:
    return builders.profile_is(builders.plan_of(built(case), FUNCTION), PROFILE_BATCHES)


@point("A batch of 32 is accepted, one of 33 refused")
def limits(case: Case) -> str:
    engine_plan, largest = builders.plan_of(built(case), FUNCTION), PROFILE_BATCHES[-1]
    taken = {batch: _accepts(engine_plan, batch) for batch in (largest, largest + 1)}
    said = ", ".join(f"{batch} {'accepted' if ok else 'refused'}" for batch, ok in taken.items())
    if taken != {largest: True, largest + 1: False}:
        raise Missed(f"{largest} accepted, {largest + 1} refused", said, "look at the profile's largest shape")
    return said


@loads
def _accepts(engine_plan: bytes, batch: int) -> bool:
    """Whether an execution context takes this batch, asked of TensorRT itself."""
    engine = trt.Runtime(trt.Logger(trt.Logger.INTERNAL_ERROR)).deserialize_cuda_engine(engine_plan)
    context = engine.create_execution_context()
    return bool(context.set_input_shape(engine.get_tensor_name(0), (batch, 3, EDGE, EDGE)))


@point("Built for half precision")
def half_precision(case: Case) -> str:
    return builders.in_half(built(case), FUNCTION)


@point("The builder's workspace is limited to 2 GB", builders.WORKSPACE)
def workspace(case: Case) -> str:
    return builders.workspace_limited(built(case))


@point("fp16=False gives the same engine in FP32")
def fp32(case: Case) -> str:
    built_in_fp32 = twin(case)
    lower = [name for name in ("FP16", "BF16", "INT8") if builders.asked_for(built_in_fp32)["flags"].get(name)]
    found = builders.facts_of(builders.plan_of(built_in_fp32, FUNCTION), "the engine")["precisions"]
    if lower or set(found) & {"fp16", "bf16", "int8"}:
        said = f"layers by precision: {found}; allowed: {', '.join(lower) or 'nothing else'}"
        raise Missed("layers in FP32 only where fp16=False", said, "set the flag only if fp16")
    builders.returned_and_written(built_in_fp32, f"{FUNCTION} with fp16=False")
    builders.profile_is(builders.plan_of(built_in_fp32, FUNCTION), PROFILE_BATCHES)
    builders.workspace_limited(built_in_fp32)
    return f"layers by precision: {found}; profile and workspace as with FP16"


@point("A model that cannot be parsed gives an error with the parser's reason")
def parser_errors(case: Case) -> str:
    builders.refuses(case, failing_build, FUNCTION, None, function=FUNCTION)
    return builders.names_parser_errors(case, build_engine, FUNCTION, function=FUNCTION)


@point("A build that fails raises, and an earlier engine file stays", builders.FAILURES)
def failures(case: Case) -> str:
    said = builders.refuses(case, failing_build, FUNCTION, network(case), function=FUNCTION)
    builders.keeps_files(case, failing_build, FUNCTION, network(case), function=FUNCTION)
    return said


@probe
def timed_rate(notebook: Notebook, *, batch: int, seconds: float) -> float | str:
    """Call `images_per_second` with a run of the model that is served, in real time.

    Returns a number, or a text that says what came instead.
    """
    notebook.ask("begin", simulated=False)
    measure, model = notebook[RATE], StandIn(notebook, RealClock(math.inf))
    images = np.zeros((batch, 1), np.float32)

    def run(alive: Any = (model, images)) -> None:  # looks as the notebook's own does
        model(images)

    found = measure(run, batch, seconds)
    model.finish()
    return _number(found)


def _timed_rate(case: Case, made: dict[str, Any]) -> dict[str, Any]:
    """Return `rate`, what came back for a model of known times, and what passed on our side while it was measured.

    `start_s` and `end_s` [runs], and `returned_s`, when the function had answered; one clock.
    """
    model = {"durations_ms": made["runs_ms"], "first_ms": [made["first_ms"]]}
    asked = {"batch": made["batch"], "seconds": made["seconds"], "limit_s": _RATE_LIMIT_S}
    reply = case.call(timed_rate, serves=partial(ServedModel, model=model), **asked)
    unwritten = reply.error is not None and reply.error["type"] in ("NotImplementedError", "MissingNameError")
    said, log = reply.require(RATE if unwritten else _call(made)), reply.served.log()
    if reply.served.simulated:
        raise Missed("runs in real time", "a clock that was set", "measure with time.perf_counter")
    return {"rate": said, **{key: log[key] for key in ("start_s", "end_s")}, "returned_s": reply.served.returned_s}


def _call(made: dict[str, Any]) -> str:
    return f"{RATE}(run, batch={made['batch']}, seconds={made['seconds']:g})"


def _number(value: Any) -> float | str:
    try:
        return float(value)
    except (TypeError, ValueError):
        return f"a {type(value).__name__}"


@point("images_per_second counts images over the time that passed, after a first run that does not count")
def rate(case: Case) -> str:
    draw = case.random("dynamic.rate")
    uneven = [float(ms) for ms in draw.uniform((25, 2, 2, 2), (35, 3, 3, 3))]  # the first tells little of the others
    falling = [130 * 0.94**run for run in range(40)]  # no two alike: the rate tells which run counted
    slow = (1, 180.0, falling, 0.0)  # no time, yet one run: 7.7 images per second, so that whole numbers are seen
    steady = (2, 4.0, [4.0], 0.4)  # a hundred runs: who stops after so many, or once the rate is steady, is seen
    for batch, first_ms, runs_ms, seconds in (slow, (int(draw.integers(3, 64)), 40.0, uneven, 0.25), steady):
        made = {"batch": batch, "seconds": seconds, "first_ms": first_ms, "runs_ms": runs_ms}
        _check_rate(_timed_rate(case, made), made)
    return f"{min(uneven):.1f} to {max(uneven):.1f} ms a run, and one run that takes longer than the seconds asked for"


def _check_rate(found: dict[str, Any], made: dict[str, Any]) -> None:
    starts, ends, said = found["start_s"], found["end_s"], found["rate"]
    if len(starts) < 2:
        expected = f"{_call(made)} to call run() once before the clock starts, then at least once"
        advice = "call run() once, then start the clock, then measure: at least one run, however few the seconds"
        raise Missed(expected, f"{len(starts)} call{'s' * (len(starts) != 1)} in all", advice)
    uncounted = [warm for warm in range(1, len(starts)) if _explains(found, made["batch"], warm)]
    if not uncounted:
        right = made["batch"] * (len(starts) - 1) / (ends[-1] - ends[0])
        counted = f"{len(starts) - 1} × {made['batch']} images in {ends[-1] - ends[0]:.2f} s"
        advice = "divide the images of the runs that count by the seconds that really passed for them"
        found_rate = said if isinstance(said, str) else f"{said:.4g}"
        raise Missed(f"about {right:.4g} images per second, from {counted}", found_rate, advice)
    began, seconds = ends[uncounted[0] - 1], made["seconds"]
    if found["returned_s"] - began < _EARLIEST * seconds or starts[-1] - began > _LATEST * seconds + _LATE_S:
        took = f"{ends[-1] - began:.2f} s, {len(starts) - uncounted[0]} runs"
        raise Missed(f"runs until {seconds:g} s have passed", took, "repeat while the time since the start is shorter")


def _explains(found: dict[str, Any], batch: int, warm: int) -> bool:
    """Whether the rate is that of the runs after the first `warm`, by a clock read where it can only be read.

    The clock starts after the last run that does not count and stops before the function answers. That bounds the time
    from above on any machine, however busy; the time within the runs bounds it from below.
    """
    starts, ends, rate = found["start_s"], found["end_s"], found["rate"]
    images = batch * (len(starts) - warm)
    least, most = float(np.sum(ends[warm:] - starts[warm:])), found["returned_s"] - ends[warm - 1]
    return isinstance(rate, float) and images / most * (1 - _CLOCK) <= rate <= images / least * (1 + _CLOCK)


class Saturated(TypedDict):
    """What `saturations` answers of one table."""

    batch: int | str
    kept: bool


@probe
def saturations(notebook: Notebook, *, tables: list[list[list[float]]]) -> list[Saturated]:
    """Return for tables [[batch, images per second], …] what `saturation_batch` answers, a text where it is no number.

    Beside each answer, `batch`: `kept`, whether the dictionary that it was given is still the same.
    """
    rule, answers = notebook[SATURATION], []
    for table in tables:
        given = {int(batch): rate for batch, rate in table}
        batch, kept = _whole(rule(given)), list(given.values()) == [rate for _, rate in table]
        answers.append({"batch": batch, "kept": kept})
    return answers


def _whole(value: Any) -> int | str:
    try:
        return int(value) if int(value) == value else f"{float(value):g}"
    except (TypeError, ValueError):
        return repr(value)[:60]


def _saturated(case: Case) -> list[tuple[list[list[float]], int, int | str, bool]]:
    """Return tables, the batch that the rule gives, what came back, and whether the dictionary was left alone."""
    made = _made_up(case)
    answers = case.call(saturations, tables=[table for table, _ in made]).require(SATURATION)
    one_each(answers, made, "tables")
    return [(*one, found["batch"], found["kept"]) for one, found in zip(made, answers, strict=True)]


def _left_alone(case: Case) -> str:
    if not all(kept for *_, kept in _saturated(case)):
        raise Missed("the dictionary given as it was", "another one afterwards", "sort a copy of it")
    return "the dictionaries as they were"


@point(
    "saturation_batch follows the rule on made-up measurements",
    Reported(
        "whether the dictionary that it was given is as it was: it lives in the student's process", 0.1, _left_alone
    ),
)
def saturation(case: Case) -> str:
    made = _saturated(case)
    for table, expected, found, _ in made:
        if found != expected:
            said = ", ".join(f"{batch}: {value:.4g}" for batch, value in table)
            advice = f"go up in size; stop at the first batch whose next larger one gains less than {GAIN_PERCENT} %"
            raise Missed(f"batch {expected} for {{{said}}}", str(found), advice)
    return f"{len(made)} tables: rising, falling, one batch, a gain of exactly {GAIN_PERCENT} %"


def _made_up(case: Case) -> list[tuple[list[list[float]], int]]:
    """Return tables [[batch, images per second], …] in any order, each with the batch that the rule gives for it."""
    draw = case.random("dynamic.tables")
    much, little, less = (partial(draw.uniform, *ends) for ends in ((1.15, 1.9), (0.97, 1.08), (0.5, 0.88)))
    below, above = draw.uniform(1.095, 1.098), draw.uniform(1.102, 1.105)
    gains = (
        ([much(), much(), much()], 3),
        ([little(), much(), much()], 0),
        ([much(), little(), much(), little(), much()], 1),
        ([less(), much(), much()], 0),
        ([much(), much(), less(), less()], 2),
        ([much(), below, much()], 1),
        ([above, above, little(), much()], 2),
        ([draw.uniform(1.07, 1.09) for _ in range(4)], 0),
        ([much()], 1),
        ([], 0),
    )
    tables = [_table(draw, float(draw.uniform(300, 3000)) * np.cumprod([1.0, *steps]), at) for steps, at in gains]
    exact = float(draw.choice(_EXACT))
    slow = 2.1 * draw.uniform(1.12, 1.18)  # 2 images per second to who cuts or rounds to whole ones, before and after
    tables += [_table(draw, np.array(rates), 1) for rates in ([exact, exact * 11 / 10, exact], [2.1, slow])]
    batches, rates = zip(*sorted(tables[0][0]), strict=True)  # the same batches once more, and other rates
    return [*tables, ([list(row) for row in zip(batches, rates[::-1], strict=True)], batches[0])]


def _table(draw: np.random.Generator, rates: np.ndarray, place: int) -> tuple[list[list[float]], int]:
    """Return rates, given by rising batch, as a table of batches of its own, and the batch in `place`.

    The rows are shuffled, and the largest batch, over 64 in each table, is never the last of several.
    """
    batches = np.sort(draw.choice(_BATCHES, len(rates), replace=False))
    batches[-1] = max(batches[-1], draw.choice(_LARGE))
    rows = [[int(batch), float(value)] for batch, value in zip(batches, rates, strict=True)]
    shuffled = [rows[index] for index in draw.permutation(len(rows))]
    return shuffled[::-1] if shuffled[-1] == rows[-1] else shuffled, int(batches[place])


class Measured(TypedDict):
    """A row of what `measured_table` answers."""

    batch: int
    rate: float


@probe
def measured_table(notebook: Notebook) -> list[Measured] | None:
    """Return the rows of the notebook's TABLE, images per second by batch; None where it is no such table."""
    try:
        return [{"batch": int(batch), "rate": float(value)} for batch, value in notebook.value(TABLE).items()]
    except (AttributeError, TypeError, ValueError):
        return None


CHECKS = {
    "check_dynamic_engine": Check(
        "03_dynamic",
        "Dynamic engine",
        (FUNCTION,),
        (plan, profile, limits, half_precision, workspace, fp32, parser_errors, failures),
    ),
    "check_images_per_second": Check("03_dynamic", "Images per second", (RATE,), (rate,)),
    "check_saturation": Check("03_dynamic", "Where throughput saturates", (SATURATION,), (saturation,)),
}
