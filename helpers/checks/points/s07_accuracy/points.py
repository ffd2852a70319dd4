"""Step 7's points: an accuracy loop that counts right, and the table that it makes."""

import math
from typing import Any

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.files import json_of
from helpers.checks.points.point import Reported, point
from helpers.checks.points.s07_accuracy.known import FUNCTION, evaluate_known, ranked_scores
from helpers.checks.probes.student import Reply
from helpers.course.settings import NAMES, QUICK, VALIDATION_IMAGES

ARTIFACT = "accuracy.json"

LOSS = {"fp16": 0.5, "int8": 1.5}
"""Points of top-1 that an engine may lose less than, against the FP32 engine."""

NUM_SAMPLES = 1000
"""How many images count where the caller does not say."""

_CLASSES = 10
_SMALL = 32
"""Height and width of images of which there are many."""

_EXACT = 6e-3
"""Percentage points: that a rate was rounded costs its own point, and not these."""

_MOST_OF_A_GUESS = (25, 70)
"""Percent: top-1 and top-5 of ten classes."""

_UNROUNDED = 1e-4
"""Percentage points: float32 keeps this, three decimals do not."""


def _known(case: Case, purpose: str, *parts: dict[int, int], classes: int = _CLASSES) -> dict[str, Any]:
    """Return scores, labels and ranks of images whose label has `rank` classes above it: each part's, shuffled."""
    random = case.random(purpose)
    ranks = np.concatenate([random.permutation(np.repeat(list(part), list(part.values()))) for part in parts])
    labels = random.integers(classes, size=len(ranks))
    return {"scores": ranked_scores(random, labels, ranks, classes), "labels": labels, "ranks": ranks}


def _reply(case: Case, known: dict[str, Any], batch_size: int, number: int | None, **how: Any) -> Reply:
    data = {name: known[name] for name in ("scores", "labels")}
    return case.call(evaluate_known, **data, batch_size=batch_size, num_samples=number, **how)


def _evaluate(*asked: Any, **how: Any) -> dict[str, Any]:
    return as_pair(_reply(*asked, **how))


def as_pair(reply: Reply) -> dict[str, Any]:
    """Return what a probe answered about one evaluation; raise Missed where it gave no pair of numbers."""
    found = reply.require(FUNCTION)
    if found["kind"] != "pair":
        raise Missed("a pair of numbers, (top-1, top-5)", found["kind"], "return both, top-1 first")
    return found


def in_percent(found: dict[str, Any]) -> tuple[float, float]:
    """Return (top-1, top-5) in percent: that fractions came is a point of its own."""
    unit = 100 if max(found["top1"], found["top5"]) <= 1 else 1
    return unit * found["top1"], unit * found["top5"]


def _rates(ranks: np.ndarray) -> tuple[float, float]:
    return 100 * float((ranks < 1).mean()), 100 * float((ranks < 5).mean())


def _same(name: str, rate: float, right: float, what: str, try_this: str) -> str:
    if not abs(rate - right) <= _EXACT:
        digits = 2 if abs(rate - right) > 0.1 else 4  # the two must not read alike
        raise Missed(f"{name} {right:.{digits}f} % {what}", f"{rate:.{digits}f} %", try_this)
    return f"{right:.2f} % {what}"


def _both(found: dict[str, Any], ranks: np.ndarray, what: str, try_this: str) -> str:
    pairs = zip(("top-1", "top-5"), in_percent(found), _rates(ranks), strict=True)
    for name, rate, right in pairs:
        _same(name, rate, right, what, try_this)
    return f"{_rates(ranks)[0]:.2f} % and {_rates(ranks)[1]:.2f} % {what}"


@point("Top-1 is exact on known answers")
def top1(case: Case) -> str:
    known = _known(case, "accuracy.top1", {0: 23, 1: 4, 3: 3, 5: 6, 8: 4})
    known["scores"] += 96  # still exact; only their exponentials are too large for float32
    found = _evaluate(case, known, 8, 40)
    advice = "compare the class of each row's highest score, as it comes, with the label"
    return _same("top-1", in_percent(found)[0], _rates(known["ranks"])[0], "on 40 images", advice)


@point("Top-5 is exact on known answers")
def top5(case: Case) -> str:
    said = []
    for classes in (_CLASSES, 1000):
        known = _known(case, f"accuracy.top5.{classes}", {0: 9, 1: 5, 4: 7, 5: 6, 7: 5}, classes=classes)
        rate = in_percent(_evaluate(case, known, 8, 32))[1]
        advice = "an image counts where its label is among the five classes of the highest scores"
        said.append(_same("top-5", rate, _rates(known["ranks"])[1], f"on 32 images of {classes} classes", advice))
    return ", ".join(said)


@point("Percent: always right is (100, 100), never right is (0, 0)")
def percent(case: Case) -> str:
    for rank, right, how in ((0, 100, "always"), (7, 0, "never")):
        found = _evaluate(case, _known(case, f"accuracy.percent.{rank}", {rank: 24}), 8, 24)
        if not max(abs(found["top1"] - right), abs(found["top5"] - right)) <= _EXACT:
            said = f"({found['top1']:g}, {found['top5']:g})"
            advice = "return percent: 100 times the fraction"
            raise Missed(f"({right}, {right}) for a model that is {how} right", said, advice)
    _unrounded(case)
    return "(100, 100) and (0, 0)"


