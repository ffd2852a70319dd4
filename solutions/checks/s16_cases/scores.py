"""Cases of the scores department: pictures, what was fed and answered, and a report of the accuracy; one mistake."""

import numpy as np

from helpers.tools.outputs import onnx_outputs
from helpers.toys.casefiles import pictures, prepared
from solutions.checks.s16_cases.networks import CLASSES, case_network
from solutions.checks.s16_cases.sealed import Fault, Material, camera

_SHOWN = 3
"""Inputs that were kept of what was fed."""

_ACCURACIES = (0.4, 0.5), (0.65, 0.85)
"""Of a network that is bad at its task, and of a good one: shares of labels that are what it answers."""

_BATCHES = 4, 8, 16
_OUT_OF_FIVE, _NEIGHBOURS = 5, 6
_STILL_HIT = 0.35
"""Of the pictures that are answered rightly, how many others, answered wrongly, shifted labels call right."""

_AT_LEAST = 4
"""Pictures by which a top-5 is above the top-1 that it was taken for."""


def healthy(random: np.random.Generator, number: int) -> Material:
    """Return a case with nothing wrong; a low accuracy, inputs in half precision or a ragged last batch is fine."""
    model, taken = case_network(random), camera(random, int(random.integers(60, 90)))
    inputs = prepared(pictures(**taken))
    scores = onnx_outputs(model, inputs)
    labels = scores.argmax(axis=1)
    wrong = random.permutation(len(labels)) >= random.uniform(*_ACCURACIES[number % 2]) * len(labels)
    labels[wrong] = _mistaken(random, scores[wrong], number)
    case = {"department": "scores", "onnx": model, "pictures": taken, "labels": labels}
    return case | _noted(inputs, scores) | {"report": _report(scores, labels, int(random.choice(_BATCHES)))}


def _mistaken(random: np.random.Generator, scores: np.ndarray, number: int) -> np.ndarray:
    """Return labels that the network does not answer with, int64 [N], for its scores [N, 10].

    Case 5 of a seed has none of them among the five best, so that top-1 is the top-5; case 6 takes each class for the
    same neighbour, so that one shift of the labels makes more answers right than none does.
    """
    order = np.argsort(-scores, axis=1)
    if number == _OUT_OF_FIVE:
        return order[:, 5 + int(random.integers(CLASSES - 5))]
    steps = random.integers(1, CLASSES) if number == _NEIGHBOURS else random.integers(1, CLASSES, len(scores))
    return (order[:, 0] + steps) % CLASSES


def _noted(inputs: np.ndarray, scores: np.ndarray) -> Material:
    """Return what the service noted: inputs as half precision rounds them, and all digits of the scores.

    Rounded scores would put some picture's fifth class behind its sixth now and then.
    """
    return {"fed": inputs[:_SHOWN].astype(np.float16).astype(np.float32), "scores": scores}


def _rates(scores: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Return top-1 and top-5 in percent, to two decimals."""
    order = np.argsort(-scores, axis=1)
    hits = order == labels[:, None]
    return round(100 * float(hits[:, 0].mean()), 2), round(100 * float(hits[:, :5].any(axis=1).mean()), 2)


def _report(scores: np.ndarray, labels: np.ndarray, batch: int) -> dict[str, float]:
    top1, top5 = _rates(scores, labels)
    return {"top1": top1, "top5": top5, "images": len(labels), "batch": batch}


def _answered(case: Material, inputs: np.ndarray) -> None:
    """Note what the network answers for other inputs than the right ones, and report that."""
    scores = onnx_outputs(case["onnx"], inputs)
    case |= _noted(inputs, scores)
    case["report"] = _report(scores, case["labels"], case["report"]["batch"])


def _channels_reversed(random: np.random.Generator, case: Material, other: bool) -> float:
    right = case["report"]["top1"]
    _answered(case, prepared(pictures(**case["pictures"])[..., ::-1]))
    return right


def _pixels_fed(random: np.random.Generator, case: Material, other: bool) -> float:
    right, most = case["report"]["top1"], 1 if other else 255
    pixels = np.moveaxis(pictures(**case["pictures"]), -1, 1).astype(np.float32) * np.float32(most / 255)
    _answered(case, np.ascontiguousarray(pixels))
    return right


def _late_read(random: np.random.Generator, case: Material, other: bool) -> float:
    right, batch = case["report"]["top1"], case["report"]["batch"]
    before = random.normal(0, 2, (batch, CLASSES)) if other else np.zeros((batch, CLASSES))
    late = np.concatenate([before, case["scores"][:-batch]]).astype(np.float32)
    case["scores"], case["report"] = late, _report(late, case["labels"], batch)
    return right


def _labels_shifted(random: np.random.Generator, case: Material, other: bool) -> float:
    right, any_shift = case["report"]["top1"], int(random.integers(2, CLASSES - 1))
    shift = 1 if other else int(random.choice([any_shift, CLASSES - 1]))
    case["labels"] = (_hit_when_shifted(case["scores"].argmax(axis=1), case["labels"], shift) + shift) % CLASSES
    case["report"] = _report(case["scores"], case["labels"], case["report"]["batch"])
    return right


def _hit_when_shifted(best: np.ndarray, labels: np.ndarray, shift: int) -> np.ndarray:
    """Return labels [N] of which, once shifted, as many wrong ones are hits as `_STILL_HIT` says, and no others.

    By chance there would be few, and other numbers could then pass for the labels' right ones.
    """
    wrong, hitting = np.flatnonzero(labels != best), (best - shift) % CLASSES
    beside = (hitting + (1 if shift > 1 else -1)) % CLASSES
    labels = np.where((labels != best) & (labels == hitting), beside, labels)
    hits = wrong[: round(_STILL_HIT * (len(labels) - len(wrong)))]
    labels[hits] = hitting[hits]
    return labels


def _top5_for_top1(random: np.random.Generator, case: Material, other: bool) -> float:
    best, second = np.argsort(-case["scores"], axis=1)[:, :2].T
    missed = np.flatnonzero(case["labels"] != best)[:_AT_LEAST]
    case["labels"][missed] = second[missed]
    report = _report(case["scores"], case["labels"], case["report"]["batch"])
    case["report"] = report | {"top1": report["top5"]}
    return report["top1"]


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
