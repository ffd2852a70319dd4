"""The accuracy of engine files: which one is the reference, and all of them over one pass through the images."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from helpers.data.image_folders import DataSet
from helpers.tools.files import read_json
from trtcpu.errors import InputError
from trtlab.engines.inference import InferenceEngine
from trtlab.images.preprocessing import Preprocessing
from trtlab.images.preprocessing_record import NOTHING, Asked, common
from trtlab.models.class_names import ClassNames, fit_labels, names_beside, number_of_classes
from trtlab.quality.accuracy import Accuracy, accuracy_loss, evaluate_all


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
    """Return the data set with the labels of the engines' outputs."""
    known = {path: classes or names_beside(path) for path in engines}
    first = next((names for names in known.values() if names), None)
    for path, engine in engines.items():
        if known[path] and known[path].names != first.names:
            raise InputError(f"{first.source} and {known[path].source} name their classes differently; give --classes")
        outputs = number_of_classes(engine.output_shape, engine.name)
        fitted = fit_labels(data, outputs, first, engine.name)
    return fitted


def accuracy_rows(scores: Mapping[str, Accuracy]) -> list[dict[str, Any]]:
    """Return one row an engine, each with its loss against the first, which is the baseline.

    Accuracies are percent, losses points with their 95 % interval (paired); `changed` counts the images on which
    exactly one of the two is right.
    """
    reference, *_ = scores.values()
    rows = []
    for name, found in scores.items():
        against = dict.fromkeys(("loss", "loss_low", "loss_high", "changed"))
        if found is not reference:
            loss = accuracy_loss(reference, found)
            changed = int(np.sum(reference.correct != found.correct))
            against = {"loss": loss.points, "loss_low": loss.low, "loss_high": loss.high, "changed": changed}
        rows.append({"name": name, **found.to_dict(), **against})
    return rows


def reference_of(paths: Sequence[Path]) -> Path:
    """Return the first engine whose record says fp32, else the first engine."""
    return next((path for path in paths if _precision(path) == "fp32"), paths[0])


def _precision(path: Path) -> str | None:
    try:
        return read_json(f"{path}.json")["precision"]
    except (InputError, KeyError, TypeError):
        return None
