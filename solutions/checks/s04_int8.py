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


def preprocessed(picture: bytes) -> np.ndarray:
    """Return what [3, 224, 224] an image file becomes."""
    return Preprocessing.usual(*dataset.SHAPE).to_input(Image.open(io.BytesIO(picture)))


@dataset.pixels.in_grading
def pixels(case: Case) -> str:
    said, files = dataset.pixels(case), dataset.photos(case)  # which names the cause
    pairs = zip(dataset.steady(case, files), map(preprocessed, files), strict=True)
    worst = max(np.abs(image - right).max() if image.shape == right.shape else np.inf for image, right in pairs)
    if not worst <= dataset.TOLERANCE:
        raise Missed(
            f"every pixel within {dataset.TOLERANCE:g} of the reference preprocessing",
            f"a difference of {worst:.3g} (normalised values run from about -2.1 to 2.6)",
            "compare one image step by step: RGB, shorter side to 256, centre 224×224, divide by 255, mean, deviation",
        )
    return f"{said}; largest difference {worst:.1e} on {len(files)} images"


@calibrator.batches.in_grading
def batches(case: Case) -> str:
    said = calibrator.batches(case)
    if API == 11:
        return f"{said}; TensorRT 11 has no calibrators to calibrate with"
    model, seed = tiny_onnx(case.number("calibrator.network")), case.number("calibrator.real")
    asked = {"onnx": model, "seed": seed, "number": engine.IMAGES, "batches": list(engine.BATCHES)}
    found = case.call(calibrator.calibrate, **asked).require(calibrator.FUNCTION)
    return f"{said}; {_close_scales(found, model, seed)}"


@lru_cache(maxsize=4)
def trusted_scales(model: bytes, seed: int) -> dict[str, float]:
    """Return the scales that the pipeline's entropy calibration of `random_images` gives, by tensor name."""
    from trtlab.building.calibrate import CALIBRATORS  # TensorRT 11 has none

    images, size = random_images(seed, engine.IMAGES), engine.BATCH
    parts = ({"input": part} for part in np.split(images, len(images) // size))
    trusted = CALIBRATORS["entropy"]()
    given = CalibrationBatches("the images", size, len(images), {"input": images.shape[1:]}, parts)
    trusted.start(given, None, size, lambda said: None)
    calibrate_with(trusted, model, engine.BATCHES)
    trusted.free()
    return read_scales(trusted.written or b"")


def _close_scales(cache: bytes | None, model: bytes, seed: int) -> str:
    """Return evidence that a cache has the trusted calibration's scales; raise Missed where too few are."""
    found, expected = read_scales(cache or b""), trusted_scales(model, seed)
    close = [abs(np.log(max(found.get(name, 0), 1e-30) / scale)) <= CLOSE for name, scale in expected.items()]
    said = f"{sum(close)} of {len(close)} scales within {CLOSE:.0%} of the trusted calibration's"
    if np.mean(close) < MOST:
        advice = "is every batch used, unchanged, and the class derived from trt.IInt8EntropyCalibrator2?"
        raise Missed("the scales that entropy calibration with all the images given leads to", said, advice)
    return said


@engine.precision.in_grading
def precision(case: Case) -> str:
    said, model = engine.precision(case), reference().bytes("resnet50.onnx")
    build = partial(engine.INT8.built, case)
    return f"{said}; {small_on_a_gpu(build, engine.INT8.function, model, builders.INT8_SIZE)}"


@engine.calibrated.in_grading
def calibrated(case: Case) -> str:
    said, first = engine.calibrated(case), engine.built(case, 1)[0]
    return f"{said}; {_close_scales(first['used'], engine.models(case)[0], case.number('int8.images'))}"


@engine.cache_reused.in_grading
def cache_reused(case: Case) -> str:
    return f"{engine.cache_reused(case)}; {_exact(case, engine.REUSED, engine.BUILDS[0]['strength'])}"


@engine.stale_cache.in_grading
def stale_cache(case: Case) -> str:
    exact = [_exact(case, index, engine.BUILDS[index]["strength"]) for index in engine.STALE]
    return "; ".join([engine.stale_cache(case), *exact])


def _exact(case: Case, index: int, strength: float) -> str:
    """Return evidence that a build's engine is exact on images of this strength: else it has another cache's scales."""
    plan = builders.plan_of(engine.built(case)[index], engine.INT8.function)
    images = random_images(case.number("int8.compared"), largest_batch(plan), strength)
    return check_outputs(plan, engine.models(case)[engine.BUILDS[index]["model"]], images, OWN_SCALES)


@lru_cache(maxsize=2)
def _error_and_agreement(plan: bytes) -> tuple[float, float]:
    """Return the relative error of an engine's outputs, and the share of images with the FP32 model's first class."""
    expected = np.load(reference().path(OUTPUTS), allow_pickle=False)
    found = run_plan(plan, held_out_images(), predicted)
    if found.shape != expected.shape:
        raise Missed(f"outputs of shape {expected.shape}", str(found.shape), "build from the lab's ONNX file")
    return relative_error(found, expected), float(np.mean(found.argmax(1) == expected.argmax(1)))


@RUN.hidden("int8.outputs", 0.5, "It answers as the FP32 model does")
def outputs(case: Case) -> str:
    error, agreement = _error_and_agreement(calibration.plan_of(case))
    off = f"{error:.1%} off" if error < 1 else "off by more than their size"
    found = f"outputs {off}, the same first class for {agreement:.1%} of the validation images"
    if not error <= calibration.MOST_ERROR or agreement < calibration.LEAST_AGREEMENT:
        expected = f"at most {calibration.MOST_ERROR:.0%} off, the same for {calibration.LEAST_AGREEMENT:.0%} or more"
        raise Missed(expected, found, "compare your preprocessing with what the model was trained on")
    return found


def _this_model(case: Case) -> bytes:
    """Return the engine, however well calibrated; speed counts only for an engine of the lab's model."""
    plan = calibration.plan_of(case)
    agreement = _error_and_agreement(plan)[1]
    if agreement < THIS_MODEL:
        found = f"the lab's model's first class for {agreement:.0%} of the validation images"
        raise Missed("an engine that computes the lab's model", found, "first make its answers right")
    return plan


@SPEED.hidden("int8.speed", 4, "As fast as the reference INT8 engine")
def speed(case: Case) -> Earned:
    plan, advice = _this_model(case), "look at the layers' precisions: INT8 makes the difference"
    builders.small_enough(plan, reference().bytes("resnet50.onnx"), builders.INT8_SIZE)
    return against_reference(case, plan, reference().path(calibration.PLAN), advice)


@SPEED.hidden("int8.faster_than_pytorch", 2, f"Over {builders.LEAST_SPEEDUP} times PyTorch FP32's speed")
def faster_than_pytorch(case: Case) -> str:
    return against_pytorch(case, _this_model(case), "is it an INT8 engine?")
