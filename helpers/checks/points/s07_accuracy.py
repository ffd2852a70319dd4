"""Step 7, evaluate_accuracy(model, val_loader, num_samples=1000): top-1, top-5, and the loss of the fast engines."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypedDict

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.files import rows_of
from helpers.checks.points.pure import agree, plain
from helpers.checks.points.task import Task, told
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.student import Reply
from helpers.course.settings import NAMES, QUICK, VALIDATION_IMAGES

FUNCTION, ARTIFACT = "evaluate_accuracy", "accuracy.json"

LOSS = {"fp16": 0.5, "int8": 1.5}
"""An engine must lose fewer points of top-1 than this against the FP32 engine."""

PROMISES = (
    "(model, val_loader, num_samples=1000)",
    f"FP16 may lose less than {LOSS['fp16']} points of top-1 against the FP32 engine, INT8 less than {LOSS['int8']}",
)
"""Figures in the notebook's text."""

_CLASSES, _BATCH, _EDGE = 10, 8, 32
_EXACT = 6e-3
"""Percentage points: a rate may be rounded to two decimals."""

LOOP = Task(FUNCTION, FUNCTION, "check_accuracy", (FUNCTION,))
RESULTS = Task("accuracy_results", ARTIFACT, "check_accuracy_results")
TASKS = (LOOP, RESULTS)


class Rates(TypedDict):
    """The numbers that the function returned, and the inputs that its model got."""

    returned: list[float]
    inputs: list[str]


class _KnownModel:
    """A model that returns row i of `scores` [M, classes] for image i, whose first pixel is i."""

    def __init__(self, scores: np.ndarray, as_tensor: bool) -> None:
        self._scores, self._as_tensor = scores, as_tensor
        self.inputs: set[str] = set()

    def __call__(self, images: Any) -> Any:
        self.inputs.add(f"{type(images).__name__} of {images.dtype} with {images.ndim} axes")
        if not len(images):
            raise ValueError("a batch of 0 images, which no engine takes")
        found = self._scores[np.asarray(images)[:, 0, 0, 0].astype(int)]
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
) -> Rates:
    """Evaluate a model that returns row i of `scores` for image i; `as_list` passes a list, no DataLoader."""
    images = torch.zeros(len(labels), 3, _EDGE, _EDGE)
    images[:, 0, 0, 0] = torch.arange(len(labels))
    loader = DataLoader(TensorDataset(images, torch.from_numpy(labels)), batch_size=_BATCH)
    model = _KnownModel(scores.astype(np.float32), as_tensor)
    returned = notebook[FUNCTION](model, list(loader) if as_list else loader, num_samples)
    rates = [float(plain(rate) + 0.0) for rate in returned]  # a string raises here
    return {"returned": rates, "inputs": sorted(model.inputs)}


def known(case: Case, purpose: str, ranks: Mapping[int, int]) -> dict[str, np.ndarray]:
    """Return scores, labels and ranks; `ranks` gives the number of images by how many classes beat their label."""
    random = case.random(purpose)
    rank = random.permutation(np.repeat(list(ranks), list(ranks.values())))
    labels = random.integers(_CLASSES, size=len(rank))
    scores = np.empty((len(rank), _CLASSES), np.float32)
    for row, label, place in zip(scores, labels, rank, strict=True):
        order = np.insert(random.permutation(np.delete(np.arange(_CLASSES), label)), place, label)
        row[order] = np.linspace(6, -6, _CLASSES)  # the best class first
    return {"scores": scores, "labels": labels, "ranks": rank}


def pair(reply: Reply) -> list[float]:
    """Return [top-1, top-5] as the function returned them; raise Missed if it returned something else."""
    found = reply.require(FUNCTION)["returned"]
    if len(found) != 2:
        raise Missed("a pair of numbers, (top-1, top-5)", f"{len(found)} numbers", "return both, top-1 first")
    return found


def in_percent(rates: Sequence[float]) -> list[float]:
    """Return rates in percent. Fractions are converted: they lose only `accuracy.percent`."""
    return [rate if max(rates) > 1 else 100 * rate for rate in rates]


def _asked(case: Case, given: dict[str, np.ndarray], number: int, **how: Any) -> Reply:
    return case.call(evaluate_known, scores=given["scores"], labels=given["labels"], num_samples=number, **how)


_LAST_PLACE = {"top-1": 1, "top-5": 5}


def _exact(reply: Reply, ranks: np.ndarray, what: str, advice: str, names: Sequence[str] = tuple(_LAST_PLACE)) -> str:
    """Return evidence that the rates fit the images' ranks."""
    found = dict(zip(_LAST_PLACE, in_percent(pair(reply)), strict=True))
    right = {name: 100 * float((ranks < _LAST_PLACE[name]).mean()) for name in names}
    agree(found, right, f"{FUNCTION} {what}", advice, rtol=0, atol=_EXACT)
    return ", ".join(f"{name} {rate:.2f} %" for name, rate in right.items()) + f" {what}"


@LOOP.point("accuracy.top1", 1.5, "Top-1 is exact on known answers")
def top1(case: Case) -> str:
    given = known(case, "accuracy.top1", {0: 23, 1: 4, 3: 3, 5: 6, 8: 4})
    advice = "compare the class of each row's highest score with the label"
    return _exact(_asked(case, given, 40), given["ranks"], "on 40 images", advice, ("top-1",))


