"""The lab's settings: its model, how many images, how long a measurement takes, and the rows of its tables."""

import os

from helpers.tools.term import MODELS, TERM
from trtcpu.errors import SettingError


def _switched_on(variable: str) -> bool:
    """Return whether a variable is 1.

    Raises:
        SettingError: it is neither 1 nor 0 nor empty.
    """
    value = os.environ.get(variable, "").strip()
    if value not in ("", "0", "1"):
        raise SettingError(f"{variable}={value!r} is no switch; set it to 1, or to 0")
    return value == "1"


QUICK = _switched_on("TRT_LAB_QUICK")
"""Fewer images and iterations through the same code, for continuous integration: TRT_LAB_QUICK=1."""


def _model() -> str:
    """Return the model that is asked for.

    Raises:
        SettingError: the lab has no weights of it.
    """
    asked = os.environ.get("TRT_LAB_MODEL") or COURSE_MODEL
    if asked not in MODELS:
        raise SettingError(f"TRT_LAB_MODEL={asked!r} is no model of the lab; choose one of {', '.join(MODELS)}")
    return asked


LAB_MODEL = "resnet50"
COURSE_MODEL = TERM.model or LAB_MODEL
MODEL = _model()
"""The model of the lab: TRT_LAB_MODEL, else course.toml's. resnet18 is faster; the artifacts keep their names."""

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

ONNX_FILE = "resnet50_simplified.onnx"
"""What every engine of the lab is built from."""


def iterations(call_ms: float) -> int:
    """Return how often to time a call of about `call_ms`: as often as LATENCY_SECONDS allow, from 3 to 1,000 times.

    The median of three is right beside one that something disturbed; p99 needs a hundred.
    """
    return max(3, min(1000, round(LATENCY_SECONDS * 1e3 / call_ms)))
