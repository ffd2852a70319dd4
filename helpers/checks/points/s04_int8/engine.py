"""build_engine_int8(onnx_path, engine_path, calibrator): an INT8 engine, never with the scales of another model."""

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.builder import Builder
from helpers.checks.points.case import Case
from helpers.checks.points.s04_int8.calibrator import FUNCTION as CALIBRATOR
from helpers.checks.points.s04_int8.calibrator import Noted, Notes, file_bytes, noting, random_images
from helpers.checks.points.task import Task
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.builds import as_bytes, recorded_builds
from helpers.checks.probes.student import one_each
from helpers.course.settings import PROFILE_BATCHES
from helpers.engine.backend import API
from helpers.toys.networks import shuffled

BATCHES = PROFILE_BATCHES
BATCH = BATCHES[1]  # images that TensorRT reads from each address: the middle of the profile
IMAGES = 2 * BATCH
_WEAK, _STRONG = 1.0, 1024.0  # the strength of images: so far apart that one's scales are of no use for the other

BUILDS = (
    {"model": 0, "path": "model.onnx", "engine": "one.engine", "cache": "own.cache", "strength": _WEAK},
    {"model": 0, "path": "copy.onnx", "engine": "one.engine", "cache": "own.cache", "strength": _STRONG},
    {"model": 1, "path": "copy.onnx", "engine": "two.engine", "cache": "own.cache", "strength": _STRONG},
    {"model": 1, "path": "copy.onnx", "engine": "two.engine", "cache": "own.table", "strength": _STRONG, "older": 0},
    {"model": 0, "path": "model.onnx", "engine": "one.engine", "cache": "own.cache", "strength": _WEAK},
)
REUSED = 1
STALE = {
    2: "the cache of the file that was at this path before",
    3: "a cache from elsewhere, with no digest beside it",
    4: "the cache of the file that was built between two builds of this one",
}


@probe
def random_calibrator(notebook: Notebook, folder: Path, seed: int) -> list[Any]:
    """Return the student's calibrator over random images, the further argument of build_engine_int8."""
    return [noting(notebook, random_images(seed, IMAGES), BATCH, folder / "model.cache", Notes())]


@probe
def int8_builds(notebook: Notebook, *, models: list[bytes], builds: list[dict[str, Any]], seed: int) -> list[Noted]:
    """Run build_engine_int8 several times in one folder, each time with a new calibrator.

    A build is {"model": index, "path", "engine", "cache": file names, "strength": of its images}; with "older" what
    that build calibrated is put in the cache first.
    """
    build, found = notebook[INT8.function], []
    with tempfile.TemporaryDirectory() as folder, recorded_builds() as asked:
        for number, wanted in enumerate(builds):
            source, target, cache = (Path(folder) / wanted[name] for name in ("path", "engine", "cache"))
            source.write_bytes(models[wanted["model"]])
            if "older" in wanted:
                cache.write_bytes(found[wanted["older"]]["used"] or b"")
            asked.clear()
            images, notes = random_images(seed + number, IMAGES, wanted["strength"]), Notes()
            notes.returned = as_bytes(build(source, target, noting(notebook, images, BATCH, cache, notes)))
            notes.file, notes.builds, notes.used = file_bytes(target), list(asked), notes.used or file_bytes(cache)
            found.append(asdict(notes))
    return found


INT8 = Builder("build_engine_int8", "int8", BATCHES, extra=random_calibrator)
ENGINE = Task("int8_engine", check="check_int8_engine", takes=(INT8.function, CALIBRATOR))
INT8.ask(ENGINE, plan=0.25, written=0.25, profile=0.25, failures=0.25)


def models(case: Case) -> list[bytes]:
    """Return a network, and one of the same names and size whose weights are in another order."""
    first = INT8.model(case)
    return [first, shuffled(first, case.number("int8.other"))]


def built(case: Case, most: int = len(BUILDS)) -> list[Noted]:
    """Return what `int8_builds` answers of the first of BUILDS; raise Missed where the very first did not calibrate."""
    builds = list(BUILDS[:most])
    reply = case.call(int8_builds, models=models(case), builds=builds, seed=case.number("int8.images"))
    found = one_each(reply.require(INT8.function), builds, "builds")
    if not found[0]["used"]:
        advice = "set the INT8 flag, and give the configuration the calibrator that was passed in"
        said = ("no scales from it", advice) if API == 10 else ("none in TensorRT 11", "it is a task of TensorRT 10")
        raise Missed("the calibrator to be asked for its images", *said)
    return found


@ENGINE.point("int8.precision", 0.5, "The convolutions run in INT8")
def precision(case: Case) -> str:
    return builders.in_int8(INT8.built(case), INT8.function)


@ENGINE.point("int8.calibrated", 0.5, "All the calibrator's images reach the engine")
def calibrated(case: Case) -> str:
    first = built(case, 1)[0]  # what a later build raises is no fault of the first
    if first["given"] * BATCH != IMAGES:
        advice = "first mend the points of the calibrator"
        raise Missed(f"{IMAGES // BATCH} batches of {BATCH}, then None", f"{first['given']} batches", advice)
    return f"{first['given']} batches of {BATCH}"


@ENGINE.point("int8.cache_reused", 0.5, "A second build reads the cache, and asks for no batch")
def cache_reused(case: Case) -> str:
    again = built(case)[REUSED]
    builders.asked_for(again)
    if again["given"]:
        what = "no batch for a copy of the ONNX file, with the same content at another path"
        advice = "the digest of the content decides, not the path or the date; keep it beside the cache"
        raise Missed(what, f"{again['given']} batches", advice)
    return "no batch asked for"


@ENGINE.point("int8.stale_cache", 0.5, "Another model's cache is not used")
def stale_cache(case: Case) -> str:
    found = built(case)
    for index, whose in STALE.items():
        others = [other for other in range(index) if BUILDS[other]["model"] != BUILDS[index]["model"]]
        if found[index]["used"] in [found[other]["used"] for other in others]:
            what = "a new calibration for an ONNX file of the same names and size, with other content"
            advice = "remove a cache unless the digest of this ONNX file's content lies beside it"
            raise Missed(what, f"{whose} was used", advice)
    return f"{len(STALE)} caches of other files not used"
