"""Hidden points of step 7: the trusted evaluation of the submission's engines."""

from collections.abc import Mapping
from functools import partial

from helpers.checks.missed import Missed
from helpers.checks.points.builders import facts_of
from helpers.checks.points.case import Case
from helpers.checks.points.pure import agree
from helpers.checks.points.s07_accuracy import LOSSES, RESULTS, loss_within, table, top1
from helpers.checks.points.task import Earned, shared
from helpers.course.settings import BASELINE, ENGINES, NAMES, QUICK, VALIDATION_IMAGES
from solutions.checks.trusted.reference import reference
from solutions.checks.trusted.reference_results import Evaluation, evaluated, kept
from trtcpu.errors import LabError
from trtlab.quality.classification import accuracy_loss

_POINTS = 0.1
"""Largest difference from the trusted evaluation, in percentage points."""


def _as_trusted(found: Mapping[str, float], trusted: Evaluation, what: str) -> str:
    """Return evidence that an evaluation agrees with the trusted one."""
    right = {"top1": trusted.accuracy.top1, "top5": trusted.accuracy.top5}
    advice = "evaluate the given model on the given images, without changing their order or preprocessing"
    for (name, rate), place in zip(right.items(), (1, 5), strict=True):
        most = _POINTS + trusted.doubtful(place)
        agree({name: found[name]}, {name: rate}, f"the trusted evaluation of {what}", advice, rtol=0, atol=most)
    return f"{what}: top-1 {right['top1']:.2f} % as in the trusted run"


def _trusted(case: Case, name: str) -> Evaluation:
    """Return the trusted evaluation of a row, from the submission's own engine."""
    if name == BASELINE:
        return kept(reference(), BASELINE)
    artifact = ENGINES[name]
    plan = case.artifact(artifact)
    facts_of(plan, artifact)
    try:
        return evaluated(name, plan, reference())
    except LabError as error:
        asked = f"{artifact} to take the validation images"
        raise Missed(asked, str(error), "build it again in its step") from error


def _row(case: Case, name: str) -> str:
    return _as_trusted(table(case)[name], _trusted(case, name), f"{name} on {VALIDATION_IMAGES} images")


@RESULTS.hidden("accuracy.figures", 3, "The figures match these engines")
def figures(case: Case) -> Earned:
    top1(case)  # again: the function that made the table must still be the one that its own cell judged
    return shared([partial(_row, case, name) for name in NAMES])


def _loss(name: str, case: Case) -> str:
    for row in ("fp32", name):
        _row(case, row)  # the loss is judged only on right figures
    loss = accuracy_loss(_trusted(case, "fp32").accuracy, _trusted(case, name).accuracy)
    said = f"{loss.points:+.2f} points (95 % interval {loss.low:+.2f} to {loss.high:+.2f}, {VALIDATION_IMAGES} images)"
    # in a quick run one image is half a point, so only a loss clearly above the limit counts
    return loss_within(name, loss.low if QUICK else loss.points, said)


for _name, _point in LOSSES.items():
    _point.in_grading(partial(_loss, _name))
