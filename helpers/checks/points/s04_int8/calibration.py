"""The calibration of the lab's model: its engine and cache, and the images of the notebook's `loader`."""

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
"""Share of the images with the FP32 model's top class: right calibrations reach 99 to 100 %."""

_INPUT_RANGE, _EITHER_WAY = 2.1, 0.8  # calibrations of the lab's images reach 2.2 to 2.64 (white in the blue channel)
_MOST_IMAGES = 2000  # more than the split has
_ABSENT = "run the cell that calibrates, and the cells above it"

RUN, SPEED = Task("int8_calibration", check="check_int8_calibration"), Task("int8_speed")


@loads
def read_scales(cache: bytes) -> dict[str, float]:
    """Return the scale of each tensor in a calibration cache; empty if it is not one."""
    try:
        return parse_cache(cache).scales
    except InputError:
        return {}


Loader = TypedDict("Loader", {"batch size": int | None, "different images": int, "images from elsewhere": int})


@probe
def loader_images(notebook: Notebook) -> Loader:
    """Return the batch size of the notebook's `loader`, and how many different images it gives.

    Images from elsewhere are those that CalibrationDataset does not read from the calibration split.
    """
    loader, split = notebook.value("loader"), load_dataset("digits").split("calibration")
    dataset = notebook[DATASET](split, _MOST_IMAGES)
    known = {_content(dataset[index]) for index in range(len(dataset))}
    given = {_content(image) for batch in loader or () for image in batch}
    size = getattr(loader, "batch_size", None)
    return {"batch size": size, "different images": len(given), "images from elsewhere": len(given - known)}


def _content(image: Any) -> int:
    return hash(np.asarray(image, np.float32).tobytes())


def plan_of(case: Case) -> bytes:
    """Return the INT8 engine's plan; raise Missed if it is missing."""
    return needed(case, PLAN, _ABSENT)


@RUN.point("int8.artifact", 0.5, f"{PLAN} is an INT8 engine for batches 1 to 32")
def artifact(case: Case) -> str:
    plan = plan_of(case)
    builders.profile_is(plan, engine.BATCHES)
    return builders.small_enough(plan, needed(case, ONNX_FILE, "run step 1"), builders.INT8_SIZE)


@RUN.point("int8.scales", 0.5, "The scales come from normalised images")
def scales(case: Case) -> str:
    largest = 127 * read_scales(needed(case, CACHE, _ABSENT)).get("input", 0.0)
    advice = "divide the calibration images by 255 and normalise them, as for inference; then delete the cache"
    found, right = {"range of the input": largest}, {"range of the input": _INPUT_RANGE}
    agree(found, right, f"{CACHE}, give or take {_EITHER_WAY}", advice, atol=_EITHER_WAY)
    return f"the input's range is ±{largest:.2f}"


_LOADER = "the loader's images: the student's process says which they are"


@RUN.point("int8.images", 0.5, "Calibrated on the calibration images", reported=_LOADER)
def images(case: Case) -> str:
    found = case.call(loader_images).require("loader")
    right = {"batch size": engine.BATCH, "different images": CALIBRATION_IMAGES, "images from elsewhere": 0}
    advice = 'load CALIBRATION_IMAGES of load_dataset("digits").split("calibration"), preprocessed, in batches of 8'
    agree(found, right, "the notebook's `loader`", advice)
    return f"{CALIBRATION_IMAGES} images of the calibration split, in batches of {engine.BATCH}"
