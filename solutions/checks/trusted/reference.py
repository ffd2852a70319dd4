"""The reference artifacts: made by the pipeline from the lab's model on this machine.

They replace files of steps that a submission missed, and its engines are timed against them.
"""

import importlib.metadata
import os
from collections.abc import Collection
from functools import cache, partial
from pathlib import Path
from typing import Any

from helpers.checks.points.s04_int8.calibration import CACHE, PLAN
from helpers.course.settings import (
    CALIBRATION_IMAGES,
    ENGINES,
    MODEL,
    ONNX_FILE,
    PROFILE_BATCHES,
    QUICK,
    VALIDATION_IMAGES,
)
from helpers.course.steps import made_by
from helpers.data.datasets import load_dataset
from helpers.data.models import WEIGHTS, check_model, load_model
from helpers.engine.backend import API, DEVICE, ENGINE, TIMINGS_VARIABLE
from helpers.tools.files import atomic_write
from solutions.checks.trusted import reference_results
from solutions.checks.trusted.solution_cells import solution_cell
from solutions.checks.trusted.stages import Reference, Stage
from trtlab.building.build import build_engine
from trtlab.building.build_options import BuildOptions
from trtlab.building.calibration_data import write_calibration_tensor
from trtlab.models.export import export_onnx, simplify_onnx

FOLDER_VARIABLE = "TRT_LAB_REFERENCE"
OPSET = 18
TIMING_CACHE = "timing.cache"

MODEL_FILE, IMAGES = "resnet50.onnx", "calibration.npy"
_CLASS, _CLASS_CELL = "inference.py", "tensorrt_inference"
_PRECISIONS = {
    ENGINES["fp32"]: ("tf32", PROFILE_BATCHES),  # TensorRT's default, so what step 3's FP32 engine is too
    "resnet50_fp16.engine": ("fp16", (1, 8, 8)),
    ENGINES["fp16"]: ("fp16", PROFILE_BATCHES),
    PLAN: ("int8", PROFILE_BATCHES),
}


def _calibration_images(reference: Reference, folder: Path) -> None:
    images = [path for path, _ in load_dataset("digits").images("calibration", limit=CALIBRATION_IMAGES)]
    for _ in write_calibration_tensor(images, folder / IMAGES):
        pass


def _engine(reference: Reference, folder: Path, *, name: str) -> None:
    precision, batches = _PRECISIONS[name]
    options: dict[str, Any] = dict(zip(("min_batch", "opt_batch", "max_batch"), batches, strict=True))
    if ENGINE == "tensorrt":
        options["timing_cache"] = reference.root / TIMING_CACHE
    if name == PLAN:
        options |= {"calib_npy": reference.path(IMAGES), "calib_cache": folder / CACHE}
    build_engine(reference.path(ONNX_FILE), folder / name, BuildOptions(precision, **options))


STAGES = (
    Stage((MODEL_FILE,), (), lambda _, folder: export_onnx(load_model(MODEL), folder / MODEL_FILE, opset=OPSET)),
    Stage((ONNX_FILE,), (MODEL_FILE,), lambda our, folder: simplify_onnx(our.path(MODEL_FILE), folder / ONNX_FILE)),
    Stage((IMAGES,), (), _calibration_images),
    *(Stage((name,), (ONNX_FILE,), partial(_engine, name=name)) for name in _PRECISIONS if name != PLAN),
    Stage((PLAN, CACHE), (ONNX_FILE, IMAGES), partial(_engine, name=PLAN)),
    Stage((_CLASS,), (), lambda _, folder: atomic_write(folder / _CLASS, solution_cell("05_inference", _CLASS_CELL))),
    *reference_results.STAGES,
)


@cache
def reference() -> Reference:
    """Return this machine's reference for the engine and model chosen: in $TRT_LAB_REFERENCE or results/reference."""
    check_model(MODEL, "digits")
    root = Path(os.environ.get(FOLDER_VARIABLE) or Path(__file__).resolve().parents[3] / "results" / "reference")
    kept = "".join(letter if letter.isalnum() else "-" for letter in DEVICE)
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("torch", "onnx", "numpy")]
    weights = (WEIGHTS / f"{MODEL}.json").read_text()  # holds their digest and the renderer's version
    settings = f"{MODEL} {CALIBRATION_IMAGES} {VALIDATION_IMAGES} {QUICK}"
    return Reference(root / kept, STAGES, "\n".join([DEVICE, f"API {API}", *versions, weights, settings]))


def offered_environment(steps: Collection[str]) -> dict[str, str]:
    """Return the variables that offer the reference builds' kernel timings to the builds of `steps` (backend.py).

    Empty on the CPU engine, whose builds time nothing. On real TensorRT, whose builds do little else, the reference
    engines of these steps are built first; builds of other steps use the timings that exist.
    """
    if ENGINE != "tensorrt":
        return {}
    for name in _PRECISIONS:
        if made_by(name) in steps:
            reference().path(name)
    timings = reference().root / TIMING_CACHE
    return {TIMINGS_VARIABLE: str(timings)} if timings.is_file() else {}
