"""Step 7, evaluate_accuracy(model, val_loader, num_samples=1000): top-1 and top-5, and what the fast engines lose."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.files import rows_of
from helpers.checks.points.task import Point, Task
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.student import Reply
from helpers.course.artifacts import load_definition
from helpers.course.settings import NAMES, QUICK, VALIDATION_IMAGES

FUNCTION, ARTIFACT = "evaluate_accuracy", "accuracy.json"
_INFERENCE = "TensorRTInference"

LOSS = {"fp16": 0.5, "int8": 1.5}
"""Points of top-1 that an engine may lose less than, against the FP32 engine."""

PROMISES = (
    "(model, val_loader, num_samples=1000)",
    f"FP16 may lose less than {LOSS['fp16']} points of top-1 against the FP32 engine, INT8 less than {LOSS['int8']}",
)
"""What the notebook's text says in figures."""

_CLASSES, _BATCH, _EDGE = 10, 8, 32
_EXACT = 6e-3
"""Percentage points: a rate may be rounded to two decimals."""

LOOP = Task(FUNCTION, FUNCTION, "check_accuracy", (FUNCTION,))
RESULTS = Task("accuracy_results", ARTIFACT, "check_accuracy_results")
TASKS = (LOOP, RESULTS)


class Rates(TypedDict):
    """What both probes answer: whatever the function returned, and what the model was wrongly given."""

    returned: list[float] | None
    kind: str
    wrong_inputs: list[str]


class _KnownModel:
    """A model that gives image i, which carries i in its first pixel, row i of `scores` [M, classes]."""

    def __init__(self, scores: np.ndarray, as_tensor: bool, fails_on: int | None) -> None:
        self._scores, self._as_tensor, self._fails_on = scores, as_tensor, fails_on
        self.wrong_inputs: list[str] = []

    def __call__(self, images: Any) -> Any:
        if not isinstance(images, np.ndarray) or images.dtype != np.float32 or images.ndim != 4:
            self.wrong_inputs.append(f"{type(images).__name__} of {images.dtype}, shape {tuple(images.shape)}")
        if not len(images):
            raise ValueError("a batch of 0 images, which no engine takes")
        numbers = np.asarray(images)[:, 0, 0, 0].astype(int)
        if self._fails_on in numbers:
            raise RuntimeError("the model cannot run this batch")
        found = self._scores[numbers]
        return torch.from_numpy(found) if self._as_tensor else found


@probe
def evaluate_known(
    notebook: Notebook,
    *,
    scores: np.ndarray,
    labels: np.ndarray,
    num_samples: int,
    as_tensor: bool = False,
    as_list: bool = False,
    fails_on: int | None = None,
) -> Rates:
    """Evaluate a model that gives image i row i of `scores`, and raises for a batch with image `fails_on`.

    `as_list` hands over a list of batches, no DataLoader.
    """
    images = torch.zeros(len(labels), 3, _EDGE, _EDGE)
    images[:, 0, 0, 0] = torch.arange(len(labels))
    loader = DataLoader(TensorDataset(images, torch.from_numpy(labels)), batch_size=_BATCH)
    model = _KnownModel(scores.astype(np.float32), as_tensor, fails_on)
    found = notebook[FUNCTION](model, list(loader) if as_list else loader, num_samples)
    return _rates(found, model.wrong_inputs)


@probe
def evaluate_engine(notebook: Notebook, *, plan: bytes, images: np.ndarray, labels: np.ndarray) -> Rates:
    """Evaluate an engine on images float32 [N, 3, H, W] through the inference class that the notebook uses."""
    loader = DataLoader(TensorDataset(torch.from_numpy(images), torch.from_numpy(labels)), batch_size=10)
    inference = notebook.value(_INFERENCE) or load_definition(_INFERENCE)
    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder) / "model.engine").write_bytes(plan)
        with inference(str(path)) as model:
            return _rates(notebook[FUNCTION](model, loader, len(labels)), [])


