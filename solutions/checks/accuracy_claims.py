"""Claims of step 7: an accuracy loop that counts right, and engines that lose little."""

import json
import math
from typing import Any

import numpy as np
from PIL import Image

from helpers import digits
from helpers.errors import LabError
from helpers.lab import QUICK, VALIDATION_IMAGES
from helpers.missed import Missed
from helpers.points.builders import facts_of
from helpers.points.case import Case
from helpers.probes.scored import ranked_scores
from helpers.probes.student import Student
from solutions.checks.core.claim import Earned, claim
from solutions.checks.trusted.reference import reference
from solutions.checks.trusted.reference_accuracy import ENGINES, PYTORCH, Evaluation, evaluate_plans, pytorch_evaluation
from solutions.pipeline.accuracy import accuracy_loss
from solutions.pipeline.inference import InferenceEngine
from solutions.pipeline.preprocessing import preprocess

FUNCTION = "evaluate_accuracy"
ARTIFACT = "accuracy.json"
CLASSES = 10
POINTS = 0.1
"""Largest difference to the trusted evaluation, in percentage points."""

_LIMITS = {"fp16": 0.5, "int8": 1.5}
_FRESH_IMAGES, _FRESH_VARIANTS = 64, (100, 9000)
_EXACT = 6e-3
"""Percentage points: what is rounded to two decimals is right."""


def _ranked(case: Case, purpose: str, ranks: np.ndarray, classes: int = CLASSES) -> dict[str, np.ndarray]:
    """Return scores and labels in which image i's label has `ranks[i]` classes above it."""
    random = case.random(purpose)
    labels = random.integers(classes, size=len(ranks))
    return {"scores": ranked_scores(random, labels, ranks, classes).astype(np.float32), "labels": labels}


def _shuffled(case: Case, purpose: str, counts: dict[int, int]) -> np.ndarray:
    ranks = np.repeat(list(counts), list(counts.values()))
    case.random(f"{purpose}.order").shuffle(ranks)
    return ranks


def _rates(ranks: np.ndarray) -> tuple[float, float]:
    return 100 * float((ranks < 1).mean()), 100 * float((ranks < 5).mean())


def _evaluate(
    student: Student, known: dict[str, np.ndarray], batch_size: int, num_samples: int, **how: bool
) -> dict[str, Any]:
    call = student.call("evaluate_known", **known, batch_size=batch_size, num_samples=num_samples, **how)
    return _as_pair(call.require(FUNCTION))


def _as_pair(found: dict[str, Any]) -> dict[str, Any]:
    if found["kind"] != "pair":
        raise Missed("a pair of numbers, (top-1, top-5)", found["kind"], "return both, top-1 first")
    return found


def _in_percent(found: dict[str, Any]) -> tuple[float, float]:
    """Return (top-1, top-5) in percent; fractions cost `accuracy.percent` and nothing else here."""
    unit = 100 if max(found["top1"], found["top5"]) <= 1 else 1
    return unit * found["top1"], unit * found["top5"]


def _compare(found: dict[str, Any], expected: tuple[float, float], what: str, try_this: str) -> str:
    rates = _in_percent(found)
    for name, rate, right in zip(("top-1", "top-5"), rates, expected, strict=True):
        if not abs(rate - right) <= _EXACT:
            raise Missed(f"{name} {right:.2f} % {what}", f"{rate:.2f} %", try_this)
    return f"{expected[0]:.2f} % and {expected[1]:.2f} % {what}"


@claim("accuracy.top1", cell="evaluate_accuracy", points=1.5, title="Top-1 is exact on known answers")
def top1(student: Student, case: Case) -> str:
    ranks = _shuffled(case, "accuracy.top1", {0: 23, 1: 4, 3: 3, 5: 6, 8: 4})
    found = _evaluate(student, _ranked(case, "accuracy.top1", ranks), 8, len(ranks))
    rate, right = _in_percent(found)[0], _rates(ranks)[0]
    if not abs(rate - right) <= _EXACT:
        raise Missed(
            f"top-1 {right:.2f} % on {len(ranks)} images",
            f"{rate:.2f} %",
            "compare the class of the highest score of each row with the label",
        )
    return f"{right:.2f} % on {len(ranks)} images, {CLASSES} classes"


