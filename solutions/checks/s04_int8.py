"""Hidden points of step 4: the trusted preprocessing and calibration, the engine's outputs and speed."""

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
"""On a small network at least 85 % of the scales are within 3 % of the trusted ones; near ties may differ."""

OWN_SCALES = 0.7
"""Relative error of a small network's engine on images as strong as those of its scales. It was 1 to 42 % in 360 right
builds, and 99 % or more with the scales of the other images."""

THIS_MODEL = 0.5
"""Share of the images with the FP32 model's class that even a badly calibrated engine of the lab's model reaches."""


@dataset.pixels.in_grading
def pixels(case: Case) -> str:
    said, files, usual = dataset.pixels(case), dataset.photos(case), Preprocessing.usual(*dataset.SHAPE)
    right = [usual.to_input(Image.open(io.BytesIO(picture))) for picture in files]
    what = f"every pixel within {dataset.TOLERANCE:g} of the reference preprocessing"
    advice = "compare one image step by step: RGB, shorter side to 256, centre 224×224, divide by 255, mean, deviation"
    dataset.alike(dataset.steady(case, files), right, what, advice)
    return f"{said}; {len(files)} images equal the reference"


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
        raise Missed("the scales of an entropy calibration with all images", told, "check that every batch is used")
    return f"{said}; {told}"


def trusted_scales(model: bytes, seed: int) -> dict[str, float]:
    """Return the scales of the pipeline's entropy calibration on `random_images`, by tensor name."""
    images, trusted = random_images(seed, engine.IMAGES), new_calibrator("entropy")
    parts = ({"input": part} for part in np.split(images, len(images) // engine.BATCH))
    given = CalibrationBatches("the images", engine.BATCH, len(images), {"input": images.shape[1:]}, parts)
    trusted.start(given, None, lambda said: None)
    calibrate_with(trusted, model, engine.BATCHES)
    return read_scales(trusted.written or b"")


@engine.precision.in_grading
def precision(case: Case) -> str:
    said, build = engine.precision(case), partial(engine.INT8.built, case)
    return f"{said}; {small_on_a_gpu(build, engine.INT8.function, case.number('int8.wide'), builders.INT8_SIZE)}"


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
    """Return evidence that a build's engine is exact on images like those of its scales, so used no other cache."""
    plan, build = builders.plan_of(engine.built(case, most)[index], engine.INT8.function), engine.BUILDS[index]
    images = random_images(case.number("int8.compared"), largest_batch(plan), build.get("scales", build["strength"]))
    return check_outputs(plan, engine.models(case)[build["model"]], images, OWN_SCALES)


@lru_cache(maxsize=2)
def _error_and_agreement(plan: bytes) -> tuple[float, float]:
    """Return the relative error of an engine's outputs, and the share of images with the FP32 model's top class.

    Raises:
        Missed: it is an engine of another model; its speed does not count either.
    """
    expected = np.load(reference().path(OUTPUTS), allow_pickle=False)
    found = run_plan(plan, held_out_images(), predicted)
    agreement = float(np.mean(found.argmax(1) == expected.argmax(1))) if found.shape == expected.shape else 0.0
    if agreement < THIS_MODEL:
        told = f"the same top class as the lab's model for {agreement:.0%} of the validation images"
        raise Missed("an engine of the lab's model", told, "build from the lab's ONNX file, check the preprocessing")
    return relative_error(found, expected), agreement


@RUN.hidden("int8.outputs", 0.5, "The engine's outputs are close to the FP32 model's")
def outputs(case: Case) -> str:
    error, agreement = _error_and_agreement(calibration.plan_of(case))
    found = f"outputs {error:.1%} off, the same top class for {agreement:.1%} of the validation images"
    if not error <= calibration.MOST_ERROR or agreement < calibration.LEAST_AGREEMENT:
        expected = (
            f"at most {calibration.MOST_ERROR:.0%} off, the same class for {calibration.LEAST_AGREEMENT:.0%} or more"
        )
        raise Missed(expected, found, "compare your preprocessing with that of the model's training")
    return found


@SPEED.hidden("int8.speed", 4, "As fast as the reference INT8 engine")
def speed(case: Case) -> Earned:
    plan, advice = calibration.plan_of(case), "check that the layers run in INT8"
    _error_and_agreement(plan)
    builders.small_enough(plan, reference().bytes("resnet50.onnx"), builders.INT8_SIZE)
    return against_reference(case, plan, reference().path(calibration.PLAN), advice)


@SPEED.hidden("int8.faster_than_pytorch", 2, f"More than {builders.LEAST_SPEEDUP} times PyTorch FP32's speed")
def faster_than_pytorch(case: Case) -> str:
    plan = calibration.plan_of(case)
    _error_and_agreement(plan)
    return against_pytorch(case, plan, "check that it is an INT8 engine")