def _rates(returned: Any, wrong_inputs: list[str]) -> Rates:
    try:
        top1, top5 = (float(rate) for rate in returned if not isinstance(rate, str))
    except (TypeError, ValueError):
        return {"returned": None, "kind": repr(returned)[:80], "wrong_inputs": wrong_inputs[:1]}
    return {"returned": [top1, top5], "kind": "pair", "wrong_inputs": wrong_inputs[:1]}


def known(case: Case, purpose: str, ranks: Mapping[int, int]) -> dict[str, np.ndarray]:
    """Return scores, labels and ranks of images: `ranks` says how many have a label with that many better classes."""
    random = case.random(purpose)
    rank = random.permutation(np.repeat(list(ranks), list(ranks.values())))
    labels = random.integers(_CLASSES, size=len(rank))
    scores = np.empty((len(rank), _CLASSES), np.float32)
    for row, label, place in zip(scores, labels, rank, strict=True):
        order = np.insert(random.permutation(np.delete(np.arange(_CLASSES), label)), place, label)
        row[order] = np.linspace(6, -6, _CLASSES)  # the best class first
    return {"scores": scores, "labels": labels, "ranks": rank}


def pair(reply: Reply) -> tuple[float, float]:
    """Return (top-1, top-5) as the function gave them; raise Missed where it gave no pair of numbers."""
    found = reply.require(FUNCTION)
    if len(found["returned"] or ()) != 2:
        raise Missed("a pair of numbers, (top-1, top-5)", found["kind"], "return both, top-1 first")
    return tuple(found["returned"])


def in_percent(rates: tuple[float, float]) -> tuple[float, float]:
    """Return rates in percent: that fractions came is a point of its own."""
    return rates if max(rates) > 1 else (100 * rates[0], 100 * rates[1])


def _asked(case: Case, given: dict[str, np.ndarray], number: int, **how: Any) -> Reply:
    return case.call(evaluate_known, scores=given["scores"], labels=given["labels"], num_samples=number, **how)


def _exact(reply: Reply, ranks: np.ndarray, what: str, advice: str, names: tuple[str, ...] = ("top-1", "top-5")) -> str:
    """Return evidence that rates are those of the images' ranks."""
    found = dict(zip(("top-1", "top-5"), in_percent(pair(reply)), strict=True))
    right = {"top-1": 100 * float((ranks < 1).mean()), "top-5": 100 * float((ranks < 5).mean())}
    for name in names:
        if not abs(found[name] - right[name]) <= _EXACT:
            raise Missed(f"{name} {right[name]:.2f} % {what}", f"{found[name]:.2f} %", advice)
    return ", ".join(f"{name} {right[name]:.2f} %" for name in names) + f" {what}"


@LOOP.point("accuracy.top1", 1.5, "Top-1 is exact on known answers")
def top1(case: Case) -> str:
    given = known(case, "accuracy.top1", {0: 23, 1: 4, 3: 3, 5: 6, 8: 4})
    advice = "compare the class of each row's highest score with the label"
    return _exact(_asked(case, given, 40), given["ranks"], "on 40 images", advice, ("top-1",))


@LOOP.point("accuracy.top5", 1.5, "Top-5 is exact on known answers")
def top5(case: Case) -> str:
    given = known(case, "accuracy.top5", {0: 9, 1: 5, 4: 7, 5: 6, 7: 5})
    advice = "an image counts where its label is among the five classes of the highest scores"
    return _exact(_asked(case, given, 32), given["ranks"], "on 32 images", advice, ("top-5",))


@LOOP.point("accuracy.percent", 1, "Percent: always right is (100, 100), never right is (0, 0)")
def percent(case: Case) -> str:
    for rank, right, how in ((0, 100, "always"), (7, 0, "never")):
        rates = pair(_asked(case, known(case, f"accuracy.percent.{rank}", {rank: 24}), 24))
        if not max(abs(rate - right) for rate in rates) <= _EXACT:
            said = f"({rates[0]:g}, {rates[1]:g})"
            raise Missed(f"({right}, {right}) for a model that is {how} right", said, "return 100 times the fraction")
    return "(100, 100) and (0, 0)"