def _unrounded(case: Case) -> None:
    """Raise Missed where a rate is no number of images over 24: which number it is, is asked elsewhere."""
    found = _evaluate(case, _known(case, "accuracy.unrounded", {0: 8, 3: 3, 7: 13}), 8, 24)
    for rate, exact in _no_share_of(24, found, _UNROUNDED):
        raise Missed(f"{exact:.6f} % for {rate * 24 / 100:.0f} of 24 images", f"{rate:.6f} %", "do not round")


def _no_share_of(images: int, found: dict[str, Any], limit: float) -> list[tuple[float, float]]:
    """Return the rates that are further than `limit` from any number of images over `images`, and the nearest."""
    pairs = [(rate, 100 * float(np.rint(rate * images / 100)) / images) for rate in in_percent(found)]
    return [(rate, exact) for rate, exact in pairs if not abs(rate - exact) <= limit]


@point("A smaller last batch counts for what it holds")
def ragged(case: Case) -> str:
    said, advice = [], "count right images and images over all batches, and divide once at the end"
    for number, batch in ((37, 8), (13, 4)):  # the second ends with a batch of one image
        last = number % batch
        known = _known(case, f"accuracy.ragged.{number}", {0: number - last - 4, 2: 4}, {6: last})
        found = _evaluate(case, known, batch, number, as_list=number == 13)
        said.append(_both(found, known["ranks"], f"on {number} images in batches of {batch}", advice))
    return "; ".join(said)


@point("Exactly the first num_samples images count")
def num_samples(case: Case) -> str:
    said, known = [], _known(case, "accuracy.samples", {0: 21, 2: 6, 6: 8}, {6: 21, 2: 4})
    advice = "cut the batch in which the number is reached; where there are fewer images, divide by those"
    for wanted in (35, 40, 100):  # inside a batch, at the end of one, and more than the loader has in uneven batches
        what = f"with num_samples={wanted}, batches of 8 and 60 images"
        said.append(_both(_evaluate(case, known, 8, wanted, unused=3), known["ranks"][:wanted], what, advice))
    many = _known(case, "accuracy.default", {0: NUM_SAMPLES - 100, 3: 100}, {8: 12})
    found, what = _evaluate(case, many, 506, None, edge=_SMALL), f"of 1,012 images, num_samples={NUM_SAMPLES} not given"
    advice = f"leave the default at {NUM_SAMPLES}, and count in numbers that hold as much"
    said.append(_both(found, many["ranks"][:NUM_SAMPLES], what, advice))
    _lets_errors_through(case, known)
    _leaves_none_out(case)
    return "; ".join(said)


def _lets_errors_through(case: Case, known: dict[str, Any]) -> None:
    """Raise Missed where figures come out although the model failed on one of the images that count."""
    if _reply(case, known, 10, 40, fails_on=13).error is None:
        expected, found = "the error of a model that fails on a batch", "an accuracy without that batch"
        raise Missed(expected, found, "let the model's error through: images without scores cannot be left out")


def _leaves_none_out(case: Case) -> None:
    """Raise Missed where images whose scores are NaN are not among those that count. To refuse them is as right."""
    known = _known(case, "accuracy.nan", {0: 8, 7: 16})
    known["scores"][-7:] = np.nan
    reply = _reply(case, known, 8, 24)
    for rate, _ in _no_share_of(24, as_pair(reply), _EXACT) if reply.error is None else ():
        said = f"{rate:.4f} %, which no number of 24 images is"
        raise Missed("every image to count, also one whose scores are NaN", said, "leave no image out")


def tied(case: Case) -> dict[str, np.ndarray]:
    """Return labels and scores of 400 images: of each ten classes have the same score, or all but one wrong class."""
    random = case.random("accuracy.ties")
    labels = random.permutation(np.repeat(np.arange(_CLASSES), 40))
    scores = np.full((len(labels), _CLASSES), 0.25, np.float32)
    places = np.arange(0, len(labels), 2)
    scores[places, (labels[places] + random.integers(1, _CLASSES, len(places))) % _CLASSES] = 0
    return {"scores": scores, "labels": labels}


def as_a_guess(top1: float, top5: float) -> bool:
    """Say whether rates in percent may be those of a guess for the images of `tied`: expected are 10.6 and 52.8."""
    return top1 >= 2 and top5 >= 35 and not _above_a_guess((top1, top5))


def _above_a_guess(rates: tuple[float, float]) -> bool:
    return any(rate > most for rate, most in zip(rates, _MOST_OF_A_GUESS, strict=True))


@point("Equal scores are not all right")
def ties(case: Case) -> str:
    rates = in_percent(_evaluate(case, tied(case), 8, 400, edge=_SMALL))
    if not as_a_guess(*rates):
        expected = "about 11 % and 53 % for a model that gives nine or all of ten classes the same score"
        advice = "pick one class, and five classes, for each image, whether or not other scores are equal to theirs"
        raise Missed(expected, f"{rates[0]:.1f} % and {rates[1]:.1f} %", advice)
    _nan_is_not_right(case)
    return f"{rates[0]:.0f} % and {rates[1]:.0f} % for a model that hardly has an opinion"


