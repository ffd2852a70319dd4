"""Int8EntropyCalibrator(loader, cache_file): what TensorRT sees of it."""

import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypedDict

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.point import Reported, point
from helpers.checks.points.s04_int8.dataset import SHAPE
from helpers.checks.points.s04_int8.runs import Run, file_bytes, loader_of, play_tensorrt
from helpers.checks.probes.answer import Notebook, probe

FUNCTION = "Int8EntropyCalibrator"

_BATCH, _IMAGES = 5, 22
_WHOLE, _MOST = _IMAGES // _BATCH, -(-_IMAGES // _BATCH)
"""Four whole batches of the calibrator's loader, and a fifth one that is less than half full."""

_FEW = 3
"""Images of a loader that has less than a batch."""

_LONG = 60
"""Batches of a loader that gives more images than the lab calibrates on."""

_ROUNDED = 0.01  # what half precision takes off a value of a few units, at the most

_LIMIT_S = 60.0  # the probe takes under a second; what runs longer waits for something that does not come

_NO_TEXT = b"\xff\r\n"  # bytes that reading and writing text would change

_PLAYED = Reported("what its methods read and write: the student's process is told the bytes, and tells them")


class Reading(TypedDict):
    """What a calibrator gave to read, or what it raised."""

    cache: bytes | None
    raised: str | None


class Readings(TypedDict):
    """What one gave that was made before its file."""

    found: Reading
    changed: Reading
    gone: Reading


class Runs(Readings):
    """What `calibrator_runs` answers."""

    first: Run
    written: bytes | None
    again: Run
    rewritten: bytes | None
    named: bool
    third: Run
    beside: Run
    long: Run
    strided: Run
    few: Run


@probe
def calibrator_runs(notebook: Notebook, *, seed: int, caches: dict[str, bytes]) -> Runs:
    """Drive Int8EntropyCalibrator over random images, which its loader's sampler gives in an order of its own.

    `caches` are the bytes by what becomes of them: `first` and `second` are handed over, `older` lies there before.

    `first` starts without a file, `written` is the file after it. `again` is the same calibrator with an older file
    in place, `rewritten` the file after it, `third` the same once more, asked for batches alone. `beside` runs while
    another calibrator is asked for its batches; `long` over a loader of many batches, none short, of which one value
    each is read; `strided` over two batches whose channels are last in memory; `few` is asked for its size alone, over
    less than a batch. `found`, `changed` and `gone` are what one that was made before its file gives to read: with the
    file there, with other bytes in it, and taken away again.
    `named` tells whether cache_file is the path that was given.
    """
    make, images, order = notebook[FUNCTION], _images(seed), _order(seed)
    loader, shape = loader_of(images, _BATCH, order), (_BATCH, *SHAPE)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "calibration.cache"
        calibrator = make(loader, str(path))
        runs = {"first": play_tensorrt(calibrator, shape, _MOST, caches["first"]).plain(), "written": file_bytes(path)}
        path.write_bytes(caches["older"])
        runs["again"] = play_tensorrt(calibrator, shape, _MOST, caches["second"]).plain()
        runs |= {"rewritten": file_bytes(path), "named": _same_path(calibrator, path)}
        only_batches = SimpleNamespace(get_batch=calibrator.get_batch)
        runs["third"] = play_tensorrt(only_batches, shape, _MOST, caches["second"]).plain()
        own, other = (make(loader_of(given, _BATCH, order), path.with_suffix(end)) for given, end in _two(images))
        beside = play_tensorrt(own, shape, _MOST, caches["first"], _asking(other))
        many = [index % _IMAGES for index in range(_LONG * _BATCH)]
        long = make(loader_of(images, _BATCH, many), path.with_suffix(".long"))
        runs |= {"beside": beside.plain(), "long": play_tensorrt(long, (1,), _LONG, caches["first"]).plain()}
        strided = make(loader_of(images, _BATCH, order[: 2 * _BATCH], channels_last=True), path.with_suffix(".last"))
        runs["strided"] = play_tensorrt(strided, shape, 2, caches["first"]).plain()
        few = make(loader_of(images, _BATCH, order[:_FEW]), path.with_suffix(".few"))
        return {
            **runs,
            "few": play_tensorrt(SimpleNamespace(get_batch_size=few.get_batch_size), shape, 1, b"").plain(),
            **_readings(make, loader, path.with_suffix(".later"), caches["first"]),
        }


def _same_path(calibrator: Any, path: Path) -> bool:
    with contextlib.suppress(Exception):
        return Path(calibrator.cache_file) == path
    return False


def _two(images: np.ndarray) -> list[tuple[np.ndarray, str]]:
    return [(images, ".own"), (images[::-1] + 1, ".other")]


def _asking(calibrator: Any) -> Callable[[], None]:
    def ask() -> None:
        with contextlib.suppress(Exception):
            calibrator.get_batch(["input"])

    return ask


