"""Where the lab keeps its artifacts, which step makes each, progress bars, and the label that every number carries.

from helpers.lab import artifact, label, progress
artifact("resnet50.onnx")                 # its path; an error naming the step where it is missing
label(batch=8, precision="fp16")          # "CPU engine, … · batch 8 · FP16"
"""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from helpers.cells import as_python, defines
from helpers.files import atomic_write
from trtcpu.errors import InputError

__all__ = [
    "ARTIFACTS",
    "BASELINE",
    "BATCHES",
    "BONUS",
    "CALIBRATION_IMAGES",
    "CHAPTERS",
    "ENGINES",
    "GRADED",
    "LAB_MODEL",
    "LATENCY_SECONDS",
    "MODEL",
    "NAMES",
    "NOTEBOOKS",
    "ONNX_FILE",
    "PROFILE_BATCHES",
    "QUICK",
    "START",
    "STEPS",
    "THROUGHPUT_SECONDS",
    "VALIDATION_IMAGES",
    "artifact",
    "artifact_path",
    "artifacts_folder",
    "iterations",
    "keep_definition",
    "label",
    "load_definition",
    "made_by",
    "notebooks_folder",
    "progress",
]


def _switched_on(variable: str) -> bool:
    """Return whether a variable is 1.

    Raises:
        InputError: it is neither 1 nor 0 nor empty.
    """
    value = os.environ.get(variable, "").strip()
    if value not in ("", "0", "1"):
        raise InputError(f"{variable}={value!r} is no switch; set it to 1, or to 0")
    return value == "1"


QUICK = _switched_on("TRT_LAB_QUICK")
"""Fewer images and iterations through the same code, for continuous integration: TRT_LAB_QUICK=1."""

LAB_MODEL = "resnet50"
MODEL = os.environ.get("TRT_LAB_MODEL", LAB_MODEL)
"""The model of the lab; TRT_LAB_MODEL=resnet18 makes every step faster. The artifacts keep their names."""

CALIBRATION_IMAGES = 64 if QUICK else 256
VALIDATION_IMAGES = 120 if QUICK else 250
LATENCY_SECONDS = 0.3 if QUICK else 3.0
"""About how long one latency measurement in the notebooks may take."""

THROUGHPUT_SECONDS = 0.2 if QUICK else 1.0
"""Seconds of one throughput measurement in the notebooks; publish longer ones (trtlab bench --duration 60)."""

PROFILE_BATCHES = (1, 8, 32)
"""Least, best and largest batch of every engine from step 3 on."""

BATCHES = (PROFILE_BATCHES[0], 4, PROFILE_BATCHES[1], 16, PROFILE_BATCHES[2])
"""The batches that step 6 measures."""

BASELINE = "pytorch-fp32"
"""PyTorch's name in the tables of steps 6 to 8."""

ENGINES = {
    "fp32": "resnet50_fp32.engine",
    "fp16": "resnet50_dynamic_fp16.engine",
    "int8": "resnet50_int8.engine",
}
"""The engines of steps 5 to 8, by their names in those tables."""

NAMES = (BASELINE, *ENGINES)
"""The names of those tables' rows, in their order."""

STEPS = (
    "01_export",
    "02_fp16",
    "03_dynamic",
    "04_int8",
    "05_inference",
    "06_benchmark",
    "07_accuracy",
    "08_report",
)
"""The steps of the 100 points."""

BONUS: tuple[str, ...] = (
    "09_mixed_precision",
    "10_profiles_and_streams",
    "11_bert",
    "12_layer_profiling",
    "13_compilers",
    "14_explicit_quantisation",
    "16_cases",
)
"""The optional steps; their points are a bonus beside the 100."""

CHAPTERS: tuple[str, ...] = ("15_llm",)
"""To be read and run: no task, no points."""

GRADED = STEPS + BONUS
NOTEBOOKS = tuple(sorted(GRADED + CHAPTERS))

START = "00_start.ipynb"
"""The notebook that `make jupyter` opens; it is no step."""

ONNX_FILE = "resnet50_simplified.onnx"
"""What every engine of the lab is built from."""

