"""Int8EntropyCalibrator(loader, cache_file), as TensorRT sees it.

A probe plays TensorRT's part: it asks for batches, and reads the device memory at their addresses.
"""

import contextlib
import tempfile
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from torch.utils.data import DataLoader

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.pure import OneOf, agree
from helpers.checks.points.task import Task
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.builds import as_bytes
from helpers.checks.probes.cuda_calls import watched
from helpers.checks.probes.student import one_each
from helpers.engine.backend import cuda
from helpers.toys.networks import EDGE

FUNCTION = "Int8EntropyCalibrator"
SHAPE = (3, EDGE, EDGE)
_SPARE_BATCHES = 4  # asked for beyond the loader's, if no end comes

# the first loader has six full batches and a seventh that is less than half full, the other two full ones
_BATCH, _IMAGES, _EVEN = 5, 32, 10
_WHOLE = _IMAGES // _BATCH
_PLAYED = "what its methods read and write: the student's process gets the bytes, and says which it saw"

CALIBRATOR = Task("calibrator", check="check_calibrator", takes=(FUNCTION,))


def random_images(seed: int, number: int, strength: float = 1.0) -> np.ndarray:
    """Return float32 [number, 3, 224, 224] of noise of mean 0, each image stronger than the one before.

    Its standard deviation goes from `strength` / 4 to 4 · `strength`, so the scales show whether the last batches were
    used. The blue channel's is a quarter of the red channel's.
    """
    noise = np.random.default_rng(seed).standard_normal((number, 3, EDGE, EDGE), dtype=np.float32)
    channels = np.array((2.0, 1.0, 0.5), np.float32)[:, None, None]
    return noise * channels * np.linspace(strength / 4, strength * 4, number, dtype=np.float32)[:, None, None, None]


def noting(
    notebook: Notebook, images: np.ndarray, batch: int, cache_file: Path, **methods: Any
) -> tuple[Any, list[Any]]:
    """Return the student's calibrator over a loader of `images`, with `methods` replaced, and a list of its batches.

    It is stopped a few batches after the loader's end.
    """
    make, loader, given = notebook[FUNCTION], DataLoader(list(images), batch), list[Any]()

    def get_batch(self: Any, *args: Any) -> Any:
        addresses = make.get_batch(self, *args) if len(given) < len(loader) + _SPARE_BATCHES else None
        given.extend([addresses] if addresses else [])
        return addresses

    return type(make.__name__, (make,), {"get_batch": get_batch, **methods})(loader, cache_file), given


def file_bytes(path: Path) -> bytes | None:
    """Return a file's content, None without a file."""
    return path.read_bytes() if path.is_file() else None


class Run(TypedDict):
    """What a calibrator gave in one build.

    `size` is get_batch_size(); `batches` are what TensorRT would read, float32 [batch, 3, 224, 224], zeros if it cannot
    or the copy is still running; `ended` says whether get_batch returned None.
    """

    size: int
    batches: list[np.ndarray]
    ended: bool


def all_batches(calibrator: Any, batch: int, most: int) -> Run:
    """Ask a calibrator for its batches as a build does: at most `most`, each of `batch` images."""
    run: Run = {"size": int(calibrator.get_batch_size()), "batches": [], "ended": False}
    with watched() as watch:
        while len(run["batches"]) < most:
            given = calibrator.get_batch(["input"])
            if not given:
                return {**run, "ended": True}
            run["batches"].append(np.zeros((batch, *SHAPE), np.float32))
            with contextlib.suppress(Exception):
                if not watch.under_way:
                    cuda.memcpy_dtoh(run["batches"][-1], int(given[0]))
    return run


@probe
def calibrator_runs(notebook: Notebook, *, seed: int) -> list[Run]:
    """Ask a calibrator over random images for its batches twice, then one whose loader has no short batch."""
    images, most = random_images(seed, _IMAGES), _WHOLE + 1 + _SPARE_BATCHES
    with tempfile.TemporaryDirectory() as folder:
        loaders = (DataLoader(list(images[:number]), _BATCH) for number in (_IMAGES, _EVEN))
        short, even = (notebook[FUNCTION](loader, str(Path(folder) / "own.cache")) for loader in loaders)
        return [all_batches(calibrator, _BATCH, most) for calibrator in (short, short, even)]


CacheCalls = TypedDict("CacheCalls", dict.fromkeys(("without a file", "written", "with a file"), bytes | None))


