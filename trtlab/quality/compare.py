"""How far the outputs of two engines are apart."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trtcpu.errors import InputError
from trtlab.building.calibration_data import open_inputs
from trtlab.engines.inference import InferenceEngine
from trtlab.engines.tensors import check_finite, count, examples, taken, volume

UNEXPLAINED = 0.1
"""A relative difference that no precision explains."""
_MOST_NOISE = 2**30
"""Elements of the noise that engines are compared on if there are no data."""


@dataclass(frozen=True)
class Drift:
    """Differences of outputs `b` against outputs `a`.

    `relative` is the norm of the difference over the norm of `a`; `saturated_percent` the share of values where `b` is
    at its largest or smallest and `a` lies beyond that, as where INT8 clips; `cosine` the mean over the images of the
    cosine between the two output vectors; `top1_agreement_percent` the share of images with the same first class, None
    if the outputs are not [N, C] with C above 1.
    """

    num_samples: int
    relative: float
    saturated_percent: float
    max_absolute: float
    mean_absolute: float
    cosine: float
    min_cosine: float
    top1_agreement_percent: float | None


def drift(a: np.ndarray, b: np.ndarray, names: tuple[str, str] = ("the output of a", "the output of b")) -> Drift:
    """Return the drift between outputs [N, …] of the same N samples, N at least 1, computed in float64.

    `names` are what an error calls them.

    Raises:
        InputError: the shapes differ, or an engine gave values that are not finite.
    """
    if a.shape != b.shape:
        raise InputError(f"the engines give {list(a.shape)} and {list(b.shape)}; compare engines of the same model")
    for name, outputs in zip(names, (a, b), strict=True):
        check_finite(outputs, name)
    classes = a.ndim == 2 and a.shape[1] > 1
    a, b = (outputs.reshape(len(outputs), -1).astype(np.float64) for outputs in (a, b))
    tiny = np.finfo(np.float64).tiny
    difference = np.abs(a - b)
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    cosine = np.where((a == b).all(axis=1), 1.0, (a * b).sum(axis=1) / np.maximum(norms, tiny))  # also of two zeros
    return Drift(
        num_samples=len(a),
        relative=float(np.linalg.norm(difference) / max(np.linalg.norm(a), tiny)),
        saturated_percent=float((((b == b.max()) & (a > b)) | ((b == b.min()) & (a < b))).mean() * 100),
        max_absolute=float(difference.max()),
        mean_absolute=float(difference.mean()),
        cosine=float(cosine.mean()),
        min_cosine=float(cosine.min()),
        top1_agreement_percent=float((a.argmax(axis=1) == b.argmax(axis=1)).mean() * 100) if classes else None,
    )


def compare_engines(
    a: InferenceEngine,
    b: InferenceEngine,
    data: str | Path | None = None,
    *,
    num_samples: int = 128,
    batch_size: int = 16,
) -> dict[str, Drift]:
    """Return each output's drift on the first samples of a .npy tensor, or of an .npz of named inputs.

    Without data, on seeded noise: integers below the number of rows that they look up in.

    Raises:
        InputError: the engines or the data do not fit each other.
    """
    for does, of_a, of_b in (("take", _inputs(a), _inputs(b)), ("give", a.output_names, b.output_names)):
        if of_a != of_b:
            raise InputError(f"the engines {does} {of_a} and {of_b}; compare the same model")
    samples = _noise(a, num_samples) if data is None else open_inputs(data, a.inputs)
    samples = taken(samples, a.inputs, 0, num_samples)
    if not count(samples, a.inputs):
        raise InputError(f"{data} holds no images; make it with trtlab calib-data")
    for name, array in samples.items():
        check_finite(array, f"{name} of {data}", "make it again with trtlab calib-data")
    of_a, of_b = (_outputs(engine, samples, batch_size) for engine in (a, b))
    return {
        name: drift(of_a[name], of_b[name], (f"output {name} of {a.name}", f"output {name} of {b.name}"))
        for name in a.output_names
    }


def _noise(engine: InferenceEngine, number: int) -> dict[str, np.ndarray]:
    sample = sum(volume(spec.best[1:]) for spec in engine.inputs.values())
    if number * sample > _MOST_NOISE:
        size = number * sample * 4 / 1e9
        raise InputError(f"{number:,} samples of noise take {size:,.0f} GB; give --n {_MOST_NOISE // sample} at most")
    return examples(engine.inputs, number)


def _inputs(engine: InferenceEngine) -> str:
    return " and ".join(f"{spec.name} {spec.dtype} {list(spec.best[1:])}" for spec in engine.inputs.values())


def _outputs(engine: InferenceEngine, samples: Mapping[str, np.ndarray], batch_size: int) -> dict[str, np.ndarray]:
    parts = [
        engine.predict_all(taken(samples, engine.inputs, start, start + batch_size))
        for start in range(0, count(samples, engine.inputs), batch_size)
    ]
    return {name: np.concatenate([part[name] for part in parts]) for name in engine.output_names}
