"""Step 3: an engine for batches 1 to 32, its throughput, and the batch at which throughput saturates."""

import math
from functools import partial
from typing import Any

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.builder import Builder
from helpers.checks.points.case import Case
from helpers.checks.points.pure import Answered, agree, compare, results_of
from helpers.checks.points.task import Task
from helpers.checks.points.timed import Ran, number, ran, timed
from helpers.checks.probes.answer import Notebook, probe
from helpers.course.settings import PROFILE_BATCHES

Row = tuple[int, float]

RATE, SATURATION = "images_per_second", "saturation_batch"
TABLE = "measured_throughput"
"""The notebook's variable with {batch: images per second} of the FP16 engine."""
GAIN_PERCENT = 10
"""The next larger batch is worth it if it gains at least this much."""

PROMISES = (
    "min, opt, max = batch {}, {}, {}".format(*PROFILE_BATCHES),
    f"a workspace of {builders.WORKSPACE_GB} GB",
    f"gains less than {GAIN_PERCENT} %",
    f"every step gains {GAIN_PERCENT} % or more",
)
"""Figures in the notebook's text."""

_CLOSE = 2e-3  # a rate may be rounded to a tenth of an image, and reading the clock takes a moment
_LATEST = 1.5
"""No run may start later than this multiple of the seconds asked for."""

DYNAMIC = Builder("build_engine_dynamic", "dynamic", PROFILE_BATCHES)
ENGINE = Task("dynamic_engine", check="check_dynamic_engine", takes=(DYNAMIC.function,))
MEASURE = Task("dynamic_speed", "Images per second", "check_images_per_second", (RATE,))
SATURATES = Task("dynamic_speed", "Where throughput saturates", "check_saturation", (SATURATION,))
TASKS = (ENGINE, MEASURE, SATURATES)

DYNAMIC.ask(ENGINE, plan=0.3, written=0.2, profile=1.75, half_precision=1, workspace=0.25)


def twin(case: Case) -> builders.Built:
    """Return the build for fp16=False."""
    return DYNAMIC.built(case, options={"fp16": False})


@ENGINE.point("dynamic.fp32", 0.5, "With fp16=False the engine is FP32")
def fp32(case: Case) -> str:
    built = twin(case)
    flags, plan = builders.asked_for(built)["flags"], builders.plan_of(built, DYNAMIC.function)
    runs = builders.facts_of(plan, "the engine")["precisions"]
    lower = [name for name in ("FP16", "BF16", "INT8") if flags[name] or name.lower() in runs]
    right = {"lower precisions": []}
    agree({"lower precisions": lower}, right, "fp16=False", "set the FP16 flag only if fp16 is true")
    builders.profile_is(plan, PROFILE_BATCHES)
    builders.workspace_limited(built)
    return f"layers by precision: {runs}; profile and workspace as with FP16"


DYNAMIC.ask(ENGINE, parser_errors=0.25, failures=0.25)


@probe
def timed_rate(notebook: Notebook, *, batch: int, seconds: float) -> Ran:
    """Call `images_per_second` with a run of the served model, on a simulated clock."""
    measure, images = notebook[RATE], np.zeros((batch, 1), np.float32)
    return ran(notebook, measure, lambda model: measure(lambda: model(images), batch, seconds))


@MEASURE.point("dynamic.measured", 0.5, "images_per_second divides images by the time that passed")
def rate(case: Case) -> str:
    draw = case.random("dynamic.rate")
    uneven = draw.uniform((25, 2, 2, 2), (35, 3, 3, 3)).tolist()  # the first tells little about the others
    steady, slow = draw.uniform(3, 5, 50).tolist(), draw.uniform(110, 140, 4).tolist()
    for batch, runs_ms, seconds in ((int(draw.integers(3, 64)), uneven, 0.25), (2, steady, 0.5), (1, slow, 0.05)):
        _check_rate(case, {"durations_ms": runs_ms, "first_ms": [180.0]}, batch, seconds)
    return "images divided by the time that passed, without the first run"


