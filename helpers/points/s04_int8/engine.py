"""build_engine_int8(onnx_path, engine_path, calibrator): an INT8 engine, never with the scales of another model."""

import os
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from helpers.backend import API
from helpers.lab import ONNX_FILE, PROFILE_BATCHES
from helpers.missed import Missed
from helpers.points import builders
from helpers.points.builders import Built
from helpers.points.case import Case
from helpers.points.point import Reported, point
from helpers.points.s04_int8.calibrator import FUNCTION as CALIBRATOR
from helpers.points.s04_int8.dataset import SHAPE
from helpers.points.s04_int8.runs import file_bytes, is_end, loader_of
from helpers.points.s04_int8.session import in_new_session
from helpers.probes.answer import Notebook, probe
from helpers.probes.builds import as_bytes, failed_build, plan_facts, recorded_builds
from helpers.probes.frames import said, where
from helpers.probes.networks import retrained, rewired, tiny_onnx, with_ends
from helpers.probes.student import Reply

__all__ = [
    "BATCH",
    "BATCHES",
    "FUNCTION",
    "IMAGES",
    "all_images",
    "build",
    "built_of",
    "cache_reused",
    "failures",
    "first",
    "images",
    "networks",
    "plan",
    "precision",
    "profile",
    "random_images",
    "stale_cache",
    "strength",
    "used",
    "uses_all_images",
]

FUNCTION = "build_engine_int8"
BATCHES = PROFILE_BATCHES
BATCH = BATCHES[1]
"""Images that TensorRT reads from each address: the middle of the profile."""

IMAGES = 2 * BATCH
_SPARE_BATCHES = 8  # a calibrator that gives more than its loader holds is stopped, else the build never ends
_ENDS = 1 << 20  # bytes before and behind a network's weights that are the same in both files
_LONG_AGO = 1_600_000_000  # the date of every ONNX file but one

