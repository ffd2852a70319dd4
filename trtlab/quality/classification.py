"""Images through classifiers: their most probable classes, top-1 and top-5, and what a faster engine loses.

A loss comes with how sure it is, and engines are compared on the same images, which are read once.
"""

import contextlib
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from helpers.checks.probes.loads import loads
from helpers.data.datasets import load_dataset
from helpers.data.image_folders import DataSet
from trtcpu.errors import InputError
from trtlab.engines.inference import InferenceEngine
from trtlab.engines.tensors import check_finite
from trtlab.images.preprocessing import IMAGENET, Preprocessing
from trtlab.images.preprocessing_record import NOTHING, Asked, common
from trtlab.models.class_names import ClassNames, beside, fit_labels, names_beside, number_of_classes

# Maps images [N, channels, height, width] to scores [N, classes].
Predict = Callable[[np.ndarray], np.ndarray]

_Z95 = 1.959963984540054


@dataclass(frozen=True)
class Accuracy:
    """Top-1 and top-5 in percent; `correct` [num_samples] says for which images the first class was right."""

    top1: float
    top5: float
    num_samples: int
    correct: np.ndarray

    def to_dict(self) -> dict[str, Any]:
        """Return the figures without the per-image array."""
        return {"top1": self.top1, "top5": self.top5, "num_samples": self.num_samples}


@dataclass(frozen=True)
class AccuracyLoss:
    """Loss of top-1 in percentage points (positive: worse than the reference), with its 95 % confidence interval."""

    points: float
    low: float
    high: float


def evaluate_all(
    predictors: Mapping[Any, Predict],
    data: DataSet,
    num_samples: int,
    batch_size: int = 8,
    preprocessing: Preprocessing = IMAGENET,
    progress: Callable[[int], None] = lambda done: None,
    limit_s: float | None = None,
) -> dict[Any, Accuracy]:
    """Return each predictor's accuracy on the same validation images, which are read and preprocessed once.

    Args:
        predictors: by the name that an error gives them.
        progress: called with the number of images done, after each batch.
        limit_s: seconds after which no batch is begun; the images are in an order that mixes the classes.

    Raises:
        InputError: an engine with fewer outputs than the data has classes, or whose outputs are NaN.
    """
    images = data.images("validation", limit=num_samples)
    labels = np.array([label for _, label in images])
    ranks: dict[Any, list[np.ndarray]] = {name: [] for name in predictors}
    began = time.perf_counter()
    for start in range(0, len(images), batch_size):
        if start and limit_s is not None and time.perf_counter() - began > limit_s:
            break
        batch = preprocessing.load_batch([path for path, _ in images[start : start + batch_size]])
        for name, predict in predictors.items():
            ranks[name].append(_ranks(predict(batch), labels[start : start + batch_size], name))
        progress(start + len(batch))
    return {name: _accuracy(np.concatenate(found)) for name, found in ranks.items()}


def score(outputs: np.ndarray, labels: np.ndarray, name: str = "the model") -> Accuracy:
    """Return the accuracy of scores [N, C] against labels [N].

    Raises:
        InputError: scores that do not fit the labels, or are NaN; it calls the model `name`.
    """
    return _accuracy(_ranks(outputs, labels, name))


def accuracy_loss(reference: Accuracy, other: Accuracy) -> AccuracyLoss:
    """Return how many points of top-1 `other` loses against `reference` on the same images.

    The images on which exactly one of the two is right carry all the information. The interval is Bonett and Price's
    adjusted Wald interval for paired proportions (Journal of Educational and Behavioral Statistics 37, 2012), which
    keeps its coverage if there are few such images.
    """
    number = len(reference.correct)
    lost = int(np.sum(reference.correct & ~other.correct))
    gained = int(np.sum(other.correct & ~reference.correct))
    p_lost, p_gained = (lost + 1) / (number + 2), (gained + 1) / (number + 2)
    centre = p_lost - p_gained
    half = _Z95 * math.sqrt((p_lost + p_gained - centre**2) / (number + 2))
    return AccuracyLoss(
        points=100 * (lost - gained) / number,
        low=100 * max(-1.0, centre - half),
        high=100 * min(1.0, centre + half),
    )


def _ranks(outputs: np.ndarray, labels: np.ndarray, name: object) -> np.ndarray:
    """Return how many classes score above the right one, [N]; a tie counts as topk does: the lower index first."""
    if outputs.ndim != 2 or labels.max(initial=0) >= outputs.shape[1]:
        raise InputError(
            f"{name} gives outputs of shape {list(outputs.shape)}, but labels go up to {labels.max()}; "
            "choose the --data that the model was trained on"
        )
    check_finite(outputs, f"the output of {name}")
    own = outputs[np.arange(len(labels)), labels][:, None]
    earlier = np.arange(outputs.shape[1]) < labels[:, None]
    return ((outputs > own) | ((outputs == own) & earlier)).sum(axis=1)


def _accuracy(ranks: np.ndarray) -> Accuracy:
    return Accuracy(100 * float((ranks < 1).mean()), 100 * float((ranks < 5).mean()), len(ranks), ranks < 1)


