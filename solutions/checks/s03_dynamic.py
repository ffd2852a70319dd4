"""Hidden points of step 3: the engines' outputs, and the speed and measured throughput of the lab's engine."""

from functools import partial

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.case import Case
from helpers.checks.points.files import needed
from helpers.checks.points.s03_dynamic import (
    DYNAMIC,
    ENGINE,
    MEASURE,
    TABLE,
    fp32,
    measured_table,
    rate,
    twin,
)
from helpers.checks.points.task import Earned, shared
from solutions.checks.trusted import builder
from solutions.checks.trusted.engine_speed import against_reference
from solutions.checks.trusted.plans import FP32_TOLERANCE, as_exact_as, check_outputs
from solutions.checks.trusted.reference import reference
from solutions.checks.trusted.stillness import still
from trtcpu.errors import LabError
from trtlab.engines.served import opened

ARTIFACT = "resnet50_dynamic_fp16.engine"
SPEED_BATCHES = (8, 32)
MEASURED = (1, 4, 16, 32)
"""The batches that the notebook measures."""
_FACTOR = 10.0
"""Largest factor between a measured throughput and ours: a busy machine stays within it, a wrong unit does not."""

builder.ask(DYNAMIC, ENGINE, outputs=1.25, repeatable=0.25)


@fp32.in_grading
def computes_in_fp32(case: Case) -> str:
    said, plan = fp32.judge(case), builders.plan_of(twin(case), DYNAMIC.function)
    images = builder.images(case, DYNAMIC.purpose, 1)
    return f"{said}; {check_outputs(plan, DYNAMIC.model(case), images, FP32_TOLERANCE)}"


@MEASURE.hidden("dynamic.speed", 3, "As fast as the reference engine at batches 8 and 32")
def speed(case: Case) -> Earned:
    plan, model = (
        needed(case, ARTIFACT, f"run the cell that calls {DYNAMIC.function}"),
        reference().bytes("resnet50.onnx"),
    )
    builders.facts_of(plan, ARTIFACT)
    builders.small_enough(plan, model, builders.HALF_SIZE)
    return shared([partial(_speed, plan, model, case, batch) for batch in SPEED_BATCHES])


def _speed(plan: bytes, model: bytes, case: Case, batch: int) -> Earned:
    as_exact_as(reference().bytes(ARTIFACT), plan, model, builder.images(case, DYNAMIC.purpose, batch))
    advice = "check the FP16 flag and the shape that the profile is tuned for"
    return against_reference(case, plan, reference().path(ARTIFACT), advice, batch)


@rate.in_grading
def measured(case: Case) -> str:
    said, ours = rate.judge(case), _images_per_second(case)
    if ours is None:  # other points say that the engine is missing
        return said
    table, batches = case.call(measured_table).require("the measuring cell"), [*map(str, MEASURED)]
    found = table.get(batches[-1], 0.0)
    if sorted(table) != sorted(batches) or not 1 / _FACTOR <= found / ours <= _FACTOR:
        there = f"about {ours:.0f} at batch {batches[-1]}, as this engine does here"
        expected = f"`{TABLE}` in images per second at batches {MEASURED}, {there}"
        raise Missed(expected, str(table)[:200], f"run the measuring cell, which fills `{TABLE}`")
    return f"{said}; your engine at batch {batches[-1]}: {found:.0f} images/s"


def _images_per_second(case: Case) -> float | None:
    """Return the engine's throughput here at the largest measured batch, None if it cannot run it."""
    plan, batch = case.artifact(ARTIFACT), MEASURED[-1]
    try:
        with still():
            images = builder.images(case, DYNAMIC.purpose, batch)
            return batch / min(opened(plan or b"").executions(images, 2)["times"]) * 1e3
    except LabError:
        return None
