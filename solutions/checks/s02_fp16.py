"""Claims of step 2: its points on fresh networks, the engine's answers, and the speed of the lab's engine."""

from functools import partial

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points import builders, s02_fp16
from helpers.checks.points.case import Case
from helpers.toys.networks import EDGE, tiny_onnx
from solutions.checks.core.claim import Earned, award, claim
from solutions.checks.trusted.engine_speed import TimedOn, against_pytorch, against_reference, noise_for
from solutions.checks.trusted.plans import HALF_TOLERANCE, as_exact_as, check_outputs, largest_batch, small_on_a_gpu
from solutions.checks.trusted.reference import reference

CELL, SPEED_CELL = "fp16_engine", "fp16_speed"
ARTIFACT = "resnet50_fp16.engine"


def _images(case: Case, number: int) -> np.ndarray:
    return case.random("fp16.images").standard_normal((number, 3, EDGE, EDGE)).astype(np.float32)


award("fp16.plan", 0.75, s02_fp16.plan, cell=CELL)
award("fp16.profile", 0.25, s02_fp16.profile, cell=CELL)


@claim("fp16.half_precision", cell=CELL, points=1.5, title=s02_fp16.half_precision.title)
def half_precision(case: Case) -> str:
    said, model = s02_fp16.half_precision(case), reference().bytes("resnet50.onnx")
    build = partial(s02_fp16.built, case)
    return f"{said}; {small_on_a_gpu(build, s02_fp16.FUNCTION, model, builders.HALF_SIZE)}"


award("fp16.workspace", 0.5, s02_fp16.workspace, cell=CELL)


@claim("fp16.outputs", cell=CELL, points=1.75, title="It computes what the ONNX model computes")
def outputs(case: Case) -> str:
    plan, model = builders.plan_of(s02_fp16.built(case), s02_fp16.FUNCTION), s02_fp16.network(case)
    batches = 1, largest_batch(plan)
    return "; ".join(check_outputs(plan, model, _images(case, n), HALF_TOLERANCE) for n in batches)


award("fp16.parser_errors", 0.5, s02_fp16.parser_errors, cell=CELL)
award("fp16.failures", 0.25, s02_fp16.failures, cell=CELL)


@claim("fp16.repeatable", cell=CELL, points=0.5, title="It works twice in a row")
def repeatable(case: Case) -> str:
    function, other = s02_fp16.FUNCTION, tiny_onnx(case.number("fp16.other"))
    built = builders.built_again(case, s02_fp16.network(case), other, function)
    said = check_outputs(builders.plan_of(built, function), other, _images(case, 1), HALF_TOLERANCE)
    return f"another model under the same names: {said}"


def _artifact(case: Case) -> bytes:
    plan = case.artifact(ARTIFACT)
    if plan is None:
        raise Missed(f"{ARTIFACT} among the artifacts", "no such file", f"run the cell that calls {s02_fp16.FUNCTION}")
    builders.facts_of(plan, ARTIFACT)
    as_exact_as(reference().bytes(ARTIFACT), plan, reference().bytes("resnet50.onnx"), _images(case, s02_fp16.BATCH))
    return plan


def _timed_on(case: Case) -> TimedOn:
    return noise_for(case, reference().bytes(ARTIFACT), reference().bytes("resnet50.onnx"))


@claim("fp16.speed", cell=SPEED_CELL, points=3, title="As fast as the reference engine")
def speed(case: Case) -> Earned:
    plan = _artifact(case)
    builders.small_enough(plan, reference().bytes("resnet50.onnx"), builders.HALF_SIZE)
    advice = builders.to_ask("FP16", "check that the FP16 flag is set before the build")
    return against_reference(plan, reference().path(ARTIFACT), advice, _timed_on(case))


@claim(
    "fp16.faster_than_pytorch",
    cell=SPEED_CELL,
    points=2,
    title=f"Over {builders.LEAST_SPEEDUP} times PyTorch FP32's speed",
)
def faster_than_pytorch(case: Case) -> str:
    model, advice = reference().bytes("resnet50.onnx"), "check that the engine is an FP16 one"
    return against_pytorch(_artifact(case), model, advice, _timed_on(case))
