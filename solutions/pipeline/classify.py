"""Classified images: the most probable classes of each, with names where the engine's record has them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from helpers.errors import InputError
from helpers.files import read_json
from solutions.pipeline.inference import InferenceEngine
from solutions.pipeline.preprocessing import preprocess
from solutions.pipeline.tensors import check_finite

__all__ = ["Classified", "classify", "names_of", "softmax"]


@dataclass(frozen=True)
class Classified:
    """An image and its classes as (name, probability in percent), the most probable first."""

    path: Path
    classes: list[tuple[str, float]]


def classify(
    engine: InferenceEngine, paths: Sequence[Path], batch_size: int, topk: int, skip_unreadable: bool = False
) -> tuple[list[Classified], list[str]]:
    """Classify images batch by batch; returns them, and why others were skipped.

    Raises:
        InputError: an image cannot be decoded (with `skip_unreadable`: none can), or the engine takes no square RGB
            images.
    """
    channels, height, width = _image_shape(engine)
    if channels != 3 or height != width:
        raise InputError(f"engine {engine.name} takes {list(engine.sample_shape)}, no square RGB images")
    found: list[Classified] = []
    skipped: list[str] = []
    for start in range(0, len(paths), batch_size):
        images, kept = _readable(paths[start : start + batch_size], height, skipped if skip_unreadable else None)
        if kept:
            probabilities = softmax(engine.predict(np.stack(images)))
            names = names_of(engine, probabilities.shape[1])
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
    try:
        names = json.loads(read_json(f"{engine.path}.json")["metadata"]["classes"])
    except (InputError, KeyError, TypeError, ValueError):
        names = []
    known = isinstance(names, list) and len(names) == number
    return [str(name) for name in names] if known else [f"class {index}" for index in range(number)]


def _image_shape(engine: InferenceEngine) -> tuple[int, int, int]:
    if len(engine.sample_shape) != 3 or len(engine.output_shape) != 1:
        shapes = f"{list(engine.sample_shape)} to {list(engine.output_shape)}"
        raise InputError(f"engine {engine.name} maps {shapes}; it is no image classifier")
    return engine.sample_shape


def _readable(paths: Sequence[Path], size: int, skipped: list[str] | None) -> tuple[list[np.ndarray], list[Path]]:
    images, kept = [], []
    for path in paths:
        try:
            images.append(preprocess(path, size))
            kept.append(path)
        except InputError as error:
            if skipped is None:
                raise InputError(f"{error} (--skip-unreadable goes on without it)") from error
            skipped.append(str(error))
    return images, kept


def _best(probabilities: np.ndarray, names: list[str], topk: int) -> list[tuple[str, float]]:
    order = np.argsort(-probabilities, kind="stable")[:topk]
    return [(names[index], 100 * float(probabilities[index])) for index in order]
