"""What only the grader knows of step 7: a real engine on fresh images, and the table against the trusted evaluation."""

import numpy as np
from PIL import Image

from helpers.checks.missed import Missed
from helpers.checks.points.builders import facts_of
from helpers.checks.points.case import Case
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
from helpers.checks.points.task import Earned
from helpers.course.settings import BASELINE, ENGINES, QUICK, VALIDATION_IMAGES
from helpers.data import digits
from solutions.checks.trusted.reference import reference
from solutions.checks.trusted.reference_accuracy import Evaluation, evaluate_plans, pytorch_evaluation
from trtcpu.errors import LabError
from trtlab.engines.inference import InferenceEngine
from trtlab.images.preprocessing import preprocess
from trtlab.quality.accuracy import accuracy_loss

POINTS = 0.1
"""Largest difference to the trusted evaluation, in percentage points."""

_FRESH_IMAGES, _FRESH_VARIANTS = 64, (100, 9000)


def _fault(top1: float, top5: float, trusted: Evaluation) -> str | None:
    """Say in which figure an evaluation differs from the trusted one, or None."""
    right = trusted.accuracy
    for name, found, expected, k in (("top-1", top1, right.top1, 1), ("top-5", top5, right.top5, 5)):
        if not abs(found - expected) <= POINTS + trusted.doubtful(k):
            return f"{name} {found:.2f} %, where the trusted evaluation finds {expected:.2f} %"
    return None


@LOOP.hidden("accuracy.engine", 1, "A real engine, on images that were never seen")
def engine(case: Case) -> str:
    images, labels = _fresh_images(case)
    plan = reference().bytes(ENGINES["int8"])
    with InferenceEngine(plan) as runner:
        scores = runner.predict(images)
    trusted = Evaluation(scores, _with_mistakes(scores, labels))
    reply = case.call(evaluate_engine, plan=plan, images=images, labels=trusted.labels)
    if fault := _fault(*in_percent(pair(reply)), trusted):
        expected = f"the trusted evaluation's figures on {len(labels)} fresh images"
        raise Missed(expected, fault, "evaluate the model and the images that are passed in")
    return f"INT8 reference engine, {len(labels)} fresh images: {trusted.accuracy.top1:.2f} % as in the trusted run"


def _with_mistakes(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Give the last ten images the label of the engine's third choice (six) or eighth (four).

    The engine is right so often that otherwise top-5 could pass for top-1.
    """
    order, labels = np.argsort(-scores, axis=1), labels.copy()
    labels[-10:-4], labels[-4:] = order[-10:-4, 2], order[-4:, 7]
    return labels


def _fresh_images(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Render validation digits with backgrounds and strokes that are in no split; preprocess as the lab does."""
    random = case.random("accuracy.fresh")
    chosen = random.choice(np.array(digits.split_digits("validation")), _FRESH_IMAGES, replace=False)
    variants = random.integers(*_FRESH_VARIANTS, len(chosen))
    pixels = [digits.render_variant(int(digit), int(variant)) for digit, variant in zip(chosen, variants, strict=True)]
    images = np.stack([preprocess(Image.fromarray(image)) for image in pixels])
    return images, digits.load_digits()[1][chosen].astype(np.int64)


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


def _faults(case: Case) -> dict[str, str]:
    """Return what is wrong with the table's rows, by name."""
    found = table(case)
    faults = {name: _fault(*found[name].values(), right) for name, right in _trusted(case).items()}
    return {name: fault for name, fault in faults.items() if fault}


@RESULTS.hidden("accuracy.figures", 3, "Its figures are those of these engines")
def figures(case: Case) -> Earned:
    top1(case)  # once more: what made the table must still be what was judged in its own cell
    wrong, number, missed = _faults(case), len(ENGINES) + 1, None
    if wrong:
        said = "; ".join(f"{name}: {fault}" for name, fault in wrong.items())
        expected = f"figures within {POINTS} points of the trusted evaluation on the same {VALIDATION_IMAGES} images"
        advice = "evaluate each engine itself on the validation images, in the given order and preprocessing"
        missed = Missed(expected, said, advice)
    return Earned(1 - len(wrong) / number, f"{number - len(wrong)} of {number} rows agree", missed)


def _loss(case: Case, name: str) -> str:
    wrong, trusted = _faults(case), _trusted(case)
    for row in ("fp32", name):
        if row in wrong:
            expected = f"{row}'s accuracy as measured on the engine"
            raise Missed(expected, wrong[row], "the loss is judged on right figures")
    loss = accuracy_loss(trusted["fp32"].accuracy, trusted[name].accuracy)
    said = f"{loss.points:+.2f} points (95 % interval {loss.low:+.2f} to {loss.high:+.2f}, {VALIDATION_IMAGES} images)"
    # on a quick run's few images one flip is half a point: there only a loss that is surely above the limit counts
    return loss_within(name, loss.low if QUICK else loss.points, said)


LOSSES["fp16"].in_grading(lambda case: _loss(case, "fp16"))
LOSSES["int8"].in_grading(lambda case: _loss(case, "int8"))
