"""Tells by their values which tensors of two ONNX files of one model are the same, whatever an exporter calls them."""

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.probes.onnx_files import tensor_magnitudes

_ALIKE = 1e-3
"""Two exports compute a tensor in another order; its mean magnitude and its norm then differ by 1e-5 or so."""

Scales = Mapping[str, float]


def scale_differences(found: tuple[Scales, bytes], expected: tuple[Scales, bytes], images: np.ndarray) -> np.ndarray:
    """Return |ln(scale / expected scale)| of every expected tensor that both files compute, not its name, tells.

    Args:
        found, expected: scales by tensor, and the ONNX file whose tensors these are.
        images: float32 [N, 3, 224, 224], on which tensors are compared; a few will do.

    Raises:
        Missed: fewer than half of the expected tensors have a scale.
    """
    (scales, model), (wanted, other) = found, expected
    own, theirs = _signatures(model, tuple(sorted(scales)), images), _signatures(other, tuple(sorted(wanted)), images)
    pairs = [(name, _same(signature, own)) for name, signature in theirs.items()]
    matched = [(name, same) for name, same in pairs if same is not None and scales[same] > 0]
    if len(matched) < len(theirs) / 2:
        said = f"scales for {len(matched)} of {len(theirs)} of the network's tensors"
        advice = "the cache and resnet50_simplified.onnx belong together: calibrate again"
        raise Missed("the scales of the lab's model in the calibration cache", said, advice)
    return np.array([abs(np.log(scales[same] / wanted[name])) for name, same in matched])


def _same(signature: np.ndarray, others: Mapping[str, np.ndarray]) -> str | None:
    """Return the tensor whose signature is the nearest, None where none is alike."""
    nearest = min(others, key=lambda name: _distance(others[name], signature), default=None)
    return nearest if nearest is not None and _distance(others[nearest], signature) < _ALIKE else None


def _distance(signature: np.ndarray, other: np.ndarray) -> float:
    return float(np.max(np.abs(signature - other) / np.maximum(np.abs(other), 1e-12)))


def _signatures(model: bytes, names: tuple[str, ...], images: np.ndarray) -> dict[str, np.ndarray]:
    """Return of each tensor of `names` that the file computes: its size, mean magnitude, norm and largest magnitude."""
    return _computed(model, names, images.tobytes(), images.shape)


@lru_cache(maxsize=4)
def _computed(model: bytes, names: tuple[str, ...], pixels: bytes, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    return tensor_magnitudes(model, list(names), np.frombuffer(pixels, np.float32).reshape(shape))
