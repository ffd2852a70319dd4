"""Cases of the scores department: pictures, what was fed and answered, and a report of the accuracy; one mistake."""

import numpy as np

from helpers.tools.outputs import onnx_outputs
from helpers.toys.casefiles import pictures, prepared
from solutions.checks.s16_cases.networks import CLASSES, Fault, Material, camera, case_network

_NEIGHBOURS = 6


def healthy(random: np.random.Generator, number: int) -> Material:
    """Return a case with nothing wrong; a low accuracy, inputs in half precision or a ragged last batch is fine."""
    model, taken = case_network(random), camera(random, int(random.integers(60, 90)))
    inputs = prepared(pictures(**taken))
    scores = onnx_outputs(model, inputs)
    labels = scores.argmax(axis=1)
    accuracy = (0.65, 0.85) if number % 2 else (0.4, 0.5)  # a good network, or a bad one
    wrong = random.permutation(len(labels)) >= random.uniform(*accuracy) * len(labels)
    labels[wrong] = _mistaken(random, scores[wrong], number)
    case = {"department": "scores", "onnx": model, "pictures": taken, "labels": labels}
    return _answered(case, inputs, int(random.choice((4, 8, 16))))


def _mistaken(random: np.random.Generator, scores: np.ndarray, number: int) -> np.ndarray:
    """Return labels that the network does not answer with, int64 [N], for its scores [N, 10].

    Case 6 of a seed takes each class for the same neighbour, so that one shift of the labels makes more answers right
    than none does.
    """
    steps = random.integers(1, CLASSES) if number == _NEIGHBOURS else random.integers(1, CLASSES, len(scores))
    return (scores.argmax(axis=1) + steps) % CLASSES


def _answered(case: Material, inputs: np.ndarray, batch: int) -> Material:
    """Note what was fed, rounded to half precision, and what the network answers; report that."""
    fed = inputs[:3].astype(np.float16).astype(np.float32)
    return _reported(case | {"fed": fed, "scores": onnx_outputs(case["onnx"], inputs)}, batch)


def _reported(case: Material, batch: int) -> Material:
    """Report top-1 and top-5 in percent, to two decimals."""
    hits = np.argsort(-case["scores"], axis=1) == case["labels"][:, None]
    top1, top5 = (round(100 * float(hits[:, :k].any(axis=1).mean()), 2) for k in (1, 5))
    return case | {"report": {"top1": top1, "top5": top5, "images": len(hits), "batch": batch}}


def _channels_reversed(random: np.random.Generator, case: Material, other: bool) -> float:
    right = case["report"]["top1"]
    case |= _answered(case, prepared(pictures(**case["pictures"])[..., ::-1]), case["report"]["batch"])
    return right


def _pixels_fed(random: np.random.Generator, case: Material, other: bool) -> float:
    right, most = case["report"]["top1"], 1 if other else 255
    pixels = np.moveaxis(pictures(**case["pictures"]), -1, 1).astype(np.float32) * np.float32(most / 255)
    case |= _answered(case, np.ascontiguousarray(pixels), case["report"]["batch"])
    return right


def _late_read(random: np.random.Generator, case: Material, other: bool) -> float:
    right, batch = case["report"]["top1"], case["report"]["batch"]
    before = random.normal(0, 2, (batch, CLASSES)) if other else np.zeros((batch, CLASSES))
    late = np.concatenate([before, case["scores"][:-batch]]).astype(np.float32)
    case |= _reported(case | {"scores": late}, batch)
    return right


def _labels_shifted(random: np.random.Generator, case: Material, other: bool) -> float:
    """Shift the labels; of the wrong ones, 0.35 times as many as there are right ones are hits then, and no others.

    By chance there would be few, and other numbers could then pass for the labels' right ones.
    """
    right, best, labels = case["report"]["top1"], case["scores"].argmax(axis=1), case["labels"]
    shift = 1 if other else int(random.choice([int(random.integers(2, CLASSES - 1)), CLASSES - 1]))
    hitting, wrong = (best - shift) % CLASSES, np.flatnonzero(labels != best)
    labels = np.where(labels == hitting, (hitting + (1 if shift > 1 else -1)) % CLASSES, labels)
    hits = wrong[: round(0.35 * (len(labels) - len(wrong)))]
    labels[hits] = hitting[hits]
    case |= _reported(case | {"labels": (labels + shift) % CLASSES}, case["report"]["batch"])
    return right


def _top5_for_top1(random: np.random.Generator, case: Material, other: bool) -> float:
    best, second = np.argsort(-case["scores"], axis=1)[:, :2].T
    missed = np.flatnonzero(case["labels"] != best)[:4]  # so that top-5 is four pictures or more above top-1
    case["labels"][missed] = second[missed]
    case |= _reported(case, case["report"]["batch"])
    right = case["report"]["top1"]
    case["report"]["top1"] = case["report"]["top5"]
    return right


def _fraction(random: np.random.Generator, case: Material, other: bool) -> float:
    right = case["report"]["top1"]
    case["report"] |= {name: case["report"][name] / 100 for name in ("top1", "top5")}
    return right


FAULTS: dict[str, Fault] = {
    "channels_reversed": _channels_reversed,
    "pixels_fed": _pixels_fed,
    "late_read": _late_read,
    "labels_shifted": _labels_shifted,
    "top5_for_top1": _top5_for_top1,
    "fraction": _fraction,
}
