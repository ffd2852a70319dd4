"""Visible checks of step 7: an accuracy loop on answers that are known, and the table it makes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from helpers.feedback.checklist import Checklist, visible_check
from helpers.lab import QUICK, VALIDATION_IMAGES
from helpers.missed import Missed
from helpers.probes.capture import captured
from helpers.probes.scored import KnownScores, numbered_loader, ranked_scores

__all__ = ["check_accuracy", "check_accuracy_results"]

Evaluate = Callable[..., Any]
_CLASSES = 10
_ROWS = ("pytorch-fp32", "fp32", "fp16", "int8")
_LIMITS = {"fp16": 0.5, "int8": 1.5}


@visible_check("07_accuracy", "evaluate_accuracy")
def check_accuracy(check: Checklist, evaluate_accuracy: Evaluate) -> None:
    """Check the loop on a model whose rank of the right class is chosen for every image."""
    random = np.random.default_rng(7)
    model, loader = _known(random, np.array([0] * 16))
    check.call("it runs on 16 images", evaluate_accuracy, model, loader, 16)
    check.require("a model that is always right has (100, 100)", lambda: _always(evaluate_accuracy, random))
    mixed = np.tile([0, 2, 0, 6, 0, 4, 9, 5], 3)
    check.verify("top-1 and top-5 of known answers", lambda: _rates(evaluate_accuracy, random, mixed, 8))
    ragged = np.array([0] * 16 + [7] * 3)
    check.verify("a last batch of 3 images counts for 3", lambda: _rates(evaluate_accuracy, random, ragged, 8))
    cut = np.array([0] * 9 + [1] * 4 + [8] * 11)
    check.verify("num_samples=13 counts 13 images", lambda: _rates(evaluate_accuracy, random, cut, 8, 13))
    check.verify("where there are fewer images, those count", lambda: _rates(evaluate_accuracy, random, ragged, 8, 500))
    check.verify("equal scores for all classes are not all right", lambda: _ties(evaluate_accuracy))
    check.verify("scores may be torch tensors", lambda: _rates(evaluate_accuracy, random, mixed, 8, as_tensor=True))


def _known(
    random: np.random.Generator, ranks: np.ndarray, batch_size: int = 8, as_tensor: bool = False
) -> tuple[KnownScores, Any]:
    labels = random.integers(_CLASSES, size=len(ranks))
    model = KnownScores(ranked_scores(random, labels, ranks, _CLASSES), as_tensor)
    return model, numbered_loader(labels, batch_size)


def _called(evaluate: Evaluate, model: KnownScores, loader: Any, number: int) -> tuple[float, float]:
    try:
        with captured():
            returned = evaluate(model, loader, number)
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
        raise Missed("no exception", found, "call it in a cell of its own to see the traceback") from error
    try:
        top1, top5 = (float(value) for value in returned)
    except (TypeError, ValueError):
        raise Missed("a pair (top-1, top-5)", str(returned)[:80], "return two numbers, top-1 first") from None
    if model.wrong_inputs:
        raise Missed(
            "the model to be given float32 NumPy arrays", model.wrong_inputs[0], "convert the loader's tensors"
        )
    return top1, top5


def _always(evaluate: Evaluate, random: np.random.Generator) -> str:
    top1, top5 = _called(evaluate, *_known(random, np.zeros(16, int)), 16)
    if not (abs(top1 - 100) < 1e-3 and abs(top5 - 100) < 1e-3):
        raise Missed("(100, 100)", f"({top1:g}, {top5:g})", "compare each row's best class with its label; in percent")
    return "(100, 100)"


def _rates(
    evaluate: Evaluate,
    random: np.random.Generator,
    ranks: np.ndarray,
    batch_size: int,
    number: int | None = None,
    as_tensor: bool = False,
) -> str:
    model, loader = _known(random, ranks, batch_size, as_tensor)
    counted = ranks[: number or len(ranks)]
    expected = 100 * float(np.mean(counted < 1)), 100 * float(np.mean(counted < 5))
    top1, top5 = _called(evaluate, model, loader, number or len(ranks))
    if not (abs(top1 - expected[0]) < 1e-3 and abs(top5 - expected[1]) < 1e-3):
        raise Missed(
            f"({expected[0]:.2f}, {expected[1]:.2f})",
            f"({top1:.2f}, {top5:.2f})",
            "count right images and images over all batches, and divide once",
        )
    return f"({top1:.2f}, {top5:.2f}) on {len(counted)} images"


def _ties(evaluate: Evaluate) -> str:
    labels = np.arange(40) % _CLASSES
    top1, top5 = _called(evaluate, KnownScores(np.zeros((40, _CLASSES))), numbered_loader(labels, 8), 40)
    if top1 > 25 or top5 > 75:
        found = f"({top1:.0f}, {top5:.0f})"
        raise Missed("about (10, 50)", found, "choose one class and five classes an image, as argmax and topk do")
    return f"({top1:.0f}, {top5:.0f})"


@visible_check("07_accuracy", "accuracy.json")
def check_accuracy_results(check: Checklist, path: str | Path) -> None:
    """Check that the table is complete and that FP16 and INT8 lose little."""
    rows: dict[str, dict[str, float]] = {}
    check.require(f"four rows on {VALIDATION_IMAGES} images", lambda: _read(Path(path), rows))
    check.verify("percentages, top-5 not below top-1", lambda: _percentages(rows))
    for name, limit in _LIMITS.items():
        check.verify(
            f"{name.upper()} loses less than {limit} points", lambda name=name, limit=limit: _loss(rows, name, limit)
        )


def _read(path: Path, rows: dict[str, dict[str, float]]) -> str:
    try:
        table = json.loads(path.read_text())
        rows |= {row["name"]: {key: float(row[key]) for key in ("top1", "top5")} for row in table["rows"]}
        counted = int(table["num_samples"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        found = f"{type(error).__name__}: {error}"
        raise Missed(f"{path.name} as the cell above writes it", found, "run that cell again") from error
    if counted != VALIDATION_IMAGES or set(_ROWS) - set(rows):
        found = f"{', '.join(rows)} on {counted} images"
        raise Missed(f"{', '.join(_ROWS)} on {VALIDATION_IMAGES} images", found, "run the cells above in order")
    return ", ".join(_ROWS)


def _percentages(rows: dict[str, dict[str, float]]) -> str:
    for name, row in rows.items():
        if not 1 < row["top5"] <= 100 or not 0 <= row["top1"] <= row["top5"]:
            found = f"{name}: top-1 {row['top1']:g}, top-5 {row['top5']:g}"
            raise Missed("percentages, top-5 at least top-1", found, "look at what evaluate_accuracy returns")
    return ", ".join(f"{name} {row['top1']:.1f} %" for name, row in rows.items())


def _loss(rows: dict[str, dict[str, float]], name: str, limit: float) -> str:
    loss = rows["fp32"]["top1"] - rows[name]["top1"]
    # on a quick run's few images, one more or less must not decide
    if loss >= limit + 100 / VALIDATION_IMAGES * QUICK:
        found = f"a loss of {loss:.2f} points"
        raise Missed(f"less than {limit} points below FP32", found, "look at the step that built this engine")
    return f"{loss:+.2f} points"