_BUILDS = (
    {"model": 0, "path": "model.onnx", "cache": "own.cache", "images": 0},
    {"model": 0, "path": "copy.onnx", "cache": "own.cache", "images": 1, "engine": "0.engine", "new_session": True},
    {"model": 1, "path": "copy.onnx", "cache": "own.table", "images": 2, "times": 2},
    {"model": 0, "path": "other.onnx", "cache": "else/own.cache", "images": 0, "copy_of": 2, "fails": 0},
    {"model": 1, "path": "copy.onnx", "cache": "own.cache", "images": 2},
    {"model": 0, "path": "copy.onnx", "cache": "own.cache", "images": 1},
    {"model": 1, "path": ONNX_FILE, "cache": "own.table", "images": 0, "date": _LONG_AGO + 1},
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


def random_images(seed: int, number: int, strength: float = 1.0) -> np.ndarray:
    """Return float32 [number, 3, 224, 224] of noise of mean 0, each image stronger than the one before.

    Its standard deviation goes from `strength` / 4 to 4 · `strength`, so the scales tell whether the last batches were
    used too.
    """
    noise = np.random.default_rng(seed).standard_normal((number, *SHAPE), dtype=np.float32)
    return noise * np.linspace(strength / 4, strength * 4, number, dtype=np.float32)[:, None, None, None]


@dataclass
class _Notes:
    """What TensorRT and a calibrator said to each other in one build.

    `given` counts the batches, `endless` tells that there would be more; `read` is the first cache that was read,
    `there` whether its file lay there at any read; `handed` the cache that TensorRT wrote, `calibrations` how often.
    """

    given: int = 0
    endless: bool = False
    there: bool = False
    read: bytes | None = None
    handed: bytes | None = None
    calibrations: int = 0


def _watched(make: Any, notes: _Notes, most: int, file: Path) -> Any:
    """Return the student's calibrator class with its calls noted, and an end after `most` batches."""

    def get_batch(self: Any, *args: Any, **kwargs: Any) -> Any:
        notes.endless = notes.given >= most
        given = None if notes.endless else make.get_batch(self, *args, **kwargs)
        notes.given += not is_end(given)
        return given

    def read_calibration_cache(self: Any) -> Any:
        notes.there |= file.is_file()
        found = make.read_calibration_cache(self)
        notes.read = notes.read or as_bytes(found)
        return found

    def write_calibration_cache(self: Any, cache: Any) -> Any:
        notes.handed, notes.calibrations = as_bytes(cache), notes.calibrations + 1
        return make.write_calibration_cache(self, cache)

    methods = (get_batch, read_calibration_cache, write_calibration_cache)
    return type(make.__name__, (make,), {method.__name__: method for method in methods})


@probe
def build_int8(
    notebook: Notebook, *, models: list[bytes], builds: list[dict[str, Any]], batch: int
) -> list[dict[str, Any]]:
    """Run build_engine_int8 several times in one folder, each time with a new calibrator over a loader of `batch`.

    A build is {"model": index, "path", "cache" and perhaps "engine": file names, "seed", "number", "strength": of its
    images}; with "copy_of" what that build calibrated is put in the cache first, with "gone" the cache is removed; with
    "fails" a build of that model's index precedes it and gives None, with "fails_late" one that has calibrated by then;
    with "times" it is done so often, with one calibrator; from one with "new_session" on, the functions are as a new
    kernel has them. "date" is the ONNX file's.

    Each result holds `error` (as a reply's), what `build_engine` answers, `cache_before` and `cache` (the bytes on
    disk), and the notes of what TensorRT and the calibrator said.
    """
    functions, results = {name: notebook[name] for name in (FUNCTION, CALIBRATOR)}, []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, wanted in enumerate(builds):
            if wanted.get("new_session"):
                functions = in_new_session(functions)
            source, cache = folder / wanted["path"], folder / wanted["cache"]
            target = folder / "engines" / wanted.get("engine", f"{number}.engine")
            for path in (target, cache):
                path.parent.mkdir(exist_ok=True)
            if "copy_of" in wanted:
                cache.write_bytes(results[wanted["copy_of"]]["handed"] or b"")
            if "gone" in wanted:
                cache.unlink(missing_ok=True)
            for failing, calibrated in (("fails", False), ("fails_late", True)):
                if failing in wanted:
                    _put(source, models[wanted[failing]])
                    with recorded_builds(failing=True, calibrated=calibrated), suppress(Exception, SystemExit):
                        _build(functions, (source, target, cache), wanted, batch, _Notes())
            _put(source, models[wanted["model"]], wanted.get("date", _LONG_AGO))
            results.append(_result(functions, (source, target, cache), wanted, batch))
    return results


def _put(source: Path, model: bytes, date: int = _LONG_AGO) -> None:
    source.write_bytes(model)
    os.utime(source, (date, date))


def _build(
    functions: dict[str, Any], paths: tuple[Path, Path, Path], wanted: dict[str, Any], batch: int, notes: _Notes
) -> Any:
    source, target, cache = paths
    loader = loader_of(random_images(wanted["seed"], wanted["number"], wanted["strength"]), batch)
    make = _watched(functions[CALIBRATOR], notes, len(loader) + _SPARE_BATCHES, cache)
    calibrator = make(loader, cache)
    return [functions[FUNCTION](source, target, calibrator) for _ in range(wanted.get("times", 1))][-1]


def _result(
    functions: dict[str, Any], paths: tuple[Path, Path, Path], wanted: dict[str, Any], batch: int
) -> dict[str, Any]:
    source, target, cache = paths
    model, before, notes, returned, error = source.read_bytes(), file_bytes(cache), _Notes(), None, None
    with recorded_builds() as seen:
        try:
            returned = _build(functions, paths, wanted, batch, notes)
        except NotImplementedError:
            raise
        except (Exception, SystemExit) as raised:
            error = {"type": type(raised).__name__, "message": said(raised), "where": where(raised)}
    return {
        "error": error,
        "returned": as_bytes(returned),
        "returned_type": type(returned).__name__,
        "file": file_bytes(target),
        "onnx_kept": file_bytes(source) == model,
        "cache_before": before,
        "cache": file_bytes(cache),
        "builds": [asdict(found) for found in seen],
        **asdict(notes),
    }


@probe
def failing_build_int8(notebook: Notebook, *, onnx: bytes, parsed: bool) -> dict[str, Any]:
    """Call build_engine_int8 where it must fail; the result is `failed_build`'s."""
    build, make = notebook[FUNCTION], notebook[CALIBRATOR]
    loader = loader_of(random_images(0, BATCH), BATCH)
    return failed_build(
        lambda source, target: build(source, target, make(loader, f"{source}.cache")), onnx, parsed=parsed
    )


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
    built = reply.require(FUNCTION)[index]
    return replace(reply, value=built, error=built["error"]).require(FUNCTION)


def first(case: Case) -> Built:
    """Return the first build, of a network that was not built before."""
    return build(case, 0)


def built_of(case: Case, onnx: bytes) -> Built:
    """Return what `build_int8` answers for a model that was not built before; raise Missed where that raised."""
    wanted = {**_BUILDS[0], **images(case, 0)}
    return _sound(case.call(build_int8, models=[onnx], builds=[wanted], batch=BATCH), 0)


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
    middle = built["builds"][-1]["calibration_batch"] or facts["profiles"][0]["input"][1][0]
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