ARTIFACTS = {
    "resnet50.onnx": "01_export",
    ONNX_FILE: "01_export",
    "resnet50_fp16.engine": "02_fp16",
    "resnet50_dynamic_fp16.engine": "03_dynamic",
    "resnet50_fp32.engine": "03_dynamic",
    "resnet50_int8.engine": "04_int8",
    "resnet50_calib.cache": "04_int8",
    "inference.py": "05_inference",
    "latency.json": "06_benchmark",
    "throughput.json": "06_benchmark",
    "accuracy.json": "07_accuracy",
    "report.json": "08_report",
    "report.html": "08_report",
    "latency.png": "08_report",
    "throughput.png": "08_report",
    "speedup.png": "08_report",
    "accuracy.png": "08_report",
    "resnet50_mixed.engine": "09_mixed_precision",
    "sensitivity.json": "09_mixed_precision",
    "bert.onnx": "11_bert",
    "bert_fp32.engine": "11_bert",
    "bert_fp16.engine": "11_bert",
    "bert_int8.engine": "11_bert",
    "bert_calib.cache": "11_bert",
    "compilers.json": "13_compilers",
    "resnet50_qdq.onnx": "14_explicit_quantisation",
    "resnet50_qdq.engine": "14_explicit_quantisation",
    "explicit.json": "14_explicit_quantisation",
}
"""Every file that a step hands on, and the step that makes it."""

_DEFINITIONS = {"TensorRTInference": "inference.py"}

FOLDER_VARIABLE = "TRT_LAB_ARTIFACTS"

Item = TypeVar("Item")


def artifacts_folder() -> Path:
    """Return the folder that the steps share: $TRT_LAB_ARTIFACTS, else `artifacts` beside the steps' folders.

    A notebook runs in its own step's folder (`labs/02_fp16/`), so that is beside it; elsewhere, the current folder's.
    """
    if chosen := os.environ.get(FOLDER_VARIABLE):
        return Path(chosen)
    return notebooks_folder() / "artifacts"


def notebooks_folder() -> Path:
    """Return the folder of the steps' folders as seen from a notebook of the lab; elsewhere, the current folder."""
    here = Path.cwd()
    return here.parent if here.name in NOTEBOOKS else here


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


def keep_definition(name: str, cells: Sequence[str]) -> Path:
    """Write the last of the executed `cells` that defines class `name` to its artifact, for the steps that follow.

    Its magics are left out: these steps may load it outside a notebook. In a notebook `cells` is IPython's `In`. The
    cell must import what the class needs.

    Raises:
        InputError: no cell defines it.
    """
    found = next((text for text in map(as_python, reversed(cells)) if defines(text, name)), None)
    if found is None:
        raise InputError(f"no executed cell defines class {name}; run the cell that defines it, then this one")
    target = artifact_path(_DEFINITIONS[name])
    atomic_write(target, re.sub(r"^get_ipython\(\)\..*\n?", "", found, flags=re.MULTILINE).rstrip() + "\n")
    return target


def load_definition(name: str, folder: str | Path | None = None) -> type:
    """Return the class `name` that an earlier step kept.

    Raises:
        InputError: it was not kept, or its file does not run or does not define it.
    """
    path = artifact(_DEFINITIONS[name], folder)
    namespace: dict[str, object] = {"__name__": path.stem}
    try:
        exec(compile(path.read_text(), str(path), "exec"), namespace)
        return namespace[name]
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        step = made_by(path.name)
        raise InputError(
            f"{path} does not give class {name} ({reason}); in step {step}, put its imports into the same "
            "cell and run the step again"
        ) from error


def iterations(call_ms: float) -> int:
    """Return how often to time a call of about `call_ms`: as often as LATENCY_SECONDS allow, from 3 to 1,000 times.

    The median of three is right beside one that something disturbed; p99 needs a hundred.
    """
    return max(3, min(1000, round(LATENCY_SECONDS * 1e3 / call_ms)))


def label(*, batch: int | None = None, precision: str | None = None, device: str | None = None) -> str:
    """Return the label of a number, table or chart: engine and device, then batch size and precision where given.

    `device` is helpers.backend's DEVICE unless given; it names the engine, its version and the hardware. The
    precision is what runs here: "FP16", or "FP16 asked, BF16 ran".
    """
    if device is None:
        from helpers.backend import DEVICE as device
    parts = [device]
    if batch is not None:
        parts.append(f"batch {batch}")
    if precision is not None:
        from helpers.arithmetic import arithmetic

        parts.append(arithmetic(precision))
    return " · ".join(parts)


def progress(items: Iterable[Item], what: str, total: int | None = None, unit: str = "image") -> Iterable[Item]:
    """Yield `items` behind a progress bar named `what`.

    The bar is written to stdout, since nbgrader gives no points to a cell that writes to stderr.
    """
    import sys

    from tqdm import tqdm

    return tqdm(items, desc=what, total=total, unit=unit, file=sys.stdout, leave=False, ncols=80, mininterval=0.5)