def evaluate_engines(
    paths: Sequence[Path],
    data: DataSet,
    num_samples: int,
    batch_size: int,
    report: Callable[[str], None] = lambda text: None,
    asked: Asked = NOTHING,
    classes: ClassNames | None = None,
) -> tuple[dict[Path, Accuracy], Preprocessing, str]:
    """Return each engine's accuracy on the same images, their preprocessing, and a note if that was assumed.

    Args:
        classes: the names of the outputs, if they are not those that the engines' records hold.

    Raises:
        InputError: an engine cannot be loaded, the engines take images that are preprocessed differently, or labels
            cannot match.
    """
    with contextlib.ExitStack() as stack:
        engines = {path: stack.enter_context(InferenceEngine(path)) for path in paths}
        preprocessing, note = common(list(engines.values()), asked)
        found = evaluate_all(
            {path: engine.predict for path, engine in engines.items()},
            _labels_of_all(engines, data, classes),
            num_samples,
            batch_size,
            preprocessing,
            lambda done: report(f"evaluating: {done} images"),
        )
    return found, preprocessing, note


def _labels_of_all(engines: dict[Path, InferenceEngine], data: DataSet, classes: ClassNames | None) -> DataSet:
    known = {path: classes or names_beside(path) for path in engines}
    first = next((names for names in known.values() if names), None)
    for path, engine in engines.items():
        if known[path] and known[path].names != first.names:
            raise InputError(f"{first.source} and {known[path].source} name their classes differently; give --classes")
        fitted = fit_labels(data, number_of_classes(engine.output_shape, engine.name), first, engine.name)
    return fitted


def accuracy_rows(scores: Mapping[str, Accuracy]) -> list[dict[str, Any]]:
    """Return one row an engine, each with its loss against the first, which is the baseline.

    Accuracies are percent, losses points with their 95 % interval (paired); `changed` counts the images on which
    exactly one of the two is right.
    """
    reference, *_ = scores.values()
    rows = []
    for name, found in scores.items():
        loss = accuracy_loss(reference, found)
        changed = int(np.sum(reference.correct != found.correct))
        against = {"loss": loss.points, "loss_low": loss.low, "loss_high": loss.high, "changed": changed}
        rows.append({"name": name, **found.to_dict(), **(dict.fromkeys(against) if found is reference else against)})
    return rows


def reference_of(paths: Sequence[Path]) -> Path:
    """Return the first engine whose record says fp32, else the first engine."""
    return next((path for path in paths if beside(path).get("precision") == "fp32"), paths[0])


def scores(predict: Predict, data: str, number: int, batch: int) -> np.ndarray:
    """Return the scores [N, classes] of the first `number` validation images, predicted in batches.

    Raises:
        InputError: as `score`.
    """
    paths, labels = zip(*load_dataset(data, progress=False).images("validation", limit=number), strict=True)
    found = np.concatenate([predict(images) for images in IMAGENET.batches(paths, batch)])
    score(found, np.array(labels))
    return found


@loads(seconds=1800)
def plan_scores(plan: bytes, data: str, number: int, batch: int) -> np.ndarray:
    """Return the plan's scores [N, classes] of the first `number` images; runs where strangers' files are loaded.

    Raises:
        LabError: it cannot be loaded or run, or gives no scores of the data's classes.
    """
    with InferenceEngine(plan) as engine:
        return scores(engine.predict, data, number, batch)


@dataclass(frozen=True)
class Classified:
    """An image and its classes as (name, probability in percent), the most probable first."""

    path: Path
    classes: list[tuple[str, float]]


def classify(
    engine: InferenceEngine,
    paths: Sequence[Path],
    batch_size: int,
    topk: int,
    preprocessing: Preprocessing,
    skip_unreadable: bool = False,
    classes: ClassNames | None = None,
) -> tuple[list[Classified], list[str]]:
    """Classify images batch by batch; returns them, and why others were skipped.

    Args:
        classes: the names of the outputs; by default those in the engine's record, else "class 0", "class 1", …

    Raises:
        InputError: an image cannot be decoded (with `skip_unreadable`: none can), the engine gives no classes, or
            `classes` are not as many as its outputs.
    """
    names = _names(engine, classes)
    found: list[Classified] = []
    skipped: list[str] = []
    readable = _readable(paths, preprocessing, skipped if skip_unreadable else None)
    while images := dict(itertools.islice(readable, batch_size)):
        scores = engine.predict(np.stack([*images.values()]))
        check_finite(scores, "the engine's output")
        found += [Classified(path, _best(row, names, topk)) for path, row in zip(images, scores, strict=True)]
    if not found:
        raise InputError(f"none of the {len(paths)} images can be read; the first: {skipped[0]}")
    return found, skipped


def _names(engine: InferenceEngine, classes: ClassNames | None) -> list[str]:
    outputs = number_of_classes(engine.output_shape, engine.name)
    if classes:
        classes.check(outputs, engine.name)
    known = classes or names_beside(engine.path)
    return known.names if known and len(known.names) == outputs else [f"class {index}" for index in range(outputs)]


def _readable(
    paths: Sequence[Path], preprocessing: Preprocessing, skipped: list[str] | None
) -> Iterator[tuple[Path, np.ndarray]]:
    """Yield the images with their paths; why one cannot be read goes into `skipped`, without which it is an error."""
    for path in paths:
        try:
            yield path, preprocessing.load(path)
        except InputError as error:
            if skipped is None:
                raise InputError(f"{error} (--skip-unreadable goes on without it)") from error
            skipped.append(str(error))


def _best(scores: np.ndarray, names: list[str], topk: int) -> list[tuple[str, float]]:
    """Return the most probable classes of one image by the softmax of its scores [C]."""
    raised = np.exp(scores - scores.max())
    order = np.argsort(-scores, kind="stable")[:topk]
    return [(names[index], 100 * float(raised[index] / raised.sum())) for index in order]
