"""The run on the lab's model: the engine and cache that it left, and the images that the notebook's `loader` gives."""

from itertools import islice
from types import SimpleNamespace
from typing import TypedDict

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.case import Case
from helpers.checks.points.point import point
from helpers.checks.points.s04_int8 import engine
from helpers.checks.points.s04_int8.dataset import FUNCTION as DATASET
from helpers.checks.points.s04_int8.dataset import SHAPE
from helpers.checks.points.s04_int8.runs import play_tensorrt
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

FAR = 0.12
"""Median difference of the model's scales from the reference's: 64 other images of the split change them by 1.6 to
3.1 %, the first 8 alone by 4 to 8 %, one image by 19 %."""

SAME_IMAGE = 0.3
"""Largest difference of two fingerprints of one image, in deviations: a shift by one pixel, either way of rounding,
moves a cell's mean by at most 1/28 of the range, 0.17."""

_LARGEST_INPUT = 2.64
"""No normalised pixel is above this: white in the blue channel."""

_RANGE = (0.5, 1.1)  # of it; calibrations of the lab's images reach 0.85 to 1.0
_PRINT_CELLS = 8
_PRINT = 3 * _PRINT_CELLS**2
_MOST_IMAGES = 2000
_ABSENT = "run the cell that calibrates, after those above it"


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


class LoaderFacts(TypedDict):
    """What `loader_facts` answers."""

    type: str
    batch_size: int | str | None
    sampler: str
    prints: np.ndarray


@probe
def loader_facts(notebook: Notebook) -> LoaderFacts:
    """Return what `loader` is and gives: `type`, `batch_size`, `sampler` (its type), the images' `prints` [N, 192]."""
    loader = notebook.value("loader")
    size = getattr(loader, "batch_size", None)
    batches = loader if hasattr(loader, "__iter__") else ()
    prints = [print_of(image) for image in islice((i for batch in batches for i in np.asarray(batch)), _MOST_IMAGES)]
    return {
        "type": type(loader).__name__,
        "batch_size": size if size is None or isinstance(size, (int, np.integer)) else str(size),
        "sampler": type(getattr(loader, "sampler", None)).__name__,
        "prints": np.stack(prints) if prints else np.empty((0, _PRINT), np.float32),
    }


