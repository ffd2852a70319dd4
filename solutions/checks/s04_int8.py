"""Claims of step 4: its points on fresh images and networks, and what the trusted preprocessing and calibration say."""

import io
import math
from functools import lru_cache, partial
from itertools import product
from pathlib import Path

import numpy as np
from PIL import Image

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.case import Case
from helpers.checks.points.point import Point, Reported
from helpers.checks.points.s04_int8 import builds, calibration, calibrator, dataset, engine, real
from helpers.checks.points.s04_int8.calibration import read_scales
from helpers.course.settings import ONNX_FILE
from helpers.engine.backend import API
from helpers.engine.given import calibrate_with
from helpers.tools.outputs import relative_error, shown_error
from helpers.toys.networks import EDGE
from solutions.checks.core.claim import Earned, award, claim
from solutions.checks.trusted.engine_speed import TimedOn, against_pytorch, against_reference
from solutions.checks.trusted.plans import largest_batch, run_plan, small_on_a_gpu
from solutions.checks.trusted.reference import reference
from solutions.checks.trusted.reference_images import held_out_images
from solutions.checks.trusted.same_tensors import scale_differences
from trtcpu.errors import LabError
from trtlab.building.calibration_data import CalibrationBatches
from trtlab.engines.served import predicted
from trtlab.images.preprocessing import MEAN, STD

DATASET_CELL, CALIBRATOR_CELL, ENGINE_CELL = "calibration_dataset", "calibrator", "int8_engine"
RUN_CELL, SPEED_CELL = "int8_calibration", "int8_speed"

CLOSE, MOST = 0.03, 0.85
"""On a small network 85 % of the scales are within 3 % of the trusted ones: near ties may fall either way."""

NEARER = 0.5
"""Half way from what an engine with the right scales computes to what one with the wrong ones does."""

THIS_MODEL = 0.5
"""Share of the images that an engine of the lab's model, however badly calibrated, gives the FP32 model's class."""

_NOISE, _OF_OWN = 0.1, 1.5
"""Deviation of what is added to the images that plans are timed on, and how much further off they may be there."""

COMPARED_IMAGES = 2


def references(png: bytes) -> list[np.ndarray]:
    """Return what [3, 224, 224] an image may become: Pillow's resize and crop, with every way of rounding sizes."""
    image = Image.open(io.BytesIO(png)).convert("RGB")
    ratio = 256 / min(image.size)
    found = []
    for whole, half in product((int, round, math.ceil), repeat=2):
        width, height = (256 if edge == min(image.size) else whole(edge * ratio) for edge in image.size)
        resized = image.resize((width, height), Image.Resampling.BILINEAR)
        left, top = half((width - EDGE) / 2), half((height - EDGE) / 2)
        pixels = np.asarray(resized.crop((left, top, left + EDGE, top + EDGE)), np.float32) / 255
        found.append(((pixels - MEAN) / STD).transpose(2, 0, 1))
    return found


award("dataset.tensor", 0.5, dataset.tensor, cell=DATASET_CELL)


@claim("dataset.pixels", cell=DATASET_CELL, points=2, title="Preprocessing equals the reference to 1e-5")
def pixels(case: Case) -> str:
    for point in (dataset.colours, dataset.cropped, dataset.steady):  # they name the cause
        point(case)
    files = dataset.photos(case)
    images = {name: image for name, (image, _) in dataset.read(case, files).items()}
    worst = max(_difference(images[name], png) for name, png in files.items())
    if not worst <= dataset.TOLERANCE:
        raise Missed(
            f"every pixel within {dataset.TOLERANCE:g} of the reference preprocessing",
            f"a difference of {worst:.3g} (normalised values run from about -2.1 to 2.6)",
            "compare one image step by step: RGB, shorter side to 256, centre 224×224, divide by 255, mean, deviation",
        )
    return f"largest difference {worst:.1e} on {len(files)} images"


def _difference(image: np.ndarray, png: bytes) -> float:
    if image.shape != dataset.SHAPE:
        return math.inf
    return min(float(np.abs(image - right).max()) for right in references(png))


award("dataset.greyscale", 0.5, dataset.converted, cell=DATASET_CELL)
award("dataset.number", 0.5, dataset.number, cell=DATASET_CELL)
award("dataset.spread", 0.5, dataset.spread, cell=DATASET_CELL)

