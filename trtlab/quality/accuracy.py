"""Top-1 and top-5 on a validation split, and what a faster engine loses, with how sure that is."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers.data.image_folders import DataSet
from trtcpu.errors import InputError
from trtlab.engines.tensors import check_finite
from trtlab.images.preprocessing import IMAGENET, Preprocessing

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
    keeps its coverage where there are few such images.
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
