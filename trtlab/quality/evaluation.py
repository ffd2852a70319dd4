"""The accuracy of engine files: which one is the reference, and all of them over one pass through the images."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from helpers.checks.probes.loads import loads
from helpers.data.datasets import load_dataset
from helpers.data.image_folders import DataSet
from trtcpu.errors import InputError
from trtlab.engines.inference import InferenceEngine
from trtlab.images.preprocessing import IMAGENET, Preprocessing
from trtlab.images.preprocessing_record import NOTHING, Asked, common
from trtlab.models.class_names import ClassNames, beside, fit_labels, names_beside, number_of_classes
from trtlab.quality.accuracy import Accuracy, Predict, accuracy_loss, evaluate_all, score


def evaluate_engines(
    paths: Sequence[Path],
    data: DataSet,
    num_samples: int,
    batch_size: int,
    report: Callable[[str], None] = lambda text: None,
    asked: Asked = NOTHING,
    classes: ClassNames | None = None,
) -> tuple[dict[Path, Accuracy], Preprocessing, str]:
    """Return each engine's accuracy on the same images, their preprocessing, and a note where that was assumed.

    Args:
        classes: the names of the outputs, where they are not those that the engines' records hold.

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
