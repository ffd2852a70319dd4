"""Int8EntropyCalibrator(loader, cache_file): what TensorRT sees of it.

A probe plays TensorRT's part: it asks for batches, and reads what lies at their addresses. An exception in get_batch
ends the images, as it does in a build, and costs no other point than those that ask for what is missing then.
"""

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict, get_type_hints

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.pure import OneOf, agree
from helpers.checks.points.task import Task
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.builds import Recorded, as_bytes
from helpers.checks.probes.cuda_calls import watched
from helpers.checks.probes.frames import where
from helpers.checks.probes.student import one_each
from helpers.engine.backend import cuda
from helpers.engine.given import calibrate_with
from helpers.toys.networks import EDGE

FUNCTION = "Int8EntropyCalibrator"
SHAPE = (3, EDGE, EDGE)
_SPARE_BATCHES = 4  # that are asked for where no end comes

# six whole batches of the first loader, and a seventh one that is less than half full; two whole ones of the other
_BATCH, _IMAGES, _EVEN = 5, 32, 10
_WHOLE = _IMAGES // _BATCH
_PLAYED = "what its methods read and write: the student's process is told the bytes, and tells them"

CALIBRATOR = Task("calibrator", check="check_calibrator", takes=(FUNCTION,))


def loader_of(images: np.ndarray, batch: int) -> Any:
    """Return a torch DataLoader over images [N, 3, H, W]."""
    from torch.utils.data import DataLoader

    return DataLoader(list(images), batch_size=batch)


def random_images(seed: int, number: int, strength: float = 1.0) -> np.ndarray:
    """Return float32 [number, 3, 224, 224] of noise of mean 0, each image stronger than the one before.

    Its standard deviation goes from `strength` / 4 to 4 · `strength`, so the scales tell whether the last batches were
    used too; that of the blue channel is a quarter of the red one's.
    """
    noise = np.random.default_rng(seed).standard_normal((number, 3, EDGE, EDGE), dtype=np.float32)
    channels = np.array((2.0, 1.0, 0.5), np.float32)[:, None, None]
    return noise * channels * np.linspace(strength / 4, strength * 4, number, dtype=np.float32)[:, None, None, None]


@dataclass
class Notes:
    """What came of a build: the engine `returned` and in the `file`, what TensorRT was asked for in `builds`.

    `given` counts the calibrator's batches; `used` is the cache whose scales the engine got: the one that TensorRT
    wrote, else the one that lies there.
    """

    returned: bytes | None = None
    file: bytes | None = None
    builds: list[Recorded] = field(default_factory=list)
    given: int = 0
    used: bytes | None = None


Noted = TypedDict("Noted", get_type_hints(Notes))


def noting(notebook: Notebook, images: np.ndarray, batch: int, cache_file: Path, notes: Notes) -> Any:
    """Return the student's calibrator over a loader of `images`, its calls noted; it ends after a few batches more."""
    make, loader = notebook[FUNCTION], loader_of(images, batch)

    def get_batch(self: Any, *args: Any) -> Any:
        given = make.get_batch(self, *args) if notes.given < len(loader) + _SPARE_BATCHES else None
        notes.given += not is_end(given)
        return given

    def write_calibration_cache(self: Any, cache: Any) -> Any:
        notes.used = as_bytes(cache)
        return make.write_calibration_cache(self, cache)

    methods = {"get_batch": get_batch, "write_calibration_cache": write_calibration_cache}
    return type(make.__name__, (make,), methods)(loader, cache_file)


def is_end(given: Any) -> bool:
    """Return whether an answer of get_batch says that there are no more: None, or an empty list."""
    return given is None or (isinstance(given, (list, tuple)) and not given)


def file_bytes(path: Path) -> bytes | None:
    """Return a file's content, None where there is no file."""
    return path.read_bytes() if path.is_file() else None