@claim("accuracy.top5", cell="evaluate_accuracy", points=1.5, title="Top-5 is exact on known answers")
def top5(student: Student, case: Case) -> str:
    evidence = []
    for classes in (CLASSES, 1000):
        ranks = _shuffled(case, f"accuracy.top5.{classes}", {0: 9, 1: 5, 4: 7, 5: 6, 7: 5})
        found = _evaluate(student, _ranked(case, f"accuracy.top5.{classes}", ranks, classes), 8, len(ranks))
        rate, right = _in_percent(found)[1], _rates(ranks)[1]
        if not abs(rate - right) <= _EXACT:
            raise Missed(
                f"top-5 {right:.2f} % on {len(ranks)} images of {classes} classes",
                f"{rate:.2f} %",
                "an image counts where its label is among the five classes of the highest scores",
            )
        evidence.append(f"{right:.2f} % with {classes} classes")
    return ", ".join(evidence)


@claim("accuracy.percent", cell="evaluate_accuracy", points=1, title="Percent: always right is (100, 100), never 0")
def percent(student: Student, case: Case) -> str:
    for rank, expected in ((0, (100.0, 100.0)), (7, (0.0, 0.0))):
        known = _ranked(case, f"accuracy.percent.{rank}", np.full(24, rank))
        found = _evaluate(student, known, 8, 24)
        if not max(abs(found["top1"] - expected[0]), abs(found["top5"] - expected[1])) <= _EXACT:
            raise Missed(
                f"{expected} for a model that is {'always' if rank == 0 else 'never'} right",
                f"({found['top1']:g}, {found['top5']:g})",
                "return percent: 100 times the fraction",
            )
    return "(100, 100) and (0, 0)"


@claim("accuracy.ragged", cell="evaluate_accuracy", points=1.5, title="A smaller last batch counts for what it holds")
def ragged(student: Student, case: Case) -> str:
    evidence = []
    for number, batch in ((37, 8), (13, 4)):  # the second ends with a batch of one image
        last = number % batch
        ranks = np.r_[_shuffled(case, f"accuracy.ragged.{number}", {0: number - last - 4, 2: 4}), np.full(last, 6)]
        known = _ranked(case, f"accuracy.ragged.{number}", ranks)
        found = _evaluate(student, known, batch, number, as_list=number == 13)
        said = _compare(
            found,
            _rates(ranks),
            f"on {number} images in batches of {batch}",
            "count right images and images, and divide once at the end",
        )
        evidence.append(said)
    return "; ".join(evidence)


@claim("accuracy.num_samples", cell="evaluate_accuracy", points=1.5, title="Exactly num_samples images count")
def num_samples(student: Student, case: Case) -> str:
    evidence = []
    for wanted in (33, 40, 100):
        head, tail = {0: 20, 2: 5, 6: 8}, {6: 23, 2: 4}
        parts = [_shuffled(case, f"accuracy.samples.{wanted}.{i}", counts) for i, counts in enumerate((head, tail))]
        ranks = np.concatenate(parts)
        found = _evaluate(student, _ranked(case, f"accuracy.samples.{wanted}", ranks), 10, wanted)
        counted = min(wanted, len(ranks))
        said = _compare(
            found,
            _rates(ranks[:counted]),
            f"with num_samples={wanted}, batches of 10 and {len(ranks)} images",
            "cut the batch in which the number is reached; where there are fewer images, divide by those",
        )
        evidence.append(said)
    return "; ".join(evidence)


@claim("accuracy.ties", cell="evaluate_accuracy", points=0.5, title="Equal scores for all classes are not all right")
def ties(student: Student, case: Case) -> str:
    labels = np.repeat(np.arange(CLASSES), 40)  # so many that whoever guesses is near 10 % and 50 %
    case.random("accuracy.ties").shuffle(labels)
    known = {"scores": np.full((len(labels), CLASSES), 0.25, np.float32), "labels": labels}
    rates = _in_percent(_evaluate(student, known, 8, len(labels)))
    if rates[0] > 25 or not 20 <= rates[1] <= 75:
        raise Missed(
            "about 10 % and 50 % for a model that gives ten classes the same score",
            f"{rates[0]:.1f} % and {rates[1]:.1f} %",
            "pick one class, and five classes, for each image, whether or not other scores are equal to theirs",
        )
    return f"{rates[0]:.0f} % and {rates[1]:.0f} % for a model without an opinion"