@LOOP.point("accuracy.top5", 1.5, "Top-5 is exact on known answers")
def top5(case: Case) -> str:
    advice, said = "count an image if its label is among the classes of the five highest scores", []
    for ranks in ({0: 9, 1: 5, 4: 7, 5: 6, 7: 5}, {2: 3, 4: 2, 5: 15, 9: 12}):  # many hits, and few
        given = known(case, f"accuracy.top5.{len(ranks)}", ranks)
        said.append(_exact(_asked(case, given, 32), given["ranks"], "on 32 images", advice, ("top-5",)))
    return "; ".join(said)


def _sound(case: Case) -> list[str]:
    """Return the rates that are right on known answers, or both: one that is wrong has lost a point of its own."""
    points = {"top-1": top1, "top-5": top5}
    return [name for name, point in points.items() if told(partial(point, case)).share] or list(points)


@LOOP.point("accuracy.percent", 1, "In percent: (100, 100) if always right, (0, 0) if never")
def percent(case: Case) -> str:
    for rank, right, how in ((0, 100, "always"), (7, 0, "never")):
        found = pair(_asked(case, known(case, f"accuracy.percent.{rank}", {rank: 24}), 24))
        rates = dict(zip(_LAST_PLACE, found, strict=True)), dict.fromkeys(_sound(case), right)
        agree(*rates, f"a model that is {how} right", "return 100 times the fraction", atol=_EXACT)
    return "(100, 100) and (0, 0)"


@LOOP.point("accuracy.ragged", 2, "A smaller last batch counts by its number of images")
def ragged(case: Case) -> str:
    given = known(case, "accuracy.ragged", {0: 21, 2: 5, 6: 7})  # the last batch has one image
    advice = "count correct and all images over all batches, and divide once at the end"
    reply = _asked(case, given, 33, as_list=True)
    return _exact(reply, given["ranks"], f"on a list of batches of {_BATCH}, 33 images in all", advice, _sound(case))


@LOOP.point("accuracy.num_samples", 2, "Exactly the first num_samples images count")
def num_samples(case: Case) -> str:
    said, given = [], known(case, "accuracy.samples", {0: 27, 2: 10, 6: 23})
    advice = "cut the batch that reaches num_samples; if there are fewer images, divide by their number"
    for wanted in (35, 40, 100):  # inside a batch, at the end of one, and more than the loader has
        what = f"with num_samples={wanted}, batches of {_BATCH} and {len(given['labels'])} images"
        said.append(_exact(_asked(case, given, wanted), given["ranks"][:wanted], what, advice, _sound(case)))
    return "; ".join(said)


@LOOP.point("accuracy.models", 1, "The model gets NumPy arrays, and may return torch tensors")
def models(case: Case) -> str:
    given, advice = known(case, "accuracy.models", {0: 16, 3: 7, 7: 1}), "accept scores as torch tensors, too"
    reply = _asked(case, given, 24, as_tensor=True)
    said = _exact(reply, given["ranks"], "for a model that returns torch tensors", advice, _sound(case))
    advice = "convert the loader's tensors to NumPy before you call the model"
    found = {"input": " or ".join(reply.value["inputs"])}
    agree(found, {"input": "ndarray of float32 with 4 axes"}, "the model", advice)
    return said


def table(case: Case) -> dict[str, dict[str, float]]:
    """Return accuracy.json's rows by name; raise Missed if they are not as the notebook writes them."""
    advice = "run the cell that evaluates the engines, then the one that writes the table"
    content, rows = rows_of(case, ARTIFACT, ("top1", "top5"), advice)
    found = {"num_samples": content.get("num_samples"), "names": [name for name in NAMES if name in rows]}
    agree(found, {"num_samples": VALIDATION_IMAGES, "names": NAMES}, ARTIFACT, advice)
    return rows


@RESULTS.point("accuracy.file", 1, "accuracy.json holds four rows in percent")
def file(case: Case) -> str:
    rows = table(case)
    for name, row in rows.items():
        if not 0 <= row["top1"] <= row["top5"] <= 100 or row["top5"] <= 1:
            said = f"top-1 {row['top1']:g}, top-5 {row['top5']:g}"
            raise Missed(f"{name}: percentages, top-5 not below top-1", said, f"check what {FUNCTION} returns")
    return "; ".join(f"{name} {row['top1']:.1f} %" for name, row in rows.items())


def loss_within(name: str, loss: float, said: str) -> str:
    """Return evidence that the engine `name` loses less top-1 than its limit; `loss` is in points."""
    if loss >= LOSS[name]:
        advice = "check how its step built this engine"
        raise Missed(f"a loss under {LOSS[name]} points against FP32", said, advice)
    return f"loss {said}"


def _loss(name: str, case: Case) -> str:
    rows = table(case)
    lost = rows["fp32"]["top1"] - rows[name]["top1"]
    one_image = 100 / VALIDATION_IMAGES  # in a quick run with few images, one more or less must not decide
    return loss_within(name, lost - one_image * QUICK, f"{lost:+.2f} points")


LOSSES = {
    name: RESULTS.point(f"accuracy.{name}_loss", 1, f"{name.upper()} loses less than {most} points of top-1")(
        partial(_loss, name)
    )
    for name, most in LOSS.items()
}
