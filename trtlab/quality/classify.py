"""Classified images: the most probable classes of each, with names where the engine's record has them."""

import itertools
from collections.abc import Iterator, Sequence
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

    Args:
        classes: the names of the outputs; by default those in the engine's record, else "class 0", "class 1", …

    Raises:
        InputError: an image cannot be decoded (with `skip_unreadable`: none can), the engine gives no classes, or
            `classes` are not as many as its outputs.
    """
    if len(engine.output_shape) != 1:
        raise InputError(f"engine {engine.name} gives {list(engine.output_shape)} an image; it is no classifier")
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
    outputs = engine.output_shape[0]
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