@probe
def cache_calls(notebook: Notebook, *, cache: bytes) -> CacheCalls:
    """Return what a calibrator reads without a file, writes over another cache, and then reads."""
    with tempfile.TemporaryDirectory() as folder:
        calibrator = notebook[FUNCTION](DataLoader(random_images(0, 1), 1), str(Path(folder) / "own.cache"))
        found, path = {"without a file": as_bytes(calibrator.read_calibration_cache())}, Path(calibrator.cache_file)
        path.write_bytes(2 * cache)
        calibrator.write_calibration_cache(memoryview(cache))
        return found | {"written": file_bytes(path), "with a file": as_bytes(calibrator.read_calibration_cache())}


def _runs(case: Case) -> list[dict[str, Any]]:
    """Return the three runs, each batch as the numbers of its images; None for anything else."""
    number = case.number("calibrator.images")
    numbers = {image.tobytes(): index for index, image in enumerate(random_images(number, _IMAGES))}
    found = one_each(case.call(calibrator_runs, seed=number).require(FUNCTION), range(3), "runs")
    if not found[0]["batches"]:
        raise Missed("a list with an address from get_batch", "None at once", "return the loader's first batch")
    return [
        {**run, "batches": [[numbers.get(row.tobytes()) for row in batch] for batch in run["batches"]]} for run in found
    ]


@CALIBRATOR.point("calibrator.batches", 1.5, "The batches reach the device unchanged")
def batches(case: Case) -> str:
    run = _runs(case)[0]
    found = {"get_batch_size()": run["size"], "images": run["batches"][:_WHOLE]}
    right = {"get_batch_size()": _BATCH, "images": np.arange(_WHOLE * _BATCH).reshape(_WHOLE, _BATCH).tolist()}
    what = f"the calibrator: the loader's images by number, read at each address as float32 {[_BATCH, *SHAPE]}"
    advice = "copy the next batch, contiguous float32, channels first, to memory that you keep, and wait for the copy"
    agree(found, right, what, advice)
    return f"{_WHOLE} batches of float32 {[_BATCH, *SHAPE]}, bit for bit"


@CALIBRATOR.point("calibrator.last_batch", 0.75, "A short last batch is left out, or filled with its own images")
def last_batch(case: Case) -> str:
    places = [image for batch in _runs(case)[0]["batches"][_WHOLE:] for image in batch]
    own = range(_WHOLE * _BATCH, _IMAGES)
    strange = sum(image not in own for image in places)
    what = f"after {_WHOLE} full batches, only the last {len(own)} images"
    advice = "leave a short batch out, or fill it with its own images"
    agree({"other images": strange}, {"other images": 0}, what, advice)
    return f"the last {len(own)} images are {'repeated' if places else 'left out'}"


@CALIBRATOR.point("calibrator.end", 0.75, "get_batch returns None after the last batch")
def end(case: Case) -> str:
    loaders = [f"{number} images" for number in (_IMAGES, _EVEN)]
    ends = ({"batches": len(run["batches"]), "then None": run["ended"]} for run in _runs(case)[::2])
    right = ({"batches": number, "then None": True} for number in (OneOf((_WHOLE, _WHOLE + 1)), _EVEN // _BATCH))
    found, expected = (dict(zip(loaders, each, strict=True)) for each in (ends, right))
    agree(found, expected, f"loaders with batches of {_BATCH}", "return every full batch, then None")
    return f"None after the last batch of {_IMAGES} and of {_EVEN} images"


@CALIBRATOR.point("calibrator.again", 0.5, "The same calibrator works for another build")
def again(case: Case) -> str:
    first, second, _ = _runs(case)
    advice = "start again in get_batch after the last batch: a used-up iterator stays empty"
    agree(second, {**first, "ended": True}, "a second build with the same calibrator", advice)
    return f"{len(first['batches'])} batches again"


def _cached(case: Case) -> tuple[bytes, dict[str, bytes | None]]:
    """Return bytes that text mode would change, and what the calibrator made of them."""
    cache = case.random("calibrator.cache").bytes(200) + b"\xff\r"
    return cache, case.call(cache_calls, cache=cache).require(FUNCTION)


@CALIBRATOR.point("calibrator.cache_written", 0.25, "The cache file holds TensorRT's bytes", reported=_PLAYED)
def cache_written(case: Case) -> str:
    cache, found = _cached(case)
    advice = "write the bytes in binary mode, replacing an earlier file"
    agree({"cache_file": found["written"]}, {"cache_file": cache}, "write_calibration_cache", advice)
    return f"{len(cache)} bytes, replacing another cache"


@CALIBRATOR.point("calibrator.cache_read", 0.25, "An existing cache is read unchanged", reported=_PLAYED)
def cache_read(case: Case) -> str:
    _, found = _cached(case)
    right = {"without a file": None, "with a file": found["written"]}
    agree(found, right, "read_calibration_cache", "read the file at every call, and return None if there is none")
    return "None without a file, then its bytes"