def _nan_is_not_right(case: Case) -> None:
    """Raise Missed where scores that are NaN make any label right: no comparison with them is true.

    Labels in turns: who breaks ties anew for each batch would have all or none of a batch of one class right.
    Backwards: no image's label is its number in the batch, which who sorts over the batch takes for its class.
    """
    labels = np.tile(np.arange(_CLASSES)[::-1], 20)
    scores = np.full((len(labels), _CLASSES), np.nan, np.float32)
    reply = _reply(case, {"scores": scores, "labels": labels}, 8, len(labels), edge=_SMALL)
    if reply.error is None and _above_a_guess(rates := in_percent(as_pair(reply))):
        expected = "at most a guess's 10 % and 50 % for a model whose scores are all NaN"
        advice = "pick one class, and five classes, for each image, instead of counting those that score more"
        raise Missed(expected, f"{rates[0]:.1f} % and {rates[1]:.1f} %", advice)


def _asked_in_torch(case: Case) -> tuple[dict[str, Any], dict[str, Any]]:
    known = _known(case, "accuracy.models", {0: 16, 3: 7, 7: 1})
    return known, _evaluate(case, known, 8, 24, as_tensor=True)


def _given_arrays(case: Case) -> str:
    _, found = _asked_in_torch(case)
    if found["wrong_inputs"]:
        advice = "convert the loader's tensors before you call the model"
        raise Missed("the model to be given float32 NumPy arrays [N, 3, 224, 224]", found["wrong_inputs"][0], advice)
    return "the model is given float32 NumPy arrays"


@point(
    "The model gets NumPy, and may answer in torch",
    Reported("type and shape of what the model is called with: the arrays never leave the process", 0.1, _given_arrays),
)
def models(case: Case) -> str:
    known, found = _asked_in_torch(case)
    said = _both(found, known["ranks"], "for a model that answers with torch tensors", "accept both kinds of scores")
    known = _known(case, "accuracy.again", {0: VALIDATION_IMAGES - 11, 3: 7, 7: 4})
    found = _evaluate(case, known, 10, VALIDATION_IMAGES, after_others=True, edge=_SMALL)
    _both(
        found,
        known["ranks"],
        "after other models and images",
        "begin each call from nothing: keep no answers or counts",
    )
    return said


def rows(case: Case) -> dict[str, dict[str, float]]:
    """Return accuracy.json's rows by name; raise Missed where it is not as the notebook writes it."""
    read = json_of(case, ARTIFACT, "run the cell that evaluates the engines")
    try:
        found = {row["name"]: {key: float(row[key]) for key in ("top1", "top5")} for row in read["rows"]}
        counted = int(read["num_samples"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        said = f"{type(error).__name__}: {str(error)[:100]}"
        raise Missed(f"{ARTIFACT} as the notebook writes it", said, "run the cell that writes it again") from error
    lacking = [name for name in NAMES if name not in found]
    if lacking or counted != VALIDATION_IMAGES:
        said = f"{counted} images" + (f", without {', '.join(lacking)}" if lacking else "")
        raise Missed(f"rows {', '.join(NAMES)} on {VALIDATION_IMAGES} images", said, "run the cells above in order")
    return found


@point("accuracy.json holds four rows in percent")
def table(case: Case) -> str:
    found = rows(case)
    for name, row in found.items():
        fine = all(math.isfinite(value) and 0 <= value <= 100 for value in row.values())
        if not fine or row["top5"] < row["top1"] or row["top5"] <= 1:
            said = f"top-1 {row['top1']:g}, top-5 {row['top5']:g}"
            raise Missed(f"{name}: percentages, top-5 not below top-1", said, f"look at what {FUNCTION} returns")
    rates = ", ".join(f"{name} {row['top1']:.1f} %" for name, row in found.items())
    return f"top-1 on {VALIDATION_IMAGES} images: {rates}"


def loss_within(name: str, loss: float, said: str) -> str:
    """Return evidence that the engine `name` loses less than its limit, `loss` in points of top-1."""
    if loss >= LOSS[name]:
        advice = "look at what made this engine, in its step"
        raise Missed(f"a loss under {LOSS[name]} points against FP32", said, advice)
    return f"loss {said}"


def _loss(case: Case, name: str) -> str:
    found = rows(case)
    loss = found["fp32"]["top1"] - found[name]["top1"]
    one_image = 100 / VALIDATION_IMAGES  # on a quick run's few images, one more or less must not decide
    return loss_within(name, loss - one_image * QUICK, f"{loss:+.2f} points")


@point(f"FP16 loses less than {LOSS['fp16']} points of top-1")
def fp16_loss(case: Case) -> str:
    return _loss(case, "fp16")


@point(f"INT8 loses less than {LOSS['int8']} points of top-1")
def int8_loss(case: Case) -> str:
    return _loss(case, "int8")
