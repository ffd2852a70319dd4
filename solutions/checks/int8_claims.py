"""Claims of step 4 on its engines: built in INT8 from the calibrator's images, and never from a stale cache."""

import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from helpers.backend import ENGINE
from helpers.errors import LabError
from helpers.lab import CALIBRATION_IMAGES, PROFILE_BATCHES
from helpers.missed import Missed
from helpers.points.builders import INT8_SIZE, facts_of, small_enough
from helpers.points.case import Case
from helpers.probes.calibration import read_scales
from helpers.probes.networks import EDGE, tiny_onnx
from helpers.probes.student import Student
from solutions.checks.builders import fails_cleanly
from solutions.checks.core.claim import Earned, claim
from solutions.checks.operations.calibration import random_images
from solutions.checks.trusted.engine_speed import against_pytorch, against_reference
from solutions.checks.trusted.plans import relative_error
from solutions.checks.trusted.reference import reference
from solutions.checks.trusted.reference_images import held_out_images
from solutions.pipeline.build import build_engine
from solutions.pipeline.build_options import BuildOptions
from solutions.pipeline.inference import InferenceEngine

FUNCTION = "build_engine_int8"
PLAN, CACHE = "resnet50_int8.engine", "resnet50_calib.cache"
IMAGES = 16
CLOSE, MOST = 0.03, 0.85
"""On a small network 85 % of the scales are within 3 % of the trusted ones: near ties may fall either way."""

FAR = 0.25
"""Median difference of the model's scales from the reference's; two samples of the images differ by a few percent."""

SAME_IMAGE = 1e-3
MOST_ERROR, LEAST_AGREEMENT = 0.17, 0.95
"""Right calibrations are 2 to 5 % off, those on pixels or noise that the network never sees more than 22 %."""

THIS_MODEL = 0.5


def _networks(case: Case) -> list[bytes]:
    """Return two models of the same tensor names and other weights."""
    return [tiny_onnx(case.number(f"int8.network{index}")) for index in range(2)]


def _images(case: Case, index: int) -> dict[str, Any]:
    return {"seed": case.number(f"int8.images{index}"), "number": IMAGES, "strength": (1.0, 3.0, 2.0)[index]}


def _builds(student: Student, case: Case) -> list[dict[str, Any]]:
    """Build five times.

    The first network; again, with other images at hand; the second network with a cache of its own; the second one
    with the first one's cache; the first one with a copy of the second one's cache, under a name never seen before.
    """
    own, other = "calibration.cache", "calibration.table"
    wanted = ((0, 0, own), (0, 1, own), (1, 2, other), (1, 2, own), (0, 0, "copied.cache"))
    builds = [{"model": model, "cache": cache, **_images(case, images)} for model, images, cache in wanted]
    builds[-1]["copy_of"] = other
    return student.call("build_int8", models=_networks(case), builds=builds).require(FUNCTION)


def _first(student: Student, case: Case) -> dict[str, Any]:
    build = {"model": 0, "cache": "calibration.cache", **_images(case, 0)}
    return student.call("build_int8", models=_networks(case), builds=[build]).require(FUNCTION)[0]


