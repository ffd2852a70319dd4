"""The run on the lab's model: the engine and cache that it left, and the images that the notebook's `loader` gives."""

from typing import Any, TypedDict

import numpy as np

from helpers.checks.points import builders
from helpers.checks.points.case import Case
from helpers.checks.points.files import needed
from helpers.checks.points.pure import agree
from helpers.checks.points.s04_int8 import engine
from helpers.checks.points.s04_int8.dataset import FUNCTION as DATASET
from helpers.checks.points.task import Task
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.loads import loads
from helpers.course.settings import CALIBRATION_IMAGES, ENGINES, ONNX_FILE
from helpers.data.datasets import load_dataset
from trtcpu.calibration_cache import parse_cache
from trtcpu.errors import InputError

PLAN, CACHE = ENGINES["int8"], "resnet50_calib.cache"

MOST_ERROR = 0.12
"""Relative error of the outputs: right calibrations are 2 to 5 % off, those on pixels or noise 19 % and more."""

LEAST_AGREEMENT = 0.95
"""Share of the images whose first class is the FP32 model's: right calibrations reach 99 to 100 %."""

_INPUT_RANGE, _EITHER_WAY = 2.1, 0.8  # calibrations of the lab's images reach 2.2 to 2.64, which is white in blue
_MOST_IMAGES = 2000  # more than the split has
_ABSENT = "run the cell that calibrates, after those above it"

RUN, SPEED = Task("int8_calibration", check="check_int8_calibration"), Task("int8_speed")


@loads
def read_scales(cache: bytes) -> dict[str, float]:
    """Return the scale of each tensor in a calibration cache; an empty dictionary where it is none."""
    try:
        return parse_cache(cache).scales
    except InputError:
        return {}


Loader = TypedDict("Loader", {"batch size": int | None, "different": int, "from elsewhere": int})


@probe
def loader_images(notebook: Notebook) -> Loader:
    """Return the notebook's `loader`'s batch size, how many "different" images it gives, and how many "from elsewhere".

    That is: not in the calibration split, as CalibrationDataset reads it.
    """
    loader, split = notebook.value("loader"), load_dataset("digits").split("calibration")
    dataset = notebook[DATASET](split, _MOST_IMAGES)
    known = {_content(dataset[index]) for index in range(len(dataset))}
    given = {_content(image) for batch in loader or () for image in batch}
    size = getattr(loader, "batch_size", None)
    return {"batch size": size, "different": len(given), "from elsewhere": len(given - known)}


def _content(image: Any) -> int:
    return hash(np.asarray(image, np.float32).tobytes())


def plan_of(case: Case) -> bytes:
    """Return the INT8 engine's plan; raise Missed where it is missing."""
    return needed(case, PLAN, _ABSENT)


@RUN.point("int8.artifact", 0.5, f"{PLAN} is an INT8 engine for batches 1 to 32")
def artifact(case: Case) -> str:
    plan = plan_of(case)
    builders.profile_is(plan, engine.BATCHES)
    return builders.small_enough(plan, needed(case, ONNX_FILE, "run step 1"), builders.INT8_SIZE)


@RUN.point("int8.scales", 0.5, "Its scales are those of normalised calibration images")
def scales(case: Case) -> str:
    largest = 127 * read_scales(needed(case, CACHE, _ABSENT)).get("input", 0.0)
    advice = "calibrate on images that are divided by 255 and normalised, as for inference"
    agree(largest, _INPUT_RANGE, f"the input's range in {CACHE}, {_EITHER_WAY} more or less", advice, atol=_EITHER_WAY)
    return f"the input's range is ±{largest:.2f}"


_LOADER = "the images that the loader gives: the student's process says what they are"


@RUN.point("int8.images", 0.5, "It was calibrated on calibration images", reported=_LOADER)
def images(case: Case) -> str:
    found = case.call(loader_images).require("loader")
    right = {"batch size": engine.BATCH, "different": CALIBRATION_IMAGES, "from elsewhere": 0}
    advice = 'load CALIBRATION_IMAGES of load_dataset("digits").split("calibration"), preprocessed, in batches of 8'
    agree(found, right, "the images of the notebook's `loader`", advice)
    return f"{CALIBRATION_IMAGES} images, all of the calibration split, in batches of {engine.BATCH}"
