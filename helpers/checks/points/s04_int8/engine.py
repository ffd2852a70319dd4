"""build_engine_int8(onnx_path, engine_path, calibrator): an INT8 engine, never with the scales of another model."""

from dataclasses import replace
from typing import Any

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.builders import Built
from helpers.checks.points.case import Case
from helpers.checks.points.point import Reported, point
from helpers.checks.points.s04_int8.builds import BATCH, BATCHES, FUNCTION, LONG_AGO, build_int8, failing_build_int8
from helpers.checks.probes.builds import plan_facts
from helpers.checks.probes.student import Reply
from helpers.course.settings import ONNX_FILE
from helpers.engine.backend import API
from helpers.toys.networks import retrained, rewired, tiny_onnx, with_ends

IMAGES = 2 * BATCH
_ENDS = 1 << 20  # bytes before and behind a network's weights that are the same in both files

_BUILDS = (
    {"model": 0, "path": "model.onnx", "cache": "own.cache", "images": 0},
    {"model": 0, "path": "copy.onnx", "cache": "own.cache", "images": 1, "engine": "0.engine", "new_session": True},
    {"model": 1, "path": "copy.onnx", "cache": "own.table", "images": 2, "times": 2},
    {"model": 0, "path": "other.onnx", "cache": "else/own.cache", "images": 0, "copy_of": 2, "fails": 0},
    {"model": 1, "path": "copy.onnx", "cache": "own.cache", "images": 2},
    {"model": 0, "path": "copy.onnx", "cache": "own.cache", "images": 1},
    {"model": 1, "path": ONNX_FILE, "cache": "own.table", "images": 0, "date": LONG_AGO + 1},
    {"model": 2, "path": "copy.onnx", "cache": "own.table", "images": 1},
    {"model": 2, "path": "copy.onnx", "cache": "own.table", "images": 1, "fails_late": 0},
    {"model": 0, "path": "copy.onnx", "cache": "own.table", "images": 0, "gone": True},
)
_STRENGTHS = (1.0, 96.0, 32.0)
"""Of the three sets of images: so far apart that wrong scales change an engine's outputs by far more than INT8 itself
does, since real TensorRT may choose another precision for a layer in each build."""

_REUSED, _TWICE = (1, 6), 2
_STALE = {
    3: "a cache that came from elsewhere",
    4: "the cache of a file that was at this path before",
    5: "the cache of the file that was built between two builds of this one",
    7: "the cache of a file with the same weights and another graph",
    8: "the cache that a failed build of another file had calibrated",
    9: "a cache that was removed",
}
_NEVER = ("the calibrator to be asked for its images", "no call of get_batch, and no cache that was read")


def networks(case: Case) -> list[bytes]:
    """Return a network, one with other weights, and that with another graph: equal names, size, first and last MB."""
    trained = tiny_onnx(case.number("int8.network"))
    other = retrained(trained)
    return [with_ends(model, _ENDS) for model in (trained, other, rewired(other))]


def images(case: Case, index: int, number: int = IMAGES) -> dict[str, Any]:
    """Return the arguments of `random_images` for one of three sets of images."""
    return {"seed": case.number(f"int8.images{index}"), "number": number, "strength": _STRENGTHS[index]}


def strength(index: int) -> float:
    """Return how strong the images of one of the builds are."""
    return _STRENGTHS[_BUILDS[index]["images"]]


def build(case: Case, index: int) -> Built:
    """Return what `build_int8` answers for one of the builds; raise Missed where that one raised."""
    return _sound(_builds(case), index)


def _builds(case: Case) -> Reply:
    builds = [{**wanted, **images(case, wanted["images"])} for wanted in _BUILDS]
    return case.call(build_int8, models=networks(case), builds=builds, batch=BATCH)


def _sound(reply: Reply, index: int) -> Built:
    builds = reply.require(FUNCTION)
    if index >= len(builds):
        raise Missed(f"an answer for build {index + 1}", f"{len(builds)} of them", "restart the kernel, run all cells")
    built = builds[index]
    return replace(reply, value=built, error=built["error"]).require(FUNCTION)


def first(case: Case) -> Built:
    """Return the first build, of a network that was not built before."""
    return build(case, 0)


def built_of(case: Case, onnx: bytes, *, fresh: bool = False) -> Built:
    """Return what `build_int8` answers for a model that was not built before; raise Missed where that raised.

    `fresh`: of another build.
    """
    wanted = {**_BUILDS[0], **images(case, 0)}
    return _sound(case.call(build_int8, fresh=fresh, models=[onnx], builds=[wanted], batch=BATCH), 0)


def used(built: Built) -> bytes:
    """Return the cache whose scales an engine got: the one that TensorRT made, else the one that it read."""
    scales = built["handed"] or built["read"]
    if not scales and API == 11:
        raise Missed(_NEVER[0], "none in TensorRT 11, which has no calibrators", "it is a task of TensorRT 10")
    if not scales:
        raise Missed(*_NEVER, "set the INT8 flag, and give the configuration the calibrator that was passed in")
    return scales


