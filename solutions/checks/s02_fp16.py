"""Hidden points of step 2: the engine's outputs, and the speed of the lab's engine."""

from helpers.checks.points import builders
from helpers.checks.points.case import Case
from helpers.checks.points.files import needed
from helpers.checks.points.s02_fp16 import BATCH, ENGINE, FP16, SPEED
from helpers.checks.points.task import Earned
from solutions.checks.trusted import builder
from solutions.checks.trusted.engine_speed import against_pytorch, against_reference
from solutions.checks.trusted.plans import as_exact_as
from solutions.checks.trusted.reference import reference

ARTIFACT = "resnet50_fp16.engine"

builder.ask(FP16, ENGINE, outputs=1.75, repeatable=0.5)


def _artifact(case: Case) -> bytes:
    plan = needed(case, ARTIFACT, f"run the cell that calls {FP16.function}")
    builders.facts_of(plan, ARTIFACT)
    images = builder.images(case, FP16.purpose, BATCH)
    as_exact_as(reference().bytes(ARTIFACT), plan, reference().bytes("resnet50.onnx"), images)
    return plan


@SPEED.hidden("fp16.speed", 3, "As fast as the reference engine")
def speed(case: Case) -> Earned:
    plan = _artifact(case)
    builders.small_enough(plan, reference().bytes("resnet50.onnx"), builders.HALF_SIZE)
    advice = builders.to_ask("FP16", "check that the FP16 flag is set before the build")
    return against_reference(case, plan, reference().path(ARTIFACT), advice)


@SPEED.hidden("fp16.faster_than_pytorch", 2, f"More than {builders.LEAST_SPEEDUP} times PyTorch FP32's speed")
def faster_than_pytorch(case: Case) -> str:
    return against_pytorch(case, _artifact(case), "check that it is an FP16 engine")