@probe
def calibrator_prints(notebook: Notebook) -> np.ndarray:
    """Return the fingerprints [N, 192] of the images that the notebook's `calibrator` puts on the device."""
    asked = SimpleNamespace(get_batch=notebook.value("calibrator").get_batch)  # its cache is left alone
    run = play_tensorrt(asked, (engine.BATCH, *SHAPE), CALIBRATION_IMAGES // engine.BATCH, b"")
    return np.stack([print_of(image) for batch in run.batches if batch is not None for image in batch])


@probe
def split_prints(notebook: Notebook) -> np.ndarray:
    """Return the fingerprints [N, 192] of all images of the calibration split, as CalibrationDataset reads them."""
    dataset = notebook[DATASET](load_dataset("digits").split("calibration"), _MOST_IMAGES)
    return np.stack([print_of(dataset[index]) for index in range(min(len(dataset), _MOST_IMAGES))])


def _artifact(case: Case, name: str) -> bytes:
    found = case.artifact(name)
    if not found:
        raise Missed(f"{name} among the artifacts", "no such file", _ABSENT)
    return found


def plan_of(case: Case) -> bytes:
    """Return the INT8 engine's plan; raise Missed where it is missing or cannot be loaded."""
    plan = _artifact(case, PLAN)
    builders.facts_of(plan, PLAN)
    return plan


def cache_of(case: Case) -> dict[str, float]:
    """Return the scales in the calibration cache by tensor; raise Missed where there are none."""
    scales = read_scales(_artifact(case, CACHE))
    if not scales:
        raise Missed(f"scales in {CACHE}", "none that can be read", "write the cache's bytes unchanged")
    return scales


def is_int8(plan: bytes, model: bytes) -> str:
    """Return evidence that a plan is an INT8 engine of `model` (ONNX) for the profile's batches."""
    builders.profile_is(plan, engine.BATCHES)
    return builders.small_enough(plan, model, builders.INT8_SIZE)


@point(f"{PLAN} is an INT8 engine for batches 1 to 32")
def artifact(case: Case) -> str:
    return is_int8(plan_of(case), _artifact(case, ONNX_FILE))


@point("The input's range fits normalised images")
def input_range(case: Case) -> str:
    scale = cache_of(case).get("input")
    if scale is None:
        raise Missed("a scale for the tensor 'input'", "none", "write the cache's bytes unchanged")
    largest = 127 * scale
    if not _RANGE[0] * _LARGEST_INPUT < largest < _RANGE[1] * _LARGEST_INPUT:
        advice = "calibrate on images that are divided by 255 and normalised, as for inference"
        raise Missed(f"a range of about ±{_LARGEST_INPUT}", f"±{largest:.2f}", advice)
    return f"±{largest:.2f}"


def loader_images(case: Case) -> np.ndarray:
    """Return the fingerprints [N, 192] of the images that the notebook's `loader` gives."""
    facts = case.call(loader_facts).require("loader")
    if not facts["prints"].size:
        found = f"a {facts['type']}" if facts["type"] != "NoneType" else "nothing of that name"
        raise Missed("images in the notebook's `loader`", found, "call the DataLoader of the calibration run `loader`")
    return facts["prints"]


@point("All of the loader's images reach the engine")
def loader_fits(case: Case) -> str:
    loader_images(case)
    facts = case.call(loader_facts).require("loader")
    if facts["sampler"] == "RandomSampler":
        raise Missed("a `loader` that does not shuffle", "one with a RandomSampler", "leave `shuffle` out")
    batch = facts["batch_size"]
    if batch == engine.BATCH:
        return f"batches of {batch}"
    if not isinstance(batch, int) or not 0 < batch <= CALIBRATION_IMAGES:
        advice = f"use a DataLoader with batch_size={engine.BATCH}"
        raise Missed(f"a `loader` with batches of {engine.BATCH}", f"batch_size {batch}", advice)
    try:
        return engine.uses_all_images(case, batch)
    except Missed as missed:
        found = f"batches of {batch}; {missed.found}"
        advice = f"make the loader with batch_size={engine.BATCH}, the middle of the profile"
        raise Missed(f"a `loader` in batches of {engine.BATCH}", found, advice) from missed


@point("It was calibrated on calibration images")
def images(case: Case) -> str:
    return of_the_split(loader_images(case), case.call(split_prints).require(DATASET))


def of_the_split(prints: np.ndarray, calibration: np.ndarray, validation: np.ndarray | None = None) -> str:
    """Return evidence that all `prints` [N, 192] are of images of the calibration split, of enough different ones.

    `calibration` and `validation` are the fingerprints of the splits' images; the second only tells more in a message,
    and in the rare case that images of both are alike.
    """
    own, far = _nearest(prints, calibration)
    held_out = np.full(len(prints), np.inf) if validation is None else _nearest(prints, validation)[1]
    elsewhere = ~(far <= SAME_IMAGE) | (held_out < far)  # what is no number is from elsewhere too
    if elsewhere.any():
        from_validation = (held_out < np.minimum(far, SAME_IMAGE)).any()
        what = "of the validation split, for one" if from_validation else "or preprocessed otherwise"
        found = f"{elsewhere.sum()} of {len(prints)} images from elsewhere, {what}"
        raise Missed("images of the calibration split, preprocessed", found, 'use load_dataset("digits").split(…)')
    different = len(set(own.tolist()))
    if different < CALIBRATION_IMAGES:
        found = f"{different} different ones of {len(prints)}"
        raise Missed(f"{CALIBRATION_IMAGES} calibration images", found, "use CALIBRATION_IMAGES of them")
    return f"{different} images, all of the calibration split"


def none_held_out(case: Case, calibration: np.ndarray, validation: np.ndarray) -> None:
    """Raise Missed where `calibrator` gives images of the validation split; its other faults show elsewhere."""
    given = case.call(calibrator_prints).value
    if given is None:
        return
    own, held_out = _nearest(given, calibration)[1], _nearest(given, validation)[1]
    if (held_out < np.minimum(own, SAME_IMAGE)).any():
        raise Missed("a `calibrator` with that `loader`", "one with images of the validation split", "give it `loader`")


def _nearest(prints: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each print the index of the nearest known one, and the largest difference from it.

    Raises:
        Missed: they are no fingerprints, or there are none.
    """
    for found in (prints, known):
        if found.dtype != np.float32 or found.ndim != 2 or found.shape[1] != _PRINT or not len(found):
            said = f"{found.dtype} of shape {found.shape}"
            raise Missed(f"fingerprints of images, float32 [N, {_PRINT}]", said, "restart the kernel, run all cells")
    distances = [np.abs(known - found).max(axis=1) for found in prints]
    return np.array([row.argmin() for row in distances]), np.array([row.min() for row in distances])