class Run(TypedDict):
    """What a calibrator gave in one build.

    `size` is get_batch_size(); `batches` each one as TensorRT would read it, float32 [the loader's size, 3, 224, 224],
    zeros where it cannot; `ended` whether it said that there are no more; `raised` the first exception.
    """

    size: int
    batches: list[np.ndarray]
    ended: bool
    raised: str


def all_batches(calibrator: Any, batch: int, most: int) -> Run:
    """Ask a calibrator for its batches, as a build does: at most `most`, each of so many images."""
    run: Run = {"size": int(calibrator.get_batch_size()), "batches": [], "ended": False, "raised": ""}
    with watched() as watch, _noted(run):
        while len(run["batches"]) < most and not run["ended"]:
            given = calibrator.get_batch(["input"])
            run["ended"] = is_end(given)
            if not run["ended"]:
                run["batches"].append(np.zeros((batch, *SHAPE), np.float32))
                with _noted(run):
                    _read(given, run["batches"][-1], copying=bool(watch.under_way))
    return run


@contextlib.contextmanager
def _noted(run: Run) -> Iterator[None]:
    """Keep the first exception, with the line; NotImplementedError passes."""
    try:
        yield
    except NotImplementedError:
        raise
    except Exception as error:
        line = where(error, most=1)
        run["raised"] = run["raised"] or f"{type(error).__name__}: {error}{line and f' ({line})'}"


def _read(given: Any, host: np.ndarray, copying: bool) -> None:
    if copying:
        raise RuntimeError("an asynchronous copy was still running when get_batch returned; wait for its stream")
    (address,) = given
    cuda.memcpy_dtoh(host, int(address))


@probe
def calibrator_runs(notebook: Notebook, *, seed: int) -> list[Run]:
    """Ask a calibrator over random images for its batches, twice, and then one whose loader has no short batch."""
    images, most = random_images(seed, _IMAGES), _WHOLE + 1 + _SPARE_BATCHES
    with tempfile.TemporaryDirectory() as folder:
        loaders = (loader_of(images[:number], _BATCH) for number in (_IMAGES, _EVEN))
        short, even = (notebook[FUNCTION](loader, str(Path(folder) / "own.cache")) for loader in loaders)
        return [all_batches(calibrator, _BATCH, most) for calibrator in (short, short, even)]


@probe
def cache_calls(notebook: Notebook, *, caches: list[bytes], reading: bool) -> list[bytes | None]:
    """Return what is in cache_file after a calibrator is given each cache; or what it reads before and after them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "own.cache"
        calibrator = notebook[FUNCTION](loader_of(random_images(0, 1), 1), str(path))
        found = [as_bytes(calibrator.read_calibration_cache())] if reading else []
        for cache in caches:
            if reading:
                path.write_bytes(cache)
                found.append(as_bytes(calibrator.read_calibration_cache()))
            else:
                with memoryview(cache) as lent:
                    calibrator.write_calibration_cache(lent)
                found.append(file_bytes(Path(calibrator.cache_file)))
    return found


@probe
def calibrate(
    notebook: Notebook, *, onnx: bytes, seed: int, number: int, batches: tuple[int, int, int]
) -> bytes | None:
    """Return the cache that TensorRT writes when it calibrates a model with the student's calibrator."""
    notes = Notes()
    with tempfile.TemporaryDirectory() as folder:
        images = random_images(seed, number)
        calibrate_with(noting(notebook, images, batches[1], Path(folder) / "cache", notes), onnx, tuple(batches))
    return notes.used


def _given_images(case: Case) -> np.ndarray:
    return random_images(case.number("calibrator.images"), _IMAGES)


def _caches(case: Case) -> list[bytes]:
    """Return bytes that reading or writing a text would change, the second ones fewer."""
    return [case.random("calibrator.cache").bytes(size) + b"\xff\r" for size in (250, 180)]


def _runs(case: Case) -> list[Run]:
    found = case.call(calibrator_runs, seed=case.number("calibrator.images")).require(FUNCTION)
    return one_each(found, range(3), "runs")


