"""build_engine_int8(onnx_path, engine_path, calibrator): an INT8 engine, never with another model's scales."""

import tempfile
from pathlib import Path
from typing import Any

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.builder import Builder
from helpers.checks.points.case import Case
from helpers.checks.points.pure import agree
from helpers.checks.points.s04_int8.calibrator import FUNCTION as CALIBRATOR
from helpers.checks.points.s04_int8.calibrator import file_bytes, noting, random_images
from helpers.checks.points.task import Task
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.builds import BuiltEngine, as_bytes, recorded_builds
from helpers.checks.probes.student import one_each
from helpers.course.settings import PROFILE_BATCHES
from helpers.engine.given import calibrate_with
from helpers.toys.networks import shuffled

BATCHES = PROFILE_BATCHES
BATCH = BATCHES[1]  # images that TensorRT reads from each address: the middle of the profile
IMAGES = 2 * BATCH
_WEAK, _STRONG = 1.0, 1024.0  # the strength of images: too far apart for one's scales to work for the other

BUILDS = (
    {"model": 0, "path": "model.onnx", "strength": _WEAK},
    {"model": 0, "path": "copy.onnx", "strength": _STRONG, "scales": _WEAK},
    {"model": 1, "path": "copy.onnx", "strength": _STRONG},
    {"model": 0, "path": "model.onnx", "strength": _WEAK},
    {"model": 1, "path": "copy.onnx", "strength": _STRONG, "unnoted": True},
)
REUSED = 1
STALE = {
    2: "the cache of the earlier file at this path",
    3: "the cache of another file, built between two builds of this one",
    4: "another file's cache without a digest",
}


class Noted(BuiltEngine):
    """The result of a build; `given` counts the calibrator's batches, `noted` says if the digest is in its file."""

    given: int
    noted: bool


@probe
def random_calibrator(notebook: Notebook, folder: Path, seed: int) -> list[Any]:
    """Return the student's calibrator over random images, the further argument of build_engine_int8."""
    return [noting(notebook, random_images(seed, IMAGES), BATCH, folder / "model.cache")[0]]


@probe
def int8_builds(notebook: Notebook, *, models: list[bytes], builds: list[dict[str, Any]], seed: int) -> list[Noted]:
    """Run build_engine_int8 several times in one folder with the same cache, each time with a new calibrator.

    A build is {"model": index, "path": file name, "strength": of its images}. "scales" is the strength of the images
    whose scales are right, if another. With "unnoted" the cache's digest is deleted first. A file whose content stays
    the same keeps its date.
    """
    build, found = notebook[INT8.function], list[Noted]()
    with tempfile.TemporaryDirectory() as folder, recorded_builds() as asked:
        target, cache = Path(folder) / "model.engine", Path(folder) / "own.cache"
        digest = Path(f"{cache}.sha256")
        for number, wanted in enumerate(builds):
            source, model = Path(folder) / wanted["path"], models[wanted["model"]]
            if file_bytes(source) != model:
                source.write_bytes(model)
            if "unnoted" in wanted:
                digest.unlink(missing_ok=True)
            asked.clear()
            images = random_images(seed + number, IMAGES, wanted["strength"])
            calibrator, given = noting(notebook, images, BATCH, cache)
            returned = build(source, target, calibrator)
            left = {"file": file_bytes(target), "builds": list(asked), "given": len(given), "noted": digest.is_file()}
            found.append({"returned": as_bytes(returned), "returned_type": type(returned).__name__, **left})
    return found


INT8 = Builder("build_engine_int8", "int8", BATCHES, extra=random_calibrator)
ENGINE = Task("int8_engine", check="check_int8_engine", takes=(INT8.function, CALIBRATOR))
INT8.ask(ENGINE, plan=0.25, written=0.25, profile=0.25, failures=0.25)


@probe
def calibrate(notebook: Notebook, *, onnx: bytes, seed: int) -> bytes | None:
    """Return the cache that TensorRT writes when it calibrates a model with the student's calibrator."""
    written, images = list[bytes | None](), random_images(seed, IMAGES)
    with tempfile.TemporaryDirectory() as folder:
        path, note = Path(folder) / "cache", lambda self, cache: written.append(as_bytes(cache))
        calibrate_with(noting(notebook, images, BATCH, path, write_calibration_cache=note)[0], onnx, BATCHES)
    return written[-1] if written else None


def models(case: Case) -> list[bytes]:
    """Return a network, and another of the same names and size with its weights shuffled."""
    first = INT8.model(case)
    return [first, shuffled(first, case.number("int8.other"))]


def built(case: Case, most: int = len(BUILDS)) -> list[Noted]:
    """Return the answer of `int8_builds` for the first of BUILDS."""
    builds = list(BUILDS[:most])
    reply = case.call(int8_builds, models=models(case), builds=builds, seed=case.number("int8.images"))
    return one_each(reply.require(INT8.function), builds, "builds")


@ENGINE.point("int8.precision", 0.5, "The convolutions run in INT8")
def precision(case: Case) -> str:
    return builders.in_int8(INT8.built(case), INT8.function)


@ENGINE.point("int8.calibrated", 0.5, "The build uses all the calibrator's batches")
def calibrated(case: Case) -> str:
    first = built(case, 1)[0]  # a later build's exception is not the first one's fault
    advice = builders.to_ask("INT8", "set the INT8 flag and the configuration's calibrator; fix the calibrator first")
    right = {f"batches of {BATCH} read": IMAGES // BATCH}
    agree(dict.fromkeys(right, first["given"]), right, f"a build with {IMAGES} images", advice)
    return f"{first['given']} batches of {BATCH}"


@ENGINE.point("int8.cache_reused", 0.5, "A second build uses the cache, and reads no batch")
def cache_reused(case: Case) -> str:
    first, again, *_ = built(case)
    builders.asked_for(again)
    found = {"the first": first["given"] > 0, "for a copy of the ONNX file at another path": again["given"] > 0}
    right = {"the first": True, "for a copy of the ONNX file at another path": False}
    advice = "compare the file's digest, not its path or date, with the one saved next to the cache"
    agree(found, right, "builds that read batches", advice)
    return "no batch read"


@ENGINE.point("int8.stale_cache", 0.5, "Another model's cache is not used")
def stale_cache(case: Case) -> str:
    found = built(case)
    if not found[0]["noted"]:
        raise Missed("the digest in <cache_file>.sha256 after a build", "no such file", "write the digest to this file")
    calibrated_again = {f"with {whose}": found[index]["given"] > 0 for index, whose in STALE.items()}
    advice = "delete the cache unless the digest saved next to it is this ONNX file's"
    what = "builds that calibrate again"
    agree(calibrated_again, dict.fromkeys(calibrated_again, True), what, advice)
    return f"{len(STALE)} caches of other files not used"
