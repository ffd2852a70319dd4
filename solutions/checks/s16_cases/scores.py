"""Cases of the scores department: pictures, inputs, scores and an accuracy report, with one mistake."""

import numpy as np

from helpers.tools.outputs import onnx_outputs
from helpers.toys.casefiles import pictures, prepared
from solutions.checks.s16_cases.networks import CLASSES, Material, camera, case_network


def healthy(random: np.random.Generator, number: int) -> Material:
    """Return a case with nothing wrong; a low accuracy, inputs in half precision or a ragged last batch is fine."""
    model, taken = case_network(random), camera(random, int(random.integers(60, 90)))
    inputs = prepared(pictures(**taken))
    labels = onnx_outputs(model, inputs).argmax(axis=1)
    accuracy = (0.65, 0.85) if number % 2 else (0.4, 0.5)  # a good network, or a bad one
    wrong = random.permutation(len(labels)) >= random.uniform(*accuracy) * len(labels)
    labels[wrong] = (labels[wrong] + random.integers(1, CLASSES, wrong.sum())) % CLASSES
    case = {"department": "scores", "onnx": model, "pictures": taken, "labels": labels}
    return _answered(case | {"report": {"batch": int(random.choice((4, 8, 16)))}}, inputs)


def _answered(case: Material, inputs: np.ndarray) -> Material:
    """Add the inputs, rounded to half precision, the network's scores, and the report."""
    fed = inputs[:3].astype(np.float16).astype(np.float32)
    return _reported(case | {"fed": fed, "scores": onnx_outputs(case["onnx"], inputs)})


def _reported(case: Material) -> Material:
    """Report top-1 and top-5 in percent, to two decimals."""
    hits = np.argsort(-case["scores"], axis=1) == case["labels"][:, None]
    top1, top5 = (round(100 * float(hits[:, :k].any(axis=1).mean()), 2) for k in (1, 5))
    return case | {"report": {"top1": top1, "top5": top5, "images": len(hits), "batch": case["report"]["batch"]}}


def faulty(random: np.random.Generator, case: Material, cause: str, other: bool) -> tuple[Material, float]:
    """Return a case with this mistake in inputs, scores, labels or report, and the right top-1."""
    drawn, batch, right = pictures(**case["pictures"]), case["report"]["batch"], case["report"]["top1"]
    pixels = np.moveaxis(drawn, -1, 1).astype(np.float32) * np.float32((1 if other else 255) / 255)
    fed = {"channels_reversed": prepared(drawn[..., ::-1]), "pixels_fed": np.ascontiguousarray(pixels)}
    before = random.normal(0, 2, (batch, CLASSES)) if other else np.zeros((batch, CLASSES))
    shift = 1 if other else int(random.integers(2, CLASSES))
    changed = {
        "late_read": {"scores": np.concatenate([before, case["scores"][:-batch]]).astype(np.float32)},
        "labels_shifted": {"labels": (case["labels"] + shift) % CLASSES},
        "top5_for_top1": {"labels": _nearly_missed(case)},
    }
    case = _answered(case, fed[cause]) if cause in fed else _reported(case | changed.get(cause, {}))
    shares = {name: case["report"][name] / 100 for name in ("top1", "top5")}
    printed = {"top5_for_top1": {"top1": case["report"]["top5"]}, "fraction": shares}
    return case | {"report": case["report"] | printed.get(cause, {})}, right


def _nearly_missed(case: Material) -> np.ndarray:
    """Return the labels, four missed ones replaced by the second choice, so top-5 is clearly above top-1."""
    (best, second), labels = np.argsort(-case["scores"], axis=1)[:, :2].T, case["labels"].copy()
    missed = np.flatnonzero(labels != best)[:4]
    labels[missed] = second[missed]
    return labels