@CALIBRATOR.point("calibrator.batches", 1.5, "The batches reach the device unchanged")
def batches(case: Case) -> str:
    run = _runs(case)[0]
    agree(run["size"], _BATCH, "get_batch_size()", "it is the loader's batch size")
    right = map(np.array_equal, run["batches"], np.split(_given_images(case)[: _WHOLE * _BATCH], _WHOLE))
    if (number := sum(right)) < _WHOLE:
        what = f"{_WHOLE} batches as the loader gives them, float32 {[_BATCH, *SHAPE]} at the address in the list"
        advice = "copy a contiguous float32 array, channels first, to memory that the calibrator keeps"
        raise Missed(what, run["raised"] or f"{number} such among {len(run['batches'])} batches", advice)
    return f"{_WHOLE} batches of float32 {[_BATCH, *SHAPE]}, bit for bit"


@CALIBRATOR.point("calibrator.last_batch", 0.75, "A short last batch is left out or filled up with its own images")
def last_batch(case: Case) -> str:
    run, images = _runs(case)[0], _given_images(case)[_WHOLE * _BATCH :]
    number, rows = len(run["batches"]), [row for batch in run["batches"][_WHOLE : _WHOLE + 1] for row in batch]
    strange = sum(not any(np.array_equal(row, image) for image in images) for row in rows)
    if strange or number < _WHOLE or not (rows or run["ended"]):
        found = f"{strange} of {_BATCH} places hold something else" if rows else run["raised"] or f"{number} batches"
        what = f"{_WHOLE} whole batches, and the last {len(images)} images left out or repeated to fill one more"
        raise Missed(what, found, "TensorRT always reads a whole batch: leave a short one out or fill it up")
    return f"the last {len(images)} images are {'repeated' if rows else 'left out'}"


@CALIBRATOR.point("calibrator.end", 0.75, "After the last batch comes None")
def end(case: Case) -> str:
    for run, images in zip(_runs(case)[::2], (_IMAGES, _EVEN), strict=True):
        found = {"batches": len(run["batches"]), "then None": run["ended"] or run["raised"] or "still no end"}
        right = {"batches": OneOf(tuple({images // _BATCH, -(-images // _BATCH)})), "then None": True}
        advice = "give every whole batch; return None where the loader has no more"
        agree(found, right, f"a loader of {images} images in batches of {_BATCH}", advice)
    return f"None after the last batch of {_IMAGES} and of {_EVEN} images"


@CALIBRATOR.point("calibrator.again", 0.5, "The same calibrator serves another build")
def again(case: Case) -> str:
    first, second, _ = _runs(case)
    if not (first["batches"] and second["ended"] and np.array_equal(first["batches"], second["batches"])):
        found = second["raised"] or f"{len(second['batches'])} batches, {len(first['batches'])} before"
        advice = "after the last batch begin again, in get_batch itself: an iterator that is used up stays empty"
        raise Missed("the same batches, then None, for a second build", found, advice)
    return f"{len(first['batches'])} batches again"


def _cache_calls(case: Case, reading: bool, advice: str) -> str:
    right, what = _caches(case), "cache_file after each of two calls of write_calibration_cache"
    found = case.call(cache_calls, caches=right, reading=reading).require(FUNCTION)
    if reading:
        right, what = [None, *right], "read_calibration_cache without a file, then with two, one after the other"
    agree(found, right, what, advice)
    return f"{what}: byte for byte"


@CALIBRATOR.point("calibrator.cache_written", 0.25, "The cache on disk is what TensorRT gave", reported=_PLAYED)
def cache_written(case: Case) -> str:
    return _cache_calls(case, False, "write the bytes in binary mode, in the place of what is there")


@CALIBRATOR.point("calibrator.cache_read", 0.25, "A cache that is there is read, bytes for bytes", reported=_PLAYED)
def cache_read(case: Case) -> str:
    return _cache_calls(case, True, "look at the file at each call")
