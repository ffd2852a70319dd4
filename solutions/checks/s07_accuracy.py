"""What only the grader knows of step 7: a real engine on fresh images, and the table against the trusted evaluation."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points.builders import facts_of
from helpers.checks.points.case import Case
from helpers.checks.points.pure import agree
from helpers.checks.points.s07_accuracy import (
    LOOP,
    LOSSES,
    RESULTS,
    evaluate_engine,
    in_percent,
    loss_within,
    pair,
    table,
    top1,
)
from helpers.checks.points.task import Earned, shared
from helpers.course.settings import BASELINE, ENGINES, NAMES, QUICK, VALIDATION_IMAGES
from helpers.toys.networks import EDGE
from solutions.checks.trusted.reference import reference
from solutions.checks.trusted.reference_accuracy import Evaluation, evaluate_plans, pytorch_evaluation
from trtcpu.errors import LabError
from trtlab.engines.inference import InferenceEngine
from trtlab.quality.accuracy import accuracy_loss

_POINTS = 0.1
"""Largest difference to the trusted evaluation, in percentage points."""

_PLACES = np.repeat([0, 2, 7], [40, 14, 10])
"""Of the fresh images: which choice of the engine is called right."""


def _as_trusted(found: Mapping[str, float], trusted: Evaluation, what: str) -> str:
    """Return evidence that an evaluation finds what the trusted one does."""
    right = {"top1": trusted.accuracy.top1, "top5": trusted.accuracy.top5}
    advice = "evaluate the model and the images that are passed in, in the given order and preprocessing"
    for (name, rate), place in zip(right.items(), (1, 5), strict=True):
        most = _POINTS + trusted.doubtful(place)
        agree({name: found[name]}, {name: rate}, f"the trusted evaluation of {what}", advice, rtol=0, atol=most)
    return f"{what}: top-1 {right['top1']:.2f} % as in the trusted run"


@LOOP.hidden("accuracy.engine", 1, "A real engine, on images that were never seen")
def engine(case: Case) -> str:
    images = case.random("accuracy.fresh").standard_normal((len(_PLACES), 3, EDGE, EDGE), dtype=np.float32)
    plan = reference().bytes(ENGINES["int8"])
    with InferenceEngine(plan) as runner:
        scores = runner.predict(images)
    labels = np.argsort(-scores, axis=1)[np.arange(len(_PLACES)), _PLACES]
    rates = in_percent(pair(case.call(evaluate_engine, plan=plan, images=images, labels=labels)))
    return _as_trusted(dict(zip(("top1", "top5"), rates, strict=True)), Evaluation(scores, labels), "the INT8 engine")


def _trusted(case: Case) -> dict[str, Evaluation]:
    """Return the trusted evaluation of every row, from the submission's own engines."""
    plans = {name: case.artifact(artifact) for name, artifact in ENGINES.items()}
    for name, artifact in ENGINES.items():
        facts_of(plans[name], artifact)
    try:
        found = evaluate_plans(plans, reference())
    except LabError as error:
        raise Missed("engines that take the validation images", str(error), "build them again in their step") from error
    return {BASELINE: pytorch_evaluation(reference()), **found}


def _row(case: Case, name: str) -> str:
    return _as_trusted(table(case)[name], _trusted(case)[name], f"{name} on {VALIDATION_IMAGES} images")


@RESULTS.hidden("accuracy.figures", 3, "Its figures are those of these engines")
def figures(case: Case) -> Earned:
    top1(case)  # once more: what made the table must still be what was judged in its own cell
    return shared([partial(_row, case, name) for name in NAMES])


def _loss(name: str, case: Case) -> str:
    trusted = _trusted(case)
    for row in ("fp32", name):
        _row(case, row)  # the loss is judged on right figures
    loss = accuracy_loss(trusted["fp32"].accuracy, trusted[name].accuracy)
    said = f"{loss.points:+.2f} points (95 % interval {loss.low:+.2f} to {loss.high:+.2f}, {VALIDATION_IMAGES} images)"
    # on a quick run's few images one flip is half a point: there only a loss that is surely above the limit counts
    return loss_within(name, loss.low if QUICK else loss.points, said)


for _name, _point in LOSSES.items():
    _point.in_grading(partial(_loss, _name))