@LOOP.point("accuracy.ragged", 1.5, "A smaller last batch counts for what it holds")
def ragged(case: Case) -> str:
    said, advice = [], "count right images and images over all batches, and divide once at the end"
    for number, as_list in ((37, False), (33, True)):  # the second ends with a batch of one image
        given = known(case, f"accuracy.ragged.{number}", {0: number - 12, 2: 5, 6: 7})
        reply = _asked(case, given, number, as_list=as_list)
        said.append(_exact(reply, given["ranks"], f"on {number} images in batches of {_BATCH}", advice))
    return "; ".join(said)


@LOOP.point("accuracy.num_samples", 1.5, "Exactly the first num_samples images count")
def num_samples(case: Case) -> str:
    said, given = [], known(case, "accuracy.samples", {0: 27, 2: 10, 6: 23})
    advice = "cut the batch in which the number is reached; where there are fewer images, divide by those"
    for wanted in (35, 40, 100):  # inside a batch, at the end of one, and more than the loader has
        what = f"with num_samples={wanted}, batches of {_BATCH} and {len(given['labels'])} images"
        said.append(_exact(_asked(case, given, wanted), given["ranks"][:wanted], what, advice))
    if _asked(case, given, 40, fails_on=13).error is None:
        found = "an accuracy without that batch"
        raise Missed("the error of a model that fails on a batch", found, "let the model's error through")
    return "; ".join(said)


@LOOP.point("accuracy.models", 1, "The model gets NumPy, and may answer in torch")
def models(case: Case) -> str:
    given = known(case, "accuracy.models", {0: 16, 3: 7, 7: 1})
    reply = _asked(case, given, 24, as_tensor=True)
    said = _exact(reply, given["ranks"], "for a model that answers with torch tensors", "accept both kinds of scores")
    for wrong in reply.value["wrong_inputs"]:
        expected = "the model to be given float32 NumPy arrays [N, 3, H, W]"
        raise Missed(expected, wrong, "convert the loader's tensors before you call the model")
    return said


def table(case: Case) -> dict[str, dict[str, float]]:
    """Return accuracy.json's rows by name; raise Missed where they are not as the notebook writes them."""
    advice = "run the cell that evaluates the engines, then the one that writes the table"
    content, rows = rows_of(case, ARTIFACT, ("top1", "top5"), advice)
    if content.get("num_samples") != VALIDATION_IMAGES or (lacking := [name for name in NAMES if name not in rows]):
        said = (
            f"{content.get('num_samples')} images"
            if content.get("num_samples") != VALIDATION_IMAGES
            else f"no {lacking[0]}"
        )
        raise Missed(f"rows {', '.join(NAMES)} on {VALIDATION_IMAGES} images", said, advice)
    return rows


@RESULTS.point("accuracy.file", 1, "accuracy.json holds four rows in percent")
def file(case: Case) -> str:
    rows = table(case)
    for name, row in rows.items():
        if not 0 <= row["top1"] <= row["top5"] <= 100 or row["top5"] <= 1:
            said = f"top-1 {row['top1']:g}, top-5 {row['top5']:g}"
            raise Missed(f"{name}: percentages, top-5 not below top-1", said, f"look at what {FUNCTION} returns")
    return f"top-1 on {VALIDATION_IMAGES} images: " + ", ".join(
        f"{name} {row['top1']:.1f} %" for name, row in rows.items()
    )


def loss_within(name: str, loss: float, said: str) -> str:
    """Return evidence that the engine `name` loses less than its limit, `loss` in points of top-1."""
    if loss >= LOSS[name]:
        raise Missed(
            f"a loss under {LOSS[name]} points against FP32", said, "look at what made this engine, in its step"
        )
    return f"loss {said}"


def _loss_point(name: str) -> Point:
    @RESULTS.point(f"accuracy.{name}_loss", 1, f"{name.upper()} loses less than {LOSS[name]} points of top-1")
    def loss(case: Case) -> str:
        rows = table(case)
        lost = rows["fp32"]["top1"] - rows[name]["top1"]
        one_image = 100 / VALIDATION_IMAGES  # on a quick run's few images, one more or less must not decide
        return loss_within(name, lost - one_image * QUICK, f"{lost:+.2f} points")

    return loss


LOSSES = {name: _loss_point(name) for name in LOSS}