def _check_rate(case: Case, model: dict[str, Any], batch: int, seconds: float) -> None:
    call = f"{RATE}(run, batch={batch}, seconds={seconds:g})"
    found = timed(case, call, timed_rate, model, batch=batch, seconds=seconds)
    starts, ends = found.log["start_s"], found.log["end_s"]
    rates = {warm: batch * (found.calls - warm) / (ends[-1] - ends[warm - 1]) for warm in range(1, found.calls)}
    if not rates:
        raise Missed(f"{call} to warm up with one run(), then time more", "1 call", "call run() more than once")
    said = number(found.returned, call, found.returned, "return images per second")
    warm = [runs for runs, right in rates.items() if math.isclose(said, right, rel_tol=_CLOSE)] or [1]
    advice = "divide the images of the timed runs by the seconds that these runs took"
    agree(said, float(rates[warm[0]]), call, advice, rtol=_CLOSE)
    # Several lengths of the warm-up may give the same rate: the function may have used any of them.
    begins = [ends[runs - 1] for runs in warm]
    least, latest = seconds * (1 - _CLOSE), seconds * _LATEST
    if not any(ends[-1] - begin >= least and starts[-1] - begin <= latest for begin in begins):
        took = f"{ends[-1] - begins[0]:.2f} s, {found.calls - warm[0]} runs"
        raise Missed(f"{call} to run until {seconds:g} s have passed", took, "repeat until this much time has passed")


@probe
def saturations(notebook: Notebook, *, name: str, calls: list[list[Any]], raising: bool) -> list[Answered]:
    """Answer like `results_of`; a table comes as [[batch, images per second], …]."""
    rule = notebook[name]
    return results_of({name: lambda table: rule(dict(table))}, name=name, calls=calls, raising=raising)


@SATURATES.point("dynamic.saturation", 0.5, "saturation_batch follows the rule on made-up measurements")
def saturation(case: Case) -> str:
    advice = f"go up through the batches; stop where the next larger one gains less than {GAIN_PERCENT} %"
    return compare(case, SATURATION, _made_up(case), advice, through=saturations)


def _made_up(case: Case) -> list[tuple[tuple[list[Row]], int]]:
    """Return tables, each as the argument of a call, with the batch that the rule gives."""
    draw = case.random("dynamic.tables")
    much, little = partial(draw.uniform, 1.15, 1.9), partial(draw.uniform, 0.97, 1.08)
    gains = (
        ([much(), much(), much()], 3),
        ([little(), much(), much()], 0),
        ([much(), little(), much(), little(), much()], 1),
        ([0.8, much(), much()], 0),
        ([much(), much(), 0.7, 0.8], 2),
        ([much(), 1.097, much()], 1),
        ([1.103, 1.103, little(), much()], 2),
        ([1.08] * 4, 0),
        ([much()], 1),
        ([], 0),
    )
    tables = [_table(draw, draw.uniform(300, 3000) * np.cumprod([1.0, *steps]), place) for steps, place in gains]
    exact, slow = [500.0, 550.0, 500.0], [2.1, 2.1 * 1.15]  # slow: rounded to whole images per second, the gain is lost
    return [*tables, _table(draw, np.array(exact), 1), _table(draw, np.array(slow), 1)]


def _table(draw: np.random.Generator, rates: np.ndarray, place: int) -> tuple[tuple[list[Row]], int]:
    """Return rates, given by rising batch, as a table with the largest batch first, and the batch in `place`."""
    batches = np.sort(draw.choice(np.arange(1, 257), len(rates), replace=False)).tolist()
    return ([*zip(batches, rates.tolist(), strict=True)][::-1],), batches[place]


@probe
def measured_table(notebook: Notebook) -> dict[str, float]:
    """Return the notebook's TABLE, images per second by batch; empty if it is not such a table."""
    try:
        return {str(batch): float(rate) for batch, rate in notebook.value(TABLE).items()}
    except (AttributeError, TypeError, ValueError):
        return {}