@claim("accuracy.models", cell="evaluate_accuracy", points=0.5, title="The model gets NumPy, and may answer in torch")
def models(student: Student, case: Case) -> str:
    ranks = _shuffled(case, "accuracy.models", {0: 16, 3: 7, 7: 1})
    known = _ranked(case, "accuracy.models", ranks)
    reply = student.call("evaluate_known", **known, batch_size=8, num_samples=24, as_tensor=True)
    found = _as_pair(reply.require(FUNCTION))
    if found["wrong_inputs"]:
        raise Missed(
            "the model to be given float32 NumPy arrays [N, 3, 224, 224]",
            found["wrong_inputs"][0],
            "convert the loader's tensors before you call the model",
        )
    return _compare(found, _rates(ranks), "for a model that answers with torch tensors", "accept both kinds of scores")


@claim("accuracy.engine", cell="evaluate_accuracy", points=1, title="A real engine, on images that were never seen")
def engine(student: Student, case: Case) -> str:
    images, labels = _fresh_images(case)
    plan = reference().bytes(ENGINES["int8"])
    with InferenceEngine(plan) as runner:
        scores = runner.predict(images)
    labels = _with_mistakes(scores, labels)
    trusted = Evaluation(scores, labels)
    reply = student.call("evaluate_engine", plan=plan, images=images, labels=labels, batch_size=10)
    found = _as_pair(reply.require(FUNCTION))
    for name, rate, right, k in zip(
        ("top-1", "top-5"), _in_percent(found), (trusted.accuracy.top1, trusted.accuracy.top5), (1, 5), strict=True
    ):
        if not abs(rate - right) <= POINTS + trusted.doubtful(k):
            raise Missed(
                f"{name} {right:.2f} % on {len(labels)} fresh images",
                f"{rate:.2f} %",
                "evaluate the model and the images that are passed in",
            )
    return f"INT8 reference engine, {len(labels)} fresh images: {trusted.accuracy.top1:.2f} % as in the trusted run"