@lru_cache(maxsize=4)
def trusted_scales(model: bytes, seed: int, strength: float) -> dict[str, float]:
    """Return the scales that the pipeline's calibration of the same images gives, by tensor name."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model.onnx").write_bytes(model)
        np.save(folder / "images.npy", random_images(seed, IMAGES, strength))
        least, best, most = PROFILE_BATCHES
        options = BuildOptions(
            precision="int8",
            min_batch=least,
            opt_batch=best,
            max_batch=most,
            calib_npy=folder / "images.npy",
            calib_cache=folder / "cache",
        )
        build_engine(folder / "model.onnx", folder / "engine", options)
        return read_scales((folder / "cache").read_bytes())


def _differences(cache: bytes | None, expected: dict[str, float], what: str) -> np.ndarray:
    """Return |ln(scale / expected scale)| of every expected tensor; raise Missed where they are not all there."""
    if cache is None:
        raise Missed(f"{what} on disk", "no such file", "write what write_calibration_cache is given")
    found = read_scales(cache)
    lacking = [name for name in expected if not found.get(name, 0) > 0]
    if lacking:
        said = f"none for {len(lacking)} of {len(expected)} tensors, such as {lacking[0]}"
        raise Missed(f"the network's scales in {what}", said, "write the bytes of the cache as they are")
    return np.array([abs(np.log(found[name] / expected[name])) for name in expected])


def _check_scales(cache: bytes | None, case: Case, network: int, images: int, try_this: str) -> str:
    wanted = _images(case, images)
    expected = trusted_scales(_networks(case)[network], wanted["seed"], wanted["strength"])
    close = _differences(cache, expected, "the calibration cache") <= CLOSE
    if close.mean() < MOST:
        found = f"{close.sum()} of {close.size} within {CLOSE:.0%}"
        raise Missed("the scales of a calibration with all the images given", found, try_this)
    return f"{close.sum()} of {close.size} scales within {CLOSE:.0%} of the trusted calibration's"


@claim("int8.plan", cell="int8_engine", points=0.5, title="A serialized engine is returned and written; failures raise")
def plan_claim(student: Student, case: Case) -> str:
    built = _first(student, case)
    facts = _facts(built)
    if built["file"] != built["returned"]:
        found = "no file" if built["file"] is None else f"{len(built['file']):,} other bytes"
        raise Missed("the engine in a file at engine_path", found, "write the bytes that you return, in binary mode")
    fails_cleanly(student, "failing_build_int8", FUNCTION, _networks(case)[0])
    return f"{len(built['returned']):,} bytes, {facts['layers']} layers, file and return value equal"


def _facts(built: dict[str, Any]) -> dict[str, Any]:
    if built["returned"] is None:
        found = f"a {built['returned_type']}"
        raise Missed(f"{FUNCTION} to return the serialized engine", found, "None is a failed build: look at the log")
    return facts_of(built["returned"], f"what {FUNCTION} returns")


@claim("int8.profile", cell="int8_engine", points=0.5, title="The profile is (1, 8, 32)")
def profile(student: Student, case: Case) -> str:
    return _check_profile(_facts(_first(student, case)))


def _check_profile(facts: dict[str, Any]) -> str:
    expected = [[batch, 3, EDGE, EDGE] for batch in PROFILE_BATCHES]
    found = [profile.get("input") for profile in facts["profiles"]]
    if expected not in found:
        raise Missed(f"a profile of {expected} for input 'input'", str(found), "set and add one profile, as in step 3")
    return f"batches {', '.join(map(str, PROFILE_BATCHES))}"


@claim("int8.precision", cell="int8_engine", points=0.5, title="The layers really run in INT8")
def precision(student: Student, case: Case) -> str:
    built = _first(student, case)
    precisions = _facts(built)["precisions"]
    asked = bool(built["builds"]) and built["builds"][-1]["flags"].get("INT8", False)
    if precisions.get("int8") or (asked and ENGINE == "tensorrt"):  # it may find FP32 faster for so small a network
        return f"layers by precision: {precisions}"
    raise Missed("layers in INT8", f"layers by precision: {precisions}", "set the builder flag that allows INT8")


@claim("int8.calibrated", cell="int8_engine", points=0.5, title="Its scales come from all the calibrator's images")
def calibrated(student: Student, case: Case) -> str:
    built = _first(student, case)
    _facts(built)
    try_this = "is every batch used, and is the calibrator the one that was passed in?"
    return _check_scales(built["cache"], case, network=0, images=0, try_this=try_this)


@claim("int8.cache_reused", cell="int8_engine", points=0.5, title="A second build reads the cache, asks for no batch")
def cache_reused(student: Student, case: Case) -> str:
    first, second, *_ = _builds(student, case)
    _facts(second)
    if second["batches"]:
        found = f"{second['batches']} calls of get_batch"
        raise Missed("no batch in the second build of one ONNX file", found, "keep a cache that is of this ONNX file")
    if not first["cache"] or second["cache"] != first["cache"]:
        raise Missed("the same cache after the second build", "another one", "leave a cache that fits alone")
    return "no batch asked for, cache unchanged"


@claim("int8.stale_cache", cell="int8_engine", points=0.5, title="Another model's cache is not used")
def stale_cache(student: Student, case: Case) -> str:
    _, _, _, other, copied = _builds(student, case)
    for built, whose in ((other, "the other model's cache"), (copied, "a cache that came from elsewhere")):
        _facts(built)
        if not built["batches"]:
            raise Missed(
                "a new calibration for an ONNX file with other weights",
                f"{whose} was used",
                "names of tensors do not tell two trainings apart: remember, beside each cache, what content it is of",
            )
    again = "calibrate anew, and write the new cache"
    _check_scales(copied["cache"], case, network=0, images=0, try_this=again)
    return _check_scales(other["cache"], case, network=1, images=2, try_this=again)


def _artifact(student: Student) -> bytes:
    plan = student.artifact(PLAN)
    if plan is None:
        raise Missed(f"{PLAN} among the artifacts", "no such file", f"run the cell that calls {FUNCTION}")
    return plan


@claim("int8.artifact", cell="int8_calibration", points=0.5, title=f"{PLAN} is an INT8 engine for batches 1 to 32")
def artifact(student: Student, case: Case) -> str:
    plan = _artifact(student)
    _check_profile(facts_of(plan, PLAN))
    return small_enough(plan, reference().bytes("resnet50.onnx"), INT8_SIZE)


@claim("int8.images", cell="int8_calibration", points=0.5, title="It was calibrated on calibration images")
def images(student: Student, case: Case) -> str:
    prints = student.call("loader_prints").require("loader")
    if prints is None or not len(prints):
        raise Missed("images in the notebook's `loader`", "none", "call the loader of the calibration run `loader`")
    nearest = _nearest(prints, _prints("calibration", case))
    own = nearest[nearest >= 0]
    if len(own) < len(prints):
        held_out = (_nearest(prints[nearest < 0], _prints("validation", case)) >= 0).any()
        what = "from the validation split, for one" if held_out else "or not preprocessed as the model needs them"
        found = f"{len(prints) - len(own)} of {len(prints)} images from elsewhere, {what}"
        raise Missed("images of the calibration split, preprocessed", found, 'use load_dataset("digits").split(…)')
    different = len(set(own.tolist()))
    if different < CALIBRATION_IMAGES:
        raise Missed(f"{CALIBRATION_IMAGES} calibration images", f"{different}", "use CALIBRATION_IMAGES of them")
    return f"{different} images, all of the calibration split"


def _prints(split: str, case: Case) -> np.ndarray:
    return np.load(reference().path(f"{split}_prints.npy"), allow_pickle=False)


def _nearest(prints: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return for each print the index of the known image that it is of, -1 for none."""
    distances = [np.abs(known - found).max(axis=1) for found in prints]
    return np.array([int(row.argmin()) if row.min() < SAME_IMAGE else -1 for row in distances], dtype=int)