_AT_THE_ADDRESS = Reported(
    "the very values at each address, closer than the scales of a real calibration can tell",
    0.2,
    calibrator.batches.judge,
)


@claim(
    "calibrator.batches",
    cell=CALIBRATOR_CELL,
    points=1.5,
    title=calibrator.batches.title,
    reported=_AT_THE_ADDRESS,
)
def batches(case: Case) -> str:
    try:
        return _calibrates(case)
    except Missed:
        calibrator.batches(case)  # where it sees what is wrong, its words say more
        raise


def _calibrates(case: Case) -> str:
    """Return evidence that TensorRT, calibrating with the student's class, reads the loader's images."""
    if API == 11:
        return "not tried: TensorRT 11 has no calibrators"
    cache = real.calibrated(case) or b""
    kind = "minmax" if b"MinMaxCalibration" in cache.partition(b"\n")[0] else "entropy"  # which it is, is asked below
    said = _close_scales(read_scales(cache), _trusted(real.network(case), real.images(case), kind=kind))
    return f"a real calibration on its batches: {said}"


award("calibrator.last_batch", 0.75, calibrator.last_batch, cell=CALIBRATOR_CELL)
award("calibrator.end", 0.75, calibrator.end, cell=CALIBRATOR_CELL)
award("calibrator.again", 0.5, calibrator.again, cell=CALIBRATOR_CELL)
award("calibrator.cache_written", 0.25, calibrator.cache_written, cell=CALIBRATOR_CELL)
award("calibrator.cache_read", 0.25, calibrator.cache_read, cell=CALIBRATOR_CELL)

award("int8.plan", 0.25, engine.plan, cell=ENGINE_CELL)
award("int8.failures", 0.25, engine.failures, cell=ENGINE_CELL)
award("int8.profile", 0.5, engine.profile, cell=ENGINE_CELL)


@claim("int8.precision", cell=ENGINE_CELL, points=0.5, title=engine.precision.title)
def precision(case: Case) -> str:
    said, model = engine.precision(case), reference().bytes("resnet50.onnx")
    return f"{said}; {small_on_a_gpu(partial(engine.built_of, case), engine.FUNCTION, model, builders.INT8_SIZE)}"


@lru_cache(maxsize=4)
def trusted_scales(model: bytes, seed: int, number: int, strength: float) -> dict[str, float]:
    """Return the scales that the pipeline's calibration of `builds.random_images` gives, by tensor name."""
    return _trusted(model, builds.random_images(seed, number, strength), engine.BATCHES)


def _trusted(
    model: bytes, images: np.ndarray, batches: tuple[int, int, int] = real.BATCHES, kind: str = "entropy"
) -> dict[str, float]:
    """Return the scales that the pipeline's calibrator of a kind gives, in batches of the profile's middle."""
    from trtlab.building.calibrate import CALIBRATORS  # TensorRT 11 has none

    size, number = batches[1], len(images) // batches[1]
    parts = ({"input": part} for part in np.split(images[: number * size], number))
    calibrator = CALIBRATORS[kind]()
    given = CalibrationBatches("the images", size, len(images), {"input": images.shape[1:]}, parts)
    calibrator.start(given, None, size, lambda said: None)
    calibrate_with(calibrator, model, batches)
    calibrator.free()
    return read_scales(calibrator.written or b"")


@claim("int8.calibrated", cell=ENGINE_CELL, points=0.5, title="Its scales come from all the calibrator's images")
def calibrated(case: Case) -> str:
    said, built = engine.all_images(case), engine.first(case)
    expected = trusted_scales(engine.networks(case)[0], **engine.images(case, 0))
    return f"{said}; {_close_scales(read_scales(engine.used(built)), expected)}"


def _close_scales(found: dict[str, float], expected: dict[str, float]) -> str:
    """Return evidence that scales are those of the trusted calibration; raise Missed where too few are."""
    close = [abs(np.log(max(found.get(name, 0), 1e-30) / scale)) <= CLOSE for name, scale in expected.items()]
    if np.mean(close) < MOST:
        wanted = "the scales that entropy calibration with all the images given leads to"
        advice = "is every batch used, unchanged, and the class derived from trt.IInt8EntropyCalibrator2?"
        raise Missed(wanted, f"{sum(close)} of {len(close)} within {CLOSE:.0%}", advice)
    return f"{sum(close)} of {len(close)} scales within {CLOSE:.0%} of the trusted calibration's"


