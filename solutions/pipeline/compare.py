"""How far the outputs of two engines are apart."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from helpers.errors import InputError
from solutions.pipeline.calibration_data import open_tensor
from solutions.pipeline.inference import InferenceEngine

__all__ = ["Drift", "compare_engines", "drift"]


@dataclass(frozen=True)
class Drift:
    """Differences of outputs `b` against outputs `a`.

    `relative` is the norm of the difference over the norm of `a`; `cosine` the mean over the images of the cosine
    between the two output vectors; `top1_agreement_percent` the share of images with the same first class.
    """

    num_samples: int
    max_absolute: float
    mean_absolute: float
    relative: float
    cosine: float
    min_cosine: float
    top1_agreement_percent: float

    def to_dict(self) -> dict[str, Any]:
        """Return the drift as JSON can hold it."""
        return asdict(self)


def drift(a: np.ndarray, b: np.ndarray) -> Drift:
    """Return the drift between outputs [N, C] of the same N images, N at least 1, computed in float64.

    Raises:
        InputError: the shapes differ, or an engine gave values that are not finite.
    """
    if a.shape != b.shape:
        raise InputError(f"the engines give {list(a.shape)} and {list(b.shape)}; compare engines of the same model")
    for name, outputs in (("a", a), ("b", b)):
        if not np.isfinite(outputs).all():
            raise InputError(f"engine {name} gave NaN or infinite outputs; build it at a higher precision")
    a, b = (outputs.reshape(len(outputs), -1).astype(np.float64) for outputs in (a, b))
    difference = np.abs(a - b)
    cosine = _cosine(a, b)
    return Drift(
        num_samples=len(a),
        max_absolute=float(difference.max()),
        mean_absolute=float(difference.mean()),
        relative=float(np.linalg.norm(difference) / max(np.linalg.norm(a), np.finfo(np.float64).tiny)),
        cosine=float(cosine.mean()),
        min_cosine=float(cosine.min()),
        top1_agreement_percent=float((a.argmax(axis=1) == b.argmax(axis=1)).mean() * 100),
    )


def compare_engines(
    a: InferenceEngine, b: InferenceEngine, images_npy: str | Path, *, num_samples: int = 128, batch_size: int = 16
) -> Drift:
    """Run both engines on the first images of a .npy tensor, batch by batch.

    Raises:
        InputError: the engines or the tensor do not fit each other.
    """
    if a.sample_shape != b.sample_shape:
        raise InputError(f"the engines take {list(a.sample_shape)} and {list(b.sample_shape)}; compare the same model")
    if num_samples < 1 or batch_size < 1:
        raise InputError(f"cannot compare on {num_samples} images in batches of {batch_size}; both must be 1 or more")
    images = open_tensor(images_npy, a.sample_shape)[:num_samples]
    if not len(images):
        raise InputError(f"{images_npy} holds no images; make it with trtlab calib-data")
    return drift(_outputs(a, images, batch_size), _outputs(b, images, batch_size))


def _outputs(engine: InferenceEngine, images: np.ndarray, batch_size: int) -> np.ndarray:
    starts = range(0, len(images), batch_size)
    return np.concatenate([engine.predict(np.asarray(images[i : i + batch_size], np.float32)) for i in starts])


def _cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return (a * b).sum(axis=1) / np.maximum(norms, np.finfo(np.float64).tiny)
