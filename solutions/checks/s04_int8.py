"""What only the grader knows of step 4: the trusted preprocessing and calibration, the engine's answers and speed."""

import io
from functools import lru_cache, partial

import numpy as np
from PIL import Image

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.case import Case
from helpers.checks.points.s04_int8 import calibration, calibrator, dataset, engine
from helpers.checks.points.s04_int8.calibration import RUN, SPEED, read_scales
from helpers.checks.points.s04_int8.calibrator import random_images
from helpers.checks.points.task import Earned
from helpers.engine.backend import API
from helpers.engine.given import calibrate_with
from helpers.tools.outputs import relative_error
from helpers.toys.networks import tiny_onnx
from solutions.checks.trusted.engine_speed import against_pytorch, against_reference
from solutions.checks.trusted.plans import check_outputs, largest_batch, run_plan, small_on_a_gpu
from solutions.checks.trusted.reference import reference
from solutions.checks.trusted.reference_results import OUTPUTS, held_out_images
from trtlab.building.calibration import new_calibrator
from trtlab.building.calibration_data import CalibrationBatches
from trtlab.engines.served import predicted
from trtlab.images.preprocessing import Preprocessing

CLOSE, MOST = 0.03, 0.85
"""On a small network 85 % of the scales are within 3 % of the trusted ones: near ties may fall either way."""

OWN_SCALES = 0.7
"""Relative error of a small network's engine on images as strong as those of its scales: of 360 right builds 1 to 42 %,
with the scales of the other images 99 % and more."""

THIS_MODEL = 0.5
"""Share of the images that an engine of the lab's model, however badly calibrated, gives the FP32 model's class."""


@dataset.pixels.in_grading
def pixels(case: Case) -> str:
    said, files, usual = dataset.pixels(case), dataset.photos(case), Preprocessing.usual(*dataset.SHAPE)
    right = [usual.to_input(Image.open(io.BytesIO(picture))) for picture in files]
    what = f"every pixel within {dataset.TOLERANCE:g} of the reference preprocessing"
    advice = "compare one image step by step: RGB, shorter side to 256, centre 224×224, divide by 255, mean, deviation"
    dataset.alike(dataset.steady(case, files), right, what, advice)
    return f"{said}; {len(files)} images as the reference has them"


@calibrator.batches.in_grading
def batches(case: Case) -> str:
    said = calibrator.batches(case)
    if API == 11:
        return f"{said}; TensorRT 11 has no calibrators to calibrate with"
    model, seed = tiny_onnx(case.number("calibrator.network")), case.number("calibrator.real")
    found = read_scales(case.call(engine.calibrate, onnx=model, seed=seed).require(calibrator.FUNCTION) or b"")
    close = [np.isclose(found.get(name, 0.0), scale, CLOSE) for name, scale in trusted_scales(model, seed).items()]
    told = f"{sum(close)} of {len(close)} scales within {CLOSE:.0%} of the trusted calibration's"
    if np.mean(close) < MOST:
        raise Missed("the scales that entropy calibration with all the images leads to", told, "is every batch used?")
    return f"{said}; {told}"


def trusted_scales(model: bytes, seed: int) -> dict[str, float]:
    """Return the scales that the pipeline's entropy calibration of `random_images` gives, by tensor name."""
    images, trusted = random_images(seed, engine.IMAGES), new_calibrator("entropy")
    parts = ({"input": part} for part in np.split(images, len(images) // engine.BATCH))
    given = CalibrationBatches("the images", engine.BATCH, len(images), {"input": images.shape[1:]}, parts)
    trusted.start(given, None, lambda said: None)
    calibrate_with(trusted, model, engine.BATCHES)
    return read_scales(trusted.written or b"")


@engine.precision.in_grading
def precision(case: Case) -> str:
    said, model = engine.precision(case), reference().bytes("resnet50.onnx")
    build = partial(engine.INT8.built, case)
    return f"{said}; {small_on_a_gpu(build, engine.INT8.function, model, builders.INT8_SIZE)}"


@engine.calibrated.in_grading
def calibrated(case: Case) -> str:
    return f"{engine.calibrated(case)}; {_exact(case, 0, 1)}"


@engine.cache_reused.in_grading
def cache_reused(case: Case) -> str:
    return f"{engine.cache_reused(case)}; {_exact(case, engine.REUSED)}"


@engine.stale_cache.in_grading
def stale_cache(case: Case) -> str:
    return "; ".join([engine.stale_cache(case), *(_exact(case, index) for index in engine.STALE)])


def _exact(case: Case, index: int, most: int = len(engine.BUILDS)) -> str:
    """Return evidence that a build's engine is exact on images like those of its scales, so has no other cache's."""
    plan, build = builders.plan_of(engine.built(case, most)[index], engine.INT8.function), engine.BUILDS[index]
    images = random_images(case.number("int8.compared"), largest_batch(plan), build.get("scales", build["strength"]))
    return check_outputs(plan, engine.models(case)[build["model"]], images, OWN_SCALES)


@lru_cache(maxsize=2)
def _error_and_agreement(plan: bytes) -> tuple[float, float]:
    """Return the relative error of an engine's outputs, and the share of images with the FP32 model's first class.

    Raises:
        Missed: it is an engine of another model, whose speed does not count either.
    """
    expected = np.load(reference().path(OUTPUTS), allow_pickle=False)
    found = run_plan(plan, held_out_images(), predicted)
    agreement = float(np.mean(found.argmax(1) == expected.argmax(1))) if found.shape == expected.shape else 0.0
    if agreement < THIS_MODEL:
        told = f"the lab's model's first class for {agreement:.0%} of the validation images"
        raise Missed("an engine that computes the lab's model", told, "build from the lab's ONNX file")
    return relative_error(found, expected), agreement


@RUN.hidden("int8.outputs", 0.5, "It answers as the FP32 model does")
def outputs(case: Case) -> str:
    error, agreement = _error_and_agreement(calibration.plan_of(case))
    found = f"outputs {error:.1%} off, the same first class for {agreement:.1%} of the validation images"
    if not error <= calibration.MOST_ERROR or agreement < calibration.LEAST_AGREEMENT:
        expected = f"at most {calibration.MOST_ERROR:.0%} off, the same for {calibration.LEAST_AGREEMENT:.0%} or more"
        raise Missed(expected, found, "compare your preprocessing with what the model was trained on")
    return found


@SPEED.hidden("int8.speed", 4, "As fast as the reference INT8 engine")
def speed(case: Case) -> Earned:
    plan, advice = calibration.plan_of(case), "look at the layers' precisions: INT8 makes the difference"
    _error_and_agreement(plan)
    builders.small_enough(plan, reference().bytes("resnet50.onnx"), builders.INT8_SIZE)
    return against_reference(case, plan, reference().path(calibration.PLAN), advice)


@SPEED.hidden("int8.faster_than_pytorch", 2, f"Over {builders.LEAST_SPEEDUP} times PyTorch FP32's speed")
def faster_than_pytorch(case: Case) -> str:
    plan = calibration.plan_of(case)
    _error_and_agreement(plan)
    return against_pytorch(case, plan, "is it an INT8 engine?")
