"""The run on the lab's model: the engine and cache that it left, and the images that the notebook's `loader` gives."""

from itertools import islice

import numpy as np

from helpers.checks.missed import Missed
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
from helpers.toys.networks import EDGE
from trtcpu.calibration_cache import parse_cache
from trtcpu.errors import InputError

PLAN, CACHE = ENGINES["int8"], "resnet50_calib.cache"

MOST_ERROR = 0.12
"""Relative error of the outputs: right calibrations are 2 to 5 % off, those on pixels or noise 19 % and more."""

LEAST_AGREEMENT = 0.95
"""Share of the images whose first class is the FP32 model's: right calibrations reach 99 to 100 %."""

SAME_IMAGE = 0.3
"""Largest difference of two fingerprints of one image, in deviations: a shift by one pixel, either way of rounding,
moves a cell's mean by at most 1/28 of the range, 0.17."""

_LARGEST_INPUT = 2.64  # no normalised pixel is above this: white in the blue channel
_RANGE = (0.5, 1.1)  # of it; calibrations of the lab's images reach 0.85 to 1.0
_PRINT_CELLS, _MOST_IMAGES = 8, 2000
_ABSENT = "run the cell that calibrates, after those above it"

RUN, SPEED = Task("int8_calibration", check="check_int8_calibration"), Task("int8_speed")


@loads
def read_scales(cache: bytes) -> dict[str, float]:
    """Return the scale of each tensor in a calibration cache; an empty dictionary where it is none."""
    try:
        return parse_cache(cache).scales
    except InputError:
        return {}


def print_of(image: np.ndarray) -> np.ndarray:
    """Return an image's fingerprint, float32 [192]: the means of 8×8 cells of each channel of [3, 224, 224]."""
    side = EDGE // _PRINT_CELLS
    cells = np.asarray(image, np.float32).reshape(3, _PRINT_CELLS, side, _PRINT_CELLS, side)
    return cells.mean(axis=(2, 4)).reshape(-1)


@probe
def loader_prints(notebook: Notebook) -> tuple[str, np.ndarray]:
    """Return the batch size of the notebook's `loader`, and the fingerprints [N, 192] of the images that it gives."""
    loader = notebook.value("loader")
    images = islice((image for batch in loader or () for image in np.asarray(batch)), _MOST_IMAGES)
    return f"{getattr(loader, 'batch_size', None)}", np.array([*map(print_of, images)])


@probe
def split_prints(notebook: Notebook) -> np.ndarray:
    """Return the fingerprints [N, 192] of all images of the calibration split, as CalibrationDataset reads them."""
    dataset = notebook[DATASET](load_dataset("digits").split("calibration"), _MOST_IMAGES)
    return np.array([print_of(dataset[index]) for index in range(min(len(dataset), _MOST_IMAGES))])


def plan_of(case: Case) -> bytes:
    """Return the INT8 engine's plan; raise Missed where it is missing or cannot be loaded."""
    plan = needed(case, PLAN, _ABSENT)
    builders.facts_of(plan, PLAN)
    return plan


def cache_of(case: Case) -> dict[str, float]:
    """Return the scales in the calibration cache by tensor; raise Missed where there are none."""
    scales = read_scales(needed(case, CACHE, _ABSENT))
    if "input" not in scales:
        raise Missed(f"scales in {CACHE}, one for 'input'", "none", "write the cache's bytes unchanged")
    return scales


@RUN.point("int8.artifact", 0.5, f"{PLAN} is an INT8 engine for batches 1 to 32")
def artifact(case: Case) -> str:
    plan = plan_of(case)
    builders.profile_is(plan, engine.BATCHES)
    return builders.small_enough(plan, needed(case, ONNX_FILE, "run step 1"), builders.INT8_SIZE)


@RUN.point("int8.scales", 0.5, "Its scales are those of normalised calibration images")
def scales(case: Case) -> str:
    largest = 127 * cache_of(case)["input"]
    if not _RANGE[0] * _LARGEST_INPUT < largest < _RANGE[1] * _LARGEST_INPUT:
        advice = "calibrate on images that are divided by 255 and normalised, as for inference"
        raise Missed(f"a range of about ±{_LARGEST_INPUT}", f"±{largest:.2f}", advice)
    return f"the input's range is ±{largest:.2f}"


_LOADER = "the images that the loader gives: the student's process says what they are"


@RUN.point("int8.images", 0.5, "It was calibrated on calibration images", reported=_LOADER)
def images(case: Case) -> str:
    split = case.call(split_prints).require(DATASET)
    size, prints = case.call(loader_prints).require("loader")
    far = [np.abs(split - image).max(axis=1) for image in prints]
    different = len({int(row.argmin()) for row in far})
    elsewhere = sum(not row.min() <= SAME_IMAGE for row in far)
    found = {"batch size": size, "different images": min(different, CALIBRATION_IMAGES), "from elsewhere": elsewhere}
    right = {"batch size": str(engine.BATCH), "different images": CALIBRATION_IMAGES, "from elsewhere": 0}
    advice = 'load CALIBRATION_IMAGES of load_dataset("digits").split("calibration"), preprocessed, in batches of 8'
    agree(found, right, f"the notebook's `loader` of {len(far)} images", advice)
    return f"{different} images, all of the calibration split, in batches of {size}"
