"""Classified images: the most probable classes of each, with names where the engine's record has them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trtcpu.errors import InputError
from trtlab.engines.inference import InferenceEngine
from trtlab.engines.tensors import check_finite
from trtlab.images.preprocessing import Preprocessing
from trtlab.models.class_names import ClassNames, names_beside


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

    Raises:
        InputError: an image cannot be decoded (with `skip_unreadable`: none can), the engine gives no classes, or
            `classes` are not as many as its outputs.
    """
    if len(engine.output_shape) != 1:
        shapes = f"{list(engine.sample_shape)} to {list(engine.output_shape)}"
        raise InputError(f"engine {engine.name} maps {shapes}; it is no image classifier")
    if classes:
        classes.check(engine.output_shape[0], engine.name)
    found: list[Classified] = []
    skipped: list[str] = []
    for start in range(0, len(paths), batch_size):
        chosen = paths[start : start + batch_size]
        images, kept = _readable(chosen, preprocessing, skipped if skip_unreadable else None)
        if kept:
            probabilities = softmax(engine.predict(np.stack(images)))
            names = classes.names if classes else names_of(engine, probabilities.shape[1])
            found += [Classified(path, _best(row, names, topk)) for path, row in zip(kept, probabilities, strict=True)]
    if not found:
        raise InputError(f"none of the {len(paths)} images can be read; the first: {skipped[0]}")
    return found, skipped


def softmax(scores: np.ndarray) -> np.ndarray:
    """Return the probabilities [N, C] of scores [N, C]; raises InputError where they are not finite."""
    check_finite(scores, "the engine's output")
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def names_of(engine: InferenceEngine, number: int) -> list[str]:
    """Return the class names that the record beside the engine holds, else "class 0", "class 1", …"""
    found = names_beside(engine.path)
    return found.names if found and len(found.names) == number else [f"class {index}" for index in range(number)]


def _readable(
    paths: Sequence[Path], preprocessing: Preprocessing, skipped: list[str] | None
) -> tuple[list[np.ndarray], list[Path]]:
    images, kept = [], []
    for path in paths:
        try:
            images.append(preprocessing.load(path))
            kept.append(path)
        except InputError as error:
            if skipped is None:
                raise InputError(f"{error} (--skip-unreadable goes on without it)") from error
            skipped.append(str(error))
    return images, kept


def _best(probabilities: np.ndarray, names: list[str], topk: int) -> list[tuple[str, float]]:
    order = np.argsort(-probabilities, kind="stable")[:topk]
    return [(names[index], 100 * float(probabilities[index])) for index in order]