def _readings(make: Any, loader: Any, path: Path, cache: bytes) -> Readings:
    """Return what a calibrator gives to read, made before the file was there."""
    calibrator, readings = make(loader, path), {}
    for name, content in (("found", cache), ("changed", cache[::-1])):
        path.write_bytes(content)
        readings[name] = _reading(calibrator)
    path.unlink()
    return {**readings, "gone": _reading(calibrator)}


def _reading(calibrator: Any) -> Reading:
    try:
        cache = calibrator.read_calibration_cache()
        return {"cache": None if cache is None else bytes(memoryview(cache)), "raised": None}
    except NotImplementedError:
        raise
    except Exception as error:
        return {"cache": None, "raised": f"read_calibration_cache raised {type(error).__name__}: {error}"}


def _images(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((_IMAGES, *SHAPE), dtype=np.float32)


def _order(seed: int) -> list[int]:
    return np.random.default_rng([seed, 1]).permutation(_IMAGES).tolist()


def _given_images(case: Case) -> np.ndarray:
    """Return the images in the order in which the loader gives them."""
    seed = case.number("calibrator.images")
    return _images(seed)[_order(seed)]


def _caches(case: Case) -> dict[str, bytes]:
    """Return three caches of a few hundred bytes; the second one handed over is the shortest."""
    scales = case.random("calibrator.cache").integers(0x3C000000, 0x3F000000, (3, 16))
    lengths = {"first": (12, _NO_TEXT), "second": (8, _NO_TEXT[::-1]), "older": (16, _NO_TEXT)}
    return {
        name: b"TRT-8600-EntropyCalibration2\n"
        + b"".join(b"tensor%d: %08x\n" % (index, scale) for index, scale in enumerate(row[:length]))
        + end
        for (name, (length, end)), row in zip(lengths.items(), scales, strict=True)
    }


def _runs(case: Case) -> Runs:
    seed = case.number("calibrator.images")
    return case.call(calibrator_runs, seed=seed, caches=_caches(case), limit_s=_LIMIT_S).require(FUNCTION)


def _batches(run: Run) -> list[np.ndarray | None]:
    """Return a run's batches; raise Missed where it has none."""
    if not run["batches"]:
        found = run["faults"].get("get_batch", "None at the first call of get_batch")
        raise Missed("a batch at the first call of get_batch", found, "look at that line; the loader gives the batches")
    return run["batches"]


@point("The batches reach the device unchanged")
def batches(case: Case) -> str:
    runs, images = _runs(case), _given_images(case)
    given = _batches(runs["first"])
    for run, number in ((runs["first"], _IMAGES), (runs["few"], _FEW)):
        if run["batch_size"] != _BATCH:
            expected = f"get_batch_size() to return the loader's batch size, {_BATCH}, where it has {number} images"
            found = run["faults"].get("get_batch_size", f"{run['batch_size']}")
            raise Missed(expected, found, "look at get_batch_size")
    _compare(runs["first"], given, images, "copy a contiguous float32 array to memory that the calibrator keeps")
    advice = "another calibrator was asked for a batch before TensorRT read this one: keep buffer and iterator in self"
    _compare(runs["beside"], runs["beside"]["batches"], images, advice)
    advice = "this loader's tensor has its channels last in memory: np.ascontiguousarray puts them first"
    _compare(runs["strided"], runs["strided"]["batches"], images[:_BATCH], advice)
    return f"{_WHOLE} batches of float32 {[_BATCH, *SHAPE]}, bit for bit, beside another calibrator too"


def _compare(run: Run, given: list[np.ndarray | None], images: np.ndarray, advice: str) -> None:
    whole = len(images) // _BATCH
    for index in range(whole):
        expected = images[index * _BATCH : (index + 1) * _BATCH]
        if index >= len(given) or given[index] is None or not np.array_equal(given[index], expected):
            what = f"batch {index + 1} of {whole} at the address, float32 {[_BATCH, *SHAPE]} in C order"
            raise Missed(what, _difference(run, given[index : index + 1], expected, images), advice)


def _difference(run: Run, given: list[np.ndarray | None], expected: np.ndarray, images: np.ndarray) -> str:
    """Return what lies at the address in the place of `expected`: known mistakes each leave a trace of their own."""
    if not given:
        return run["faults"].get("get_batch", "no batch")
    if given[0] is None:
        return run["faults"].get("address", "nothing that can be read")
    if (given[0].dtype, given[0].shape) != (expected.dtype, expected.shape):
        return f"{given[0].dtype} of shape {given[0].shape}"
    if given[0].tobytes() == expected.transpose(0, 2, 3, 1).tobytes():
        return "the batch with its channels last"
    if given[0].tobytes() == expected.astype(np.float64).tobytes()[: expected.nbytes]:
        return "the batch in float64"
    if all(any(np.array_equal(row, image) for image in images) for row in given[0]):
        return "other images of the loader"
    if np.abs(given[0] - expected).max() <= _ROUNDED:
        return "the batch with its values rounded, as half precision does"
    return f"{np.mean(given[0] != expected):.0%} of the values differ"


@point("A short last batch is left out or filled up with its own images")
def last_batch(case: Case) -> str:
    run, images = _runs(case)["first"], _given_images(case)
    given, short = _batches(run), images[_WHOLE * _BATCH :]
    if len(given) < _WHOLE or (len(given) == _WHOLE and not run["ended"]):
        found = run["faults"].get("get_batch", f"{len(given)} batches")
        raise Missed(f"{_WHOLE} whole batches, then the short one left out or filled up", found, "look at get_batch")
    if len(given) == _WHOLE:
        return f"the last {len(short)} images are left out"
    rows = [] if given[_WHOLE] is None else np.atleast_1d(given[_WHOLE])
    own = [next((index for index, image in enumerate(short) if np.array_equal(row, image)), None) for row in rows]
    if None in own or len(set(own)) < len(short):
        raise Missed(
            f"only the last {len(short)} images in the last batch, repeated to fill it, or no such batch",
            f"{own.count(None)} of {_BATCH} places hold something else, such as images of an earlier batch",
            "TensorRT always reads a whole batch from the address: leave a short one out or fill it up",
        )
    return f"the last {len(short)} images are repeated to fill {len(rows)} places"


@point("After the last batch comes None")
def end(case: Case) -> str:
    runs = _runs(case)
    given = _ended(runs["first"], _IMAGES)
    _ended(runs["long"], _LONG * _BATCH)
    return f"None after {given} batches"


def _ended(run: Run, images: int) -> int:
    """Return how many batches came before None; raise Missed where these are too few, or too many."""
    given, least, most = len(_batches(run)), images // _BATCH, -(-images // _BATCH)
    if not run["ended"] or not least <= given <= most:
        found = f"{given} batches" + ("" if run["ended"] else " and still no end")
        found = run["faults"].get("get_batch", found)
        counts = " or ".join(map(str, sorted({least, most})))
        expected = f"{counts} batches of {_BATCH}, then None, where the loader has {images} images"
        raise Missed(expected, found, "give every whole batch; return None where the loader has no more")
    return given


@point("The same calibrator serves another build")
def again(case: Case) -> str:
    runs = _runs(case)
    first = _contents(_batches(runs["first"]))
    for number, run in (("second", runs["again"]), ("third", runs["third"])):
        given = _contents(run["batches"])
        if given != first or not run["ended"]:
            found = f"{len(given)} batches" + (", other ones" if len(given) == len(first) else f", {len(first)} before")
            advice = "after the last batch begin again, in get_batch itself: an iterator that is used up stays empty"
            raise Missed(f"the same batches for a {number} build", run["faults"].get("get_batch", found), advice)
    return f"{len(first)} batches again"


def _contents(batches: list[np.ndarray | None]) -> list[bytes | None]:
    return [None if batch is None else batch.tobytes() for batch in batches]


@point("The cache on disk is what TensorRT gave", _PLAYED)
def cache_written(case: Case) -> str:
    runs, caches = _runs(case), _caches(case)
    for file, run, given in (("written", "first", "first"), ("rewritten", "again", "second")):
        if runs[file] != caches[given]:
            found = "no file" if runs[file] is None else f"{len(runs[file])} bytes: {runs[file][:40]!r} …"
            found = runs[run]["faults"].get("write_calibration_cache", found)
            what = "with an older cache in its place" if file == "rewritten" else "where no file was"
            advice = "write the bytes in binary mode, in the place of what is there"
            raise Missed(f"the {len(caches[given])} bytes that were handed over, {what}", found, advice)
    if not runs["named"]:
        raise Missed(
            "calibrator.cache_file to be the file's path", "something else", "keep the path in self.cache_file"
        )
    return f"{len(caches['first'])} bytes, then {len(caches['second'])} in their place"


@point("A cache that is there is read, bytes for bytes", _PLAYED)
def cache_read(case: Case) -> str:
    runs, caches = _runs(case), _caches(case)
    before = {name: {"cache": runs[name]["cache"], "raised": _read_fault(runs[name])} for name in ("first", "again")}
    for found, expected, when in (
        (before["first"], None, "where there is no file"),
        (runs["found"], caches["first"], "with a file that was written after the calibrator was made"),
        (runs["changed"], caches["first"][::-1], "with other bytes in it, as many"),
        (before["again"], caches["older"], "with a file that another one wrote"),
        (runs["gone"], None, "where the file was removed"),
    ):
        if found["cache"] != expected or found["raised"]:
            said = found["raised"] or ("None" if found["cache"] is None else f"{len(found['cache'])} other bytes")
            what = "None" if expected is None else f"the {len(expected)} bytes of cache_file"
            raise Missed(f"{what} from read_calibration_cache {when}", said, "look at the file at each call")
    return "read at each call; None without a file"


def _read_fault(run: Run) -> str | None:
    return run["faults"].get("read_calibration_cache")
