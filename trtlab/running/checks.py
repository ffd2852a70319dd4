"""Checks of built engines: outputs against PyTorch within a tolerance by precision, and the profile's limits."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from helpers.tools.outputs import relative_error
from trtcpu.errors import InputError, LabError
from trtlab.engines.engine_log import LOG
from trtlab.engines.inference import InferenceEngine
from trtlab.quality.compare import UNEXPLAINED, Drift, drift

# Largest relative error of the outputs, by precision; a wrong engine is near 1.
# Seen on ResNet-50 for fp32, tf32, fp16 and int8: TensorRT 8.6 on an H200 1e-6, 1.6e-3, 2.8e-3, 3.4e-2; OpenVINO, whose
# FP16 runs in BF16, 1e-6, –, 5e-3, 2.2e-2.
TOLERANCES: dict[str, float] = {
    "fp32": 1e-4,
    "tf32": 1e-2,
    "bf16": 5e-2,
    "fp16": 5e-2,
    "int8": 2e-1,
    "int8+fp16": 2e-1,
}


# A row of checks.json: `value` against `limit`, None if there is none, and what that means in words.
Check = dict[str, Any]


def _check(
    name: str, what: str, passed: bool, message: str, value: float = math.nan, limit: float | None = None
) -> Check:
    known = float(value) if math.isfinite(value) else None
    return {"name": name, "what": what, "passed": passed, "value": known, "limit": limit, "message": message}


def check_engine(name: str, path: Path, precision: str, images: np.ndarray, reference: np.ndarray) -> list[Check]:
    """Check one engine on `images` [N, 3, S, S] against PyTorch's outputs `reference` [N, C].

    A failure, also to load or run, is a row and is not raised.
    """
    try:
        with InferenceEngine(path) as engine:
            return [_outputs(name, engine, precision, images, reference), _refusal(name, engine)]
    except LabError as error:
        return [_check(name, "loads and runs", False, str(error))]


def _outputs(name: str, engine: InferenceEngine, precision: str, images: np.ndarray, reference: np.ndarray) -> Check:
    """Run the images one by one and as one batch; the worse of the two counts."""
    limit = TOLERANCES[precision]
    errors = [relative_error(engine.predict(images), reference)]
    if engine.min_batch == 1:
        singly = np.concatenate([engine.infer(images[row : row + 1]) for row in range(len(images))])
        errors.append(relative_error(singly, reference))
    worst, what = max(errors), f"outputs equal PyTorch's at batch 1 and {len(images)}"
    return _check(name, what, worst <= limit, f"relative error {worst:.1e}, allowed {limit:.0e}", worst, limit)


def _refusal(name: str, engine: InferenceEngine) -> Check:
    """One image more than the profile allows must be refused by the engine itself."""
    over = engine.max_batch + 1
    with LOG.collect():
        accepted = engine.context.set_input_shape(engine.input_name, (over, *engine.sample_shape))
    message = f"batch {over} was {'accepted' if accepted else 'refused'}; the profile ends at {engine.max_batch}"
    return _check(name, "a batch outside the profile is refused", not accepted, message)


def against_onnx_runtime(name: str, expected: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray]) -> Check:
    """Check an FP32 engine's outputs against ONNX Runtime's, which may be of fewer samples.

    Outputs in FP16 are rounded to ten bits, as TF32's factors are, and may be as far off.
    """
    limit = TOLERANCES["tf32" if any(array.dtype == np.float16 for array in expected.values()) else "fp32"]
    worst = max(relative_error(found[output][: len(array)], array) for output, array in expected.items())
    return _check(name, "outputs equal ONNX Runtime's", worst <= limit, f"relative error {worst:.1e}", worst, limit)


def drifts(name: str, reference: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray]) -> list[Check]:
    """Return the drift of every output against FP32's; outputs that are no numbers fail."""
    rows = []
    for output, expected in reference.items():
        what = f"drift of {output} against FP32, {len(expected)} samples"
        try:
            measured = drift(expected, found[output])
            rows.append(_check(name, what, True, _words(measured), measured.relative))
        except InputError as error:
            rows.append(_check(name, what, False, str(error)))
    return rows


def _words(found: Drift) -> str:
    agreement = found.top1_agreement_percent
    top1 = "" if agreement is None else f", same first class {agreement:.1f} %"
    advice = "; find out why before you use it" if found.relative > UNEXPLAINED else ""
    return f"relative difference {found.relative:.1e}, cosine {found.cosine:.5f}{top1}{advice}"