def _by_its_plans(case: Case, triples: tuple[tuple[int, int, int], ...], point: Point) -> str:
    """Return evidence that builds computed as the one whose scales they must have, not as the one whose they may not.

    The networks of the builds differ by one pair of weights, and the images by their strength: what an engine computes
    of images as strong as those that it is meant for tells its scales. `triples` holds for each build those two.
    """
    try:
        ratios = [_nearer(case, *triple) for triple in triples]
    except Missed:
        point(case)  # where it sees what is wrong, its words say more
        raise
    return f"of the way from one engine to the other: {', '.join(f'{ratio:.0%}' for ratio in ratios)}"


def _nearer(case: Case, build: int, right: int, wrong: int) -> float:
    found, like, unlike = (_outputs_of(case, index, engine.strength(right)) for index in (build, right, wrong))
    apart = relative_error(unlike, like)
    if not apart > 0:
        expected = f"other scales in build {wrong + 1} than in build {right + 1}, whose networks and images are others"
        raise Missed(expected, "no difference between them", "first mend what the points above say of the calibration")
    ratio = relative_error(found, like) / apart
    if not ratio < NEARER:
        expected = f"build {build + 1} to have the scales of build {right + 1}, not those of build {wrong + 1}"
        said = f"outputs {ratio:.0%} of the way from that one to the other"
        raise Missed(expected, said, "scales belong to one ONNX file: keep a digest of it beside each cache")
    return ratio


def _outputs_of(case: Case, index: int, strength: float) -> np.ndarray:
    plan = builders.plan_of(engine.build(case, index), engine.FUNCTION)
    return run_plan(plan, builds.random_images(case.number("int8.compared"), largest_batch(plan), strength))


_NOTES = "what TensorRT and the calibrator said to each other: noted in the student's process"


@claim(
    "int8.cache_reused",
    cell=ENGINE_CELL,
    points=0.5,
    title=engine.cache_reused.title,
    reported=Reported(_NOTES, 0.3, engine.cache_reused.judge),
)
def cache_reused(case: Case) -> str:
    return _by_its_plans(case, ((1, 0, 2), (6, 2, 0)), engine.cache_reused)


@claim(
    "int8.stale_cache",
    cell=ENGINE_CELL,
    points=0.5,
    title=engine.stale_cache.title,
    reported=Reported(_NOTES, 0.3, engine.stale_cache.judge),
)
def stale_cache(case: Case) -> str:
    return _by_its_plans(case, ((3, 0, 2), (4, 2, 0)), engine.stale_cache)


@claim("int8.artifact", cell=RUN_CELL, points=0.5, title=calibration.artifact.title)
def artifact(case: Case) -> str:
    return calibration.is_int8(calibration.plan_of(case), reference().bytes("resnet50.onnx"))


_LOADER = Reported("the images that the loader gives: the student's process says what they are")


@claim("int8.images", cell=RUN_CELL, points=0.5, title=calibration.images.title, reported=_LOADER)
def images(case: Case) -> str:
    fits, prints = calibration.loader_fits(case), calibration.loader_images(case)
    splits = [np.load(reference().path(f"{name}_prints.npy"), allow_pickle=False) for name in _SPLITS]
    said = calibration.of_the_split(prints, *splits)
    calibration.none_held_out(case, *splits)
    return f"{said}; {fits}"


_SPLITS = ("calibration", "validation")


@claim("int8.scales", cell=RUN_CELL, points=0.5, title="Its scales agree with the reference calibration")
def scales(case: Case) -> str:
    calibration.input_range(case)
    own = calibration.cache_of(case), case.artifact(ONNX_FILE) or reference().bytes(ONNX_FILE)
    trusted = read_scales(reference().bytes(calibration.CACHE)), reference().bytes(ONNX_FILE)
    differences = scale_differences(own, trusted, held_out_images()[:COMPARED_IMAGES])
    median = float(np.median(differences))
    if median > np.log1p(calibration.FAR):
        raise Missed(
            f"scales that differ by less than {calibration.FAR:.0%} (median) from those of other images of the split",
            f"a median difference of {np.expm1(median):.0%}",
            "calibrate on many real images, preprocessed exactly as for inference",
        )
    return f"median difference {np.expm1(median):.1%}, {len(differences)} tensors"


