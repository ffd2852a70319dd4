"""Where the lab keeps its artifacts, which step makes each, progress bars, and the label that every number carries.

from helpers.lab import artifact, label, progress
artifact("resnet50.onnx")                 # its path; an error naming the step where it is missing
label(batch=8, precision="fp16")          # "CPU engine, … · batch 8 · FP16"
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from helpers.errors import InputError

__all__ = ["ARTIFACTS", "artifact", "artifact_path", "artifacts_folder", "label", "made_by", "progress"]

ARTIFACTS = {
    "resnet50.onnx": "01_export",
    "resnet50_simplified.onnx": "01_export",
    "resnet50_fp16.engine": "02_fp16",
    "resnet50_dynamic_fp16.engine": "03_dynamic",
    "resnet50_int8.engine": "04_int8",
    "resnet50_calib.cache": "04_int8",
    "latency.json": "06_benchmark",
    "throughput.json": "06_benchmark",
    "accuracy.json": "07_accuracy",
    "report.json": "08_report",
    "report.html": "08_report",
}
"""Every file that a step hands on, and the step that makes it."""

FOLDER_VARIABLE = "TRT_LAB_ARTIFACTS"

Item = TypeVar("Item")


def artifacts_folder() -> Path:
    """Return the folder that the steps share: $TRT_LAB_ARTIFACTS, else `artifacts` beside the steps' folders.

    A notebook runs in its own step's folder (`labs/02_fp16/`), so that is beside it; elsewhere, the current folder's.
    """
    if chosen := os.environ.get(FOLDER_VARIABLE):
        return Path(chosen)
    here = Path.cwd()
    return (here.parent if here.name in set(ARTIFACTS.values()) else here) / "artifacts"


def artifact_path(name: str, folder: str | Path | None = None) -> Path:
    """Return where the artifact `name` belongs, whether or not it is there.

    Raises:
        InputError: no step makes a file of that name.
    """
    made_by(name)
    return (Path(folder) if folder is not None else artifacts_folder()) / name


def artifact(name: str, folder: str | Path | None = None) -> Path:
    """Return the path of an artifact that an earlier step made.

    Raises:
        InputError: it is missing or empty (the message names the step to run), or no step makes it.
    """
    path = artifact_path(name, folder)
    if not path.is_file():
        raise InputError(f"{name} is missing: expected {path}; run step {made_by(name)}, which makes it")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty; run step {made_by(name)} again, which makes it")
    return path


def made_by(name: str) -> str:
    """Return the step that makes the artifact `name`, such as "04_int8".

    Raises:
        InputError: no step makes a file of that name.
    """
    if name not in ARTIFACTS:
        raise InputError(f"no step makes {name!r}; the artifacts are {', '.join(ARTIFACTS)}")
    return ARTIFACTS[name]


def label(*, batch: int | None = None, precision: str | None = None, device: str | None = None) -> str:
    """Return the label of a number, table or chart: engine and device, then batch size and precision where given.

    `device` is helpers.backend's DEVICE unless given; it names the engine, its version and the hardware.
    """
    if device is None:
        from helpers.backend import DEVICE as device
    parts = [device]
    if batch is not None:
        parts.append(f"batch {batch}")
    if precision is not None:
        parts.append(precision.upper())
    return " · ".join(parts)


def progress(items: Iterable[Item], what: str, total: int | None = None, unit: str = "image") -> Iterable[Item]:
    """Yield `items` behind a progress bar named `what`.

    The bar is written to stdout, since nbgrader gives no points to a cell that writes to stderr.
    """
    import sys

    from tqdm import tqdm

    return tqdm(items, desc=what, total=total, unit=unit, file=sys.stdout, leave=False, dynamic_ncols=True)
