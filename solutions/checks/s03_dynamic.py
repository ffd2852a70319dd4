"""Claims of step 3: its points on fresh networks and measurements, the engine's answers, and its speed."""

import math
from functools import partial

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points import builders, s03_dynamic
from helpers.checks.points.case import Case
from helpers.toys.networks import EDGE
from solutions.checks.core.claim import Earned, award, claim, shared
from solutions.checks.trusted.engine_speed import against_reference, noise_for
from solutions.checks.trusted.plans import (
    FP32_TOLERANCE,
    HALF_TOLERANCE,
    as_exact_as,
    check_outputs,
    same_network,
    small_on_a_gpu,
)
from solutions.checks.trusted.reference import reference
from solutions.checks.trusted.stillness import still
from trtcpu.errors import LabError
from trtlab.engines.timed import opened

CELL, SPEED_CELL = "dynamic_engine", "dynamic_speed"
ARTIFACT = "resnet50_dynamic_fp16.engine"
RUN_BATCHES, SPEED_BATCHES = (1, 5, 32), (8, 32)
_FACTOR = 10.0
"""How far a measured throughput may be from ours: a busy machine is slower, another unit or device is further off."""


award("dynamic.plan", 0.5, s03_dynamic.plan, cell=CELL)
award("dynamic.profile", 1.5, s03_dynamic.profile, cell=CELL)


@claim("dynamic.outputs", cell=CELL, points=1.25, title="Batches 1, 5 and 32 give right outputs")
def outputs(case: Case) -> Earned:
    plan = builders.plan_of(s03_dynamic.built(case), s03_dynamic.FUNCTION)
    model = s03_dynamic.network(case)
    return shared([partial(_outputs, plan, model, case, batch, HALF_TOLERANCE) for batch in RUN_BATCHES])


award("dynamic.limits", 0.75, s03_dynamic.limits, cell=CELL)


@claim("dynamic.half_precision", cell=CELL, points=0.75, title=s03_dynamic.half_precision.title)
def half_precision(case: Case) -> str:
    said, model = s03_dynamic.half_precision(case), reference().bytes("resnet50.onnx")
    build = partial(s03_dynamic.built, case)
    return f"{said}; {small_on_a_gpu(build, s03_dynamic.FUNCTION, model, builders.HALF_SIZE)}"


award("dynamic.workspace", 0.25, s03_dynamic.workspace, cell=CELL)


@claim("dynamic.fp32", cell=CELL, points=0.5, title=s03_dynamic.fp32.title)
def fp32(case: Case) -> str:
    said = s03_dynamic.fp32(case)
    plan = builders.plan_of(s03_dynamic.twin(case), s03_dynamic.FUNCTION)
    return f"{said}; {_outputs(plan, s03_dynamic.network(case), case, RUN_BATCHES[0], FP32_TOLERANCE)}"


award("dynamic.parser_errors", 0.25, s03_dynamic.parser_errors, cell=CELL)
award("dynamic.failures", 0.25, s03_dynamic.failures, cell=CELL)


def _outputs(plan: bytes, model: bytes, case: Case, batch: int, tolerance: float) -> str:
    return check_outputs(plan, model, _images(case, batch), tolerance)


def _images(case: Case, batch: int) -> np.ndarray:
    return case.random(f"dynamic.images.{batch}").standard_normal((batch, 3, EDGE, EDGE)).astype(np.float32)


@claim("dynamic.speed", cell=SPEED_CELL, points=3, title="As fast as the reference engine at batches 8 and 32")
def speed(case: Case) -> Earned:
    plan, model = case.artifact(ARTIFACT), reference().bytes("resnet50.onnx")
    if plan is None:
        advice = f"run the cell that calls {s03_dynamic.FUNCTION}"
        raise Missed(f"{ARTIFACT} among the artifacts", "no such file", advice)
    builders.facts_of(plan, ARTIFACT)
    builders.small_enough(plan, model, builders.HALF_SIZE)
    if same_network(plan, reference().bytes(ARTIFACT)):
        return Earned(1.0, "the same compiled network as the reference engine's")
    return shared([partial(_speed, plan, model, case, batch) for batch in SPEED_BATCHES])


def _speed(plan: bytes, model: bytes, case: Case, batch: int) -> Earned:
    as_exact_as(reference().bytes(ARTIFACT), plan, model, _images(case, batch))
    advice = "check the FP16 flag and the shape that the profile is tuned for"
    timed_on = noise_for(case, reference().bytes(ARTIFACT), model)
    return against_reference(plan, reference().path(ARTIFACT), advice, timed_on, batch)


@claim(
    "dynamic.measured",
    cell=SPEED_CELL,
    points=0.5,
    title="images_per_second counts what it should, and the table is this engine's",
)
def measured(case: Case) -> str:
    said, ours = s03_dynamic.rate(case), _images_per_second(case)
    if ours is None:  # that there is no such engine is what other claims say
        return said
    rows = case.call(s03_dynamic.measured_table).require("the measuring cell") or []
    found, largest = {row["batch"]: row["rate"] for row in rows}, s03_dynamic.MEASURED[-1]
    if sorted(found) != list(s03_dynamic.MEASURED) or not all(math.isfinite(rate) for rate in found.values()):
        expected = f"`{s03_dynamic.TABLE}` in images per second at batches {s03_dynamic.MEASURED}"
        raise Missed(expected, str(found) if found else "no such table", "run the measuring cell")
    if not 1 / _FACTOR <= found[largest] / ours <= _FACTOR:
        expected = f"about {ours:.0f} images per second at batch {largest}, as this engine gives here"
        raise Missed(expected, f"{found[largest]:.4g}", f"let the measuring cell fill `{s03_dynamic.TABLE}`")
    return f"{said}; your engine at batch {largest}: {found[largest]:.0f} images/s"


def _images_per_second(case: Case) -> float | None:
    """Return what the engine gives here at the largest batch measured, None where it cannot run that."""
    plan, batch = case.artifact(ARTIFACT), s03_dynamic.MEASURED[-1]
    try:
        with still():
            return batch / min(opened(plan or b"").executions(_images(case, batch), 2)["times"]) * 1e3
    except LabError:
        return None


award("dynamic.saturation", 0.5, s03_dynamic.saturation, cell=SPEED_CELL)