@point(
    "A serialized engine is returned and written to engine_path",
    Reported(builders.WRITTEN, 0.2, lambda case: builders.written(first(case))),
)
def plan(case: Case) -> str:
    return builders.returned(first(case), FUNCTION)


@point("The profile is (1, 8, 32)")
def profile(case: Case) -> str:
    return builders.profile_is(builders.plan_of(first(case), FUNCTION), BATCHES)


@point("The convolutions run in INT8")
def precision(case: Case) -> str:
    return builders.in_int8(first(case), FUNCTION)


@point("All the calibrator's images reach the engine")
def all_images(case: Case) -> str:
    return _read_all(first(case), IMAGES, BATCH)


def uses_all_images(case: Case, batch: int) -> str:
    """Return evidence that calibrators with batches of another size lose no image with this builder."""
    wanted = {**_BUILDS[0], **images(case, 0, 2 * batch)}
    reply = case.call(build_int8, models=networks(case), builds=[wanted], batch=batch)
    return _read_all(_sound(reply, 0), 2 * batch, batch)


def _read_all(built: Built, number: int, batch: int) -> str:
    used(built)
    facts = plan_facts(builders.plan_of(built, FUNCTION))
    middles = [shapes[1][0] for profile in facts["profiles"] for shapes in profile.values()]
    middle = builders.asked_for(built)["calibration_batch"] or next(iter(middles), 0)
    given, size = built["given"], min(middle, batch)
    if given * size != number or middle > batch:
        found = f"{given} batches of which TensorRT read {middle} images each" + ", and no end" * built["endless"]
        advice = "TensorRT reads as many images of each batch as the profile's middle shape says; a batch is as large"
        raise Missed(f"{number} images, in batches of {batch}", found, advice)
    return f"{given} batches of {size}"


@point("A second build reads the cache, and asks for no batch")
def cache_reused(case: Case) -> str:
    first(case)
    for index in _REUSED:
        _reused(case, index)
    if build(case, _TWICE)["calibrations"] > 1:
        advice = (
            "leave the calibrator's methods as they are: it may serve another build, and reads its file at each call"
        )
        raise Missed("one calibration for two builds with one calibrator", "one for each", advice)
    return "no batch asked for, cache unchanged"


def _reused(case: Case, index: int) -> None:
    """Raise Missed where a build had no calibrator, asked for batches, or used or left scales not its network's."""
    again = build(case, index)
    if builders.asked_for(again)["calibrator"] is None:
        raise Missed("the calibrator in each build's configuration", "none", "it reads the cache: TensorRT asks it")
    if again["given"]:
        expected = "no batch where the cache is of the same content: in a new kernel, whatever the paths and dates"
        advice = (
            "keep a digest of the content in a file beside each cache; a new kernel has no old variable, another hash()"
        )
        raise Missed(expected, f"{again['given']} batches; {_why(again)}", advice)
    if used(again) not in _own_scales(case, index) or again["cache"] != again["cache_before"]:
        raise Missed("the same cache in and after another build", "another one", "leave a cache that fits alone")


def _why(built: Built) -> str:
    if built["cache_before"] is None:
        return "the build before left no cache"
    if not built["there"]:
        return "the cache was removed before TensorRT asked for it"
    return "TensorRT could not use what was read" if built["read"] else "read_calibration_cache did not give it"


@point("Another model's cache is not used")
def stale_cache(case: Case) -> str:
    first(case)
    said = [_calibrated_anew(case, index, whose) for index, whose in _STALE.items()]
    return "; ".join(said)


def _calibrated_anew(case: Case, index: int, whose: str) -> str:
    """Return evidence that a build used scales of its own network; a cache of its own from earlier on is one too."""
    built = build(case, index)
    scales, expected = used(built), "a new calibration for an ONNX file of the same names and size, with other content"
    advice = "keep the digest of the whole ONNX file under each cache's whole name; remove both where they do not fit"
    if not built["given"] and scales not in _own_scales(case, index):
        raise Missed(expected, f"{whose} was used", advice)
    if built["cache"] not in (scales, None) and built["cache"] == built["cache_before"]:
        raise Missed("the new scales in the place of the old", "the old cache", "let the calibrator write its file")
    return f"{whose}: {built['given']} batches"


def _own_scales(case: Case, index: int) -> list[bytes]:
    """Return the caches that TensorRT wrote in the builds of the same network before this one."""
    made, model = _builds(case).require(FUNCTION)[:index], _BUILDS[index]["model"]
    return [built["handed"] for built, wanted in zip(made, _BUILDS, strict=False) if wanted["model"] == model]


@point("A build that fails raises, and an earlier engine file stays", builders.FAILURES)
def failures(case: Case) -> str:
    model = networks(case)[0]
    said = [builders.refuses(case, failing_build_int8, FUNCTION, onnx) for onnx in (None, model)]
    builders.keeps_files(case, failing_build_int8, FUNCTION, model)
    return "; ".join(said)