def _with_mistakes(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Give the last ten images the label of the engine's third choice (six) or eighth (four).

    The engine is right so often that else top-5 could pass for top-1, or a last batch be missing, unseen.
    """
    order = np.argsort(-scores, axis=1)
    labels = labels.copy()
    labels[-10:-4], labels[-4:] = order[-10:-4, 2], order[-4:, 7]
    return labels


def _fresh_images(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Render validation digits with backgrounds and strokes that are in no split; preprocess as the lab does."""
    random = case.random("accuracy.fresh")
    pool = np.array(digits.split_digits("validation"))
    chosen = [int(digit) for digit in random.choice(pool, _FRESH_IMAGES, replace=False)]
    variants = [int(variant) for variant in random.integers(*_FRESH_VARIANTS, len(chosen))]
    rendered = digits.render_many(list(zip(chosen, variants, strict=True)))
    images = np.stack([preprocess(Image.fromarray(image)) for image in rendered])
    return images, digits.load_digits()[1][chosen].astype(np.int64)


def _results(student: Student) -> dict[str, dict[str, float]]:
    """Return accuracy.json's rows by name; raise Missed where it is not as the notebook writes it."""
    content = student.artifact(ARTIFACT)
    if content is None:
        raise Missed(f"{ARTIFACT} among the artifacts", "no such file", "run the cell that evaluates the engines")
    try:
        table = json.loads(content)
        rows = {row["name"]: {key: float(row[key]) for key in ("top1", "top5")} for row in table["rows"]}
        counted = int(table["num_samples"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        found = f"{type(error).__name__}: {str(error)[:100]}"
        raise Missed(f"{ARTIFACT} as the notebook writes it", found, "run the cell that writes it again") from error
    lacking = [name for name in (PYTORCH, *ENGINES) if name not in rows]
    if lacking or counted != VALIDATION_IMAGES:
        raise Missed(
            f"rows {', '.join((PYTORCH, *ENGINES))} on {VALIDATION_IMAGES} images",
            f"{counted} images, without {', '.join(lacking) or 'nothing'}",
            "run the cells above in order",
        )
    return rows


@claim("accuracy.file", cell="accuracy_results", points=1, title="accuracy.json holds four rows in percent")
def file(student: Student, case: Case) -> str:
    rows = _results(student)
    for name, row in rows.items():
        fine = all(math.isfinite(value) and 0 <= value <= 100 for value in row.values())
        if not fine or row["top5"] < row["top1"] or row["top5"] <= 1:
            found = f"top-1 {row['top1']:g}, top-5 {row['top5']:g}"
            raise Missed(f"{name}: percentages, top-5 not below top-1", found, f"look at what {FUNCTION} returns")
    return f"{len(rows)} rows, {VALIDATION_IMAGES} images each"


def _trusted(student: Student, case: Case) -> dict[str, Evaluation]:
    """Return the trusted evaluation of every row, from the submission's own engines."""
    plans = {}
    for name, artifact in ENGINES.items():
        plans[name] = student.artifact(artifact)
        facts_of(plans[name], artifact)
    try:
        found = evaluate_plans(plans, reference())
    except LabError as error:
        raise Missed("engines that take the validation images", str(error), "build them again in their step") from error
    return {PYTORCH: pytorch_evaluation(reference()), **found}


def _fault(row: dict[str, float], trusted: Evaluation) -> str | None:
    """Say in which figure a row differs from the trusted evaluation, or None."""
    right = trusted.accuracy
    for key, expected, k in (("top1", right.top1, 1), ("top5", right.top5, 5)):
        if not abs(row[key] - expected) <= POINTS + trusted.doubtful(k):
            return f"{key} {row[key]:.2f} %, where the trusted evaluation finds {expected:.2f} %"
    return None


@claim("accuracy.figures", cell="accuracy_results", points=3, title="Its figures are those of these engines")
def figures(student: Student, case: Case) -> Earned:
    rows, trusted = _results(student), _trusted(student, case)
    faults = {name: _fault(rows[name], evaluation) for name, evaluation in trusted.items()}
    wrong = {name: fault for name, fault in faults.items() if fault}
    missed = None
    if wrong:
        name, fault = next(iter(wrong.items()))
        missed = Missed(
            f"figures within {POINTS} points of the trusted evaluation on the same {VALIDATION_IMAGES} images",
            f"{name}: {fault}" + (f"; and {len(wrong) - 1} more rows" if len(wrong) > 1 else ""),
            "evaluate each engine itself on the validation images, in the given order and preprocessing",
        )
    right = len(faults) - len(wrong)
    return Earned(right / len(faults), f"{right} of {len(faults)} rows agree", missed)


def _loss(student: Student, case: Case, name: str) -> str:
    rows, trusted, limit = _results(student), _trusted(student, case), _LIMITS[name]
    for row in ("fp32", name):
        fault = _fault(rows[row], trusted[row])
        if fault:
            raise Missed(f"{row}'s accuracy as measured on the engine", fault, "the loss is judged on right figures")
    loss = accuracy_loss(trusted["fp32"].accuracy, trusted[name].accuracy)
    # on a quick run's few images one flip is half a point: there only a loss that is surely above the limit counts
    judged = loss.low if QUICK else loss.points
    said = f"{loss.points:+.2f} points (95 % interval {loss.low:+.2f} to {loss.high:+.2f}, {VALIDATION_IMAGES} images)"
    if judged >= limit:
        raise Missed(f"a loss under {limit} points against FP32", said, "look at what made this engine, in its step")
    return f"loss {said}"


@claim("accuracy.fp16_loss", cell="accuracy_results", points=1, title="FP16 loses less than 0.5 points of top-1")
def fp16_loss(student: Student, case: Case) -> str:
    return _loss(student, case, "fp16")


@claim("accuracy.int8_loss", cell="accuracy_results", points=1, title="INT8 loses less than 1.5 points of top-1")
def int8_loss(student: Student, case: Case) -> str:
    return _loss(student, case, "int8")