@claim("int8.scales", cell="int8_calibration", points=0.5, title="Its scales agree with the reference calibration")
def scales(student: Student, case: Case) -> str:
    expected = read_scales(reference().bytes(CACHE))
    median = float(np.median(_differences(student.artifact(CACHE), expected, CACHE)))
    if median > np.log1p(FAR):
        raise Missed(
            f"scales that differ by less than {FAR:.0%} (median) from those of other images of the same split",
            f"a median difference of {np.expm1(median):.0%}",
            "calibrate on many real images, preprocessed exactly as for inference",
        )
    return f"median difference {np.expm1(median):.1%}, {len(expected)} tensors"


@lru_cache(maxsize=2)
def _error_and_agreement(plan: bytes, outputs_path: Path) -> tuple[float, float]:
    """Return the relative error of an engine's outputs, and the share of images with the FP32 model's first class."""
    expected = np.load(outputs_path, allow_pickle=False)
    try:
        with InferenceEngine(plan) as engine:
            outputs = engine.predict(held_out_images())
    except LabError as error:
        raise Missed("an engine that runs", str(error), "check its input, output and profile") from error
    if outputs.shape != expected.shape:
        raise Missed(f"outputs of shape {expected.shape}", str(outputs.shape), "build from the lab's ONNX file")
    return relative_error(outputs, expected), float(np.mean(outputs.argmax(1) == expected.argmax(1)))


@claim("int8.outputs", cell="int8_calibration", points=0.5, title="It answers as the FP32 model does")
def outputs(student: Student, case: Case) -> str:
    error, agreement = _error_and_agreement(_artifact(student), reference().path("validation_outputs_100.npy"))
    found = f"outputs {error:.1%} off, the same first class for {agreement:.1%} of the validation images"
    if error > MOST_ERROR or agreement < LEAST_AGREEMENT:
        expected = f"at most {MOST_ERROR:.0%} and at least {LEAST_AGREEMENT:.0%}"
        raise Missed(expected, found, "compare your preprocessing with what the model was trained on")
    return found


def _this_model(student: Student, case: Case) -> bytes:
    """Return the engine, however well calibrated; speed counts only for an engine of the lab's model."""
    plan = _artifact(student)
    facts_of(plan, PLAN)
    _, agreement = _error_and_agreement(plan, reference().path("validation_outputs_100.npy"))
    if agreement < THIS_MODEL:
        found = f"the FP32 model's first class for {agreement:.0%} of the validation images"
        raise Missed("an engine that computes the lab's model", found, "first make its answers right")
    return plan


@claim("int8.speed", cell="int8_speed", points=4, title="As fast as the reference INT8 engine")
def speed(student: Student, case: Case) -> Earned:
    plan, advice = _this_model(student, case), "look at the layers' precisions: INT8 makes the difference"
    small_enough(plan, reference().bytes("resnet50.onnx"), INT8_SIZE)
    return against_reference(plan, reference().path(PLAN), advice)


@claim("int8.faster_than_pytorch", cell="int8_speed", points=2, title="Faster than PyTorch FP32")
def faster_than_pytorch(student: Student, case: Case) -> str:
    return against_pytorch(_this_model(student, case), "is it an INT8 engine?")
