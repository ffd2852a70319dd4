"""Probes that call build_engine_int8 with a calibrator, and note what it and TensorRT said to each other."""

import os
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypedDict, get_type_hints

import numpy as np

from helpers.checks.points.s04_int8.calibrator import FUNCTION as CALIBRATOR
from helpers.checks.points.s04_int8.dataset import SHAPE
from helpers.checks.points.s04_int8.runs import file_bytes, is_end, loader_of
from helpers.checks.points.s04_int8.session import in_new_session
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.builds import BuiltEngine, FailedBuild, as_bytes, failed_build, recorded_builds
from helpers.checks.probes.frames import said, where
from helpers.course.settings import PROFILE_BATCHES

FUNCTION = "build_engine_int8"
BATCHES = PROFILE_BATCHES
BATCH = BATCHES[1]
"""Images that TensorRT reads from each address: the middle of the profile."""

LONG_AGO = 1_600_000_000
"""The date of every ONNX file but one."""

_SPARE_BATCHES = 8  # a calibrator that gives more than its loader holds is stopped, else the build never ends


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


Noted = TypedDict("Noted", get_type_hints(_Notes))
"""_Notes as they come back."""


class Raised(TypedDict):
    """A reply's error."""

    type: str
    message: str
    where: str


class BuiltInt8(BuiltEngine, Noted):
    """What `build_int8` answers of one build."""

    error: Raised | None
    cache_before: bytes | None
    cache: bytes | None


@probe
def build_int8(notebook: Notebook, *, models: list[bytes], builds: list[dict[str, Any]], batch: int) -> list[BuiltInt8]:
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
            _put(source, models[wanted["model"]], wanted.get("date", LONG_AGO))
            results.append(_result(functions, (source, target, cache), wanted, batch))
    return results


def _put(source: Path, model: bytes, date: int = LONG_AGO) -> None:
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


def _result(functions: dict[str, Any], paths: tuple[Path, Path, Path], wanted: dict[str, Any], batch: int) -> BuiltInt8:
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
def failing_build_int8(notebook: Notebook, *, onnx: bytes, parsed: bool) -> FailedBuild:
    """Call build_engine_int8 where it must fail; the result is `failed_build`'s."""
    build, make = notebook[FUNCTION], notebook[CALIBRATOR]
    loader = loader_of(random_images(0, BATCH), BATCH)
    return failed_build(
        lambda source, target: build(source, target, make(loader, f"{source}.cache")), onnx, parsed=parsed
    )