@lru_cache(maxsize=2)
def _error_and_agreement(plan: bytes, outputs_path: Path) -> tuple[float, float]:
    """Return the relative error of an engine's outputs, and the share of images with the FP32 model's first class."""
    expected = np.load(outputs_path, allow_pickle=False)
    try:
        outputs = predicted(plan, held_out_images())
    except LabError as error:
        raise Missed("an engine that runs", str(error), "check its input, output and profile") from error
    if outputs.shape != expected.shape:
        raise Missed(f"outputs of shape {expected.shape}", str(outputs.shape), "build from the lab's ONNX file")
    return relative_error(outputs, expected), float(np.mean(outputs.argmax(1) == expected.argmax(1)))


@claim("int8.outputs", cell=RUN_CELL, points=0.5, title="It answers as the FP32 model does")
def outputs(case: Case) -> str:
    error, agreement = _error_and_agreement(calibration.plan_of(case), reference().path(_FP32_OUTPUTS))
    off = f"{error:.1%} off" if error < 1 else "off by more than their size"
    found = f"outputs {off}, the same first class for {agreement:.1%} of the validation images"
    if not error <= calibration.MOST_ERROR or agreement < calibration.LEAST_AGREEMENT:
        expected = f"at most {calibration.MOST_ERROR:.0%} off, the same for {calibration.LEAST_AGREEMENT:.0%} or more"
        raise Missed(expected, found, "compare your preprocessing with what the model was trained on")
    return found


_FP32_OUTPUTS = "validation_outputs_100.npy"


def _this_model(case: Case) -> bytes:
    """Return the engine, however well calibrated; speed counts only for an engine of the lab's model."""
    plan = calibration.plan_of(case)
    _, agreement = _error_and_agreement(plan, reference().path(_FP32_OUTPUTS))
    _agrees(agreement, "the validation images")
    return plan


def _agrees(agreement: float, where: str) -> None:
    if agreement < THIS_MODEL:
        found = f"the lab's model's first class for {agreement:.0%} of {where}"
        raise Missed("an engine that computes the lab's model", found, "first make its answers right")


def _timed_on(case: Case, plan: bytes) -> TimedOn:
    """Return validation images with a little noise of the case, which leaves their classes as they are.

    The noise can be recognised. So a plan must be about as exact there as it is on the images without it.
    """
    random, known = case.random("int8.timed"), held_out_images()
    own, _ = _error_and_agreement(plan, reference().path(_FP32_OUTPUTS))

    def images(number: int) -> np.ndarray:
        chosen = known[random.integers(len(known), size=number)]
        return chosen + _NOISE * random.standard_normal(chosen.shape, dtype=np.float32)

    def judge(outputs: np.ndarray, expected: np.ndarray) -> None:
        agreement = float(np.mean(outputs.argmax(1) == expected.argmax(1)))
        _agrees(agreement, "the images that it was timed on")
        error, limit = relative_error(outputs, expected), _OF_OWN * own + calibration.MOST_ERROR
        if not error <= limit:
            found = f"a relative error of {shown_error(error)} on the images that it was timed on"
            advice = "an engine must compute the network for every image, also while it is timed"
            raise Missed(f"the lab's model's outputs within {limit:.1%}", found, advice)

    return TimedOn(images, judge)


@claim("int8.speed", cell=SPEED_CELL, points=4, title="As fast as the reference INT8 engine")
def speed(case: Case) -> Earned:
    plan, advice = _this_model(case), "look at the layers' precisions: INT8 makes the difference"
    builders.small_enough(plan, reference().bytes("resnet50.onnx"), builders.INT8_SIZE)
    return against_reference(plan, reference().path(calibration.PLAN), advice, _timed_on(case, plan))


@claim(
    "int8.faster_than_pytorch",
    cell=SPEED_CELL,
    points=2,
    title=f"Over {builders.LEAST_SPEEDUP} times PyTorch FP32's speed",
)
def faster_than_pytorch(case: Case) -> str:
    plan, model = _this_model(case), reference().bytes("resnet50.onnx")
    return against_pytorch(plan, model, "is it an INT8 engine?", _timed_on(case, plan))
