"""Int8EntropyCalibrator(loader, cache_file): what TensorRT sees of it.

A probe plays TensorRT's part. An exception in one call does not hide what the others do: TensorRT prints it and goes on
too. An exception in get_batch ends the images, an address that cannot be read is noted as such.
"""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, get_type_hints
from unittest import mock

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.task import Task
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.builds import Recorded, as_bytes
from helpers.checks.probes.frames import where
from helpers.checks.probes.student import one_each
from helpers.engine.backend import cuda
from helpers.engine.given import calibrate_with
from helpers.toys.networks import EDGE

FUNCTION = "Int8EntropyCalibrator"
SHAPE = (3, EDGE, EDGE)
_SPARE_BATCHES = 4  # that are asked for where no end comes
_BUSY_BYTES, _BUSY_TIMES = 32 << 20, 8  # what a stream has to do before an asynchronous copy: some milliseconds

# six whole batches of the first loader, and a seventh one that is less than half full; two whole ones of the other
_BATCH, _IMAGES, _EVEN = 5, 32, 10
_WHOLE = _IMAGES // _BATCH
_LIMIT_S = 60.0  # the probe takes a second or two; what runs longer waits for something that does not come
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

    `given` counts the calibrator's batches, `endless` tells that there would be more; `used` is the cache whose scales
    the engine got: the one that TensorRT wrote, else the one that it read.
    """

    returned: bytes | None = None
    file: bytes | None = None
    builds: list[Recorded] = field(default_factory=list)
    given: int = 0
    endless: bool = False
    used: bytes | None = None


Noted = TypedDict("Noted", get_type_hints(Notes))


def watched(notebook: Notebook, images: np.ndarray, batch: int, cache_file: Path, notes: Notes) -> Any:
    """Return the student's calibrator over a loader of `images`, its calls noted; it ends after a few batches more."""
    make, loader = notebook[FUNCTION], loader_of(images, batch)

    def get_batch(self: Any, *args: Any) -> Any:
        notes.endless = notes.given >= len(loader) + _SPARE_BATCHES
        given = None if notes.endless else make.get_batch(self, *args)
        notes.given += not is_end(given)
        return given

    def read_calibration_cache(self: Any) -> Any:
        found = make.read_calibration_cache(self)
        notes.used = as_bytes(found)
        return found

    def write_calibration_cache(self: Any, cache: Any) -> Any:
        notes.used = as_bytes(cache)
        return make.write_calibration_cache(self, cache)

    methods = {method.__name__: method for method in (get_batch, read_calibration_cache, write_calibration_cache)}
    return type(make.__name__, (make,), methods)(loader, cache_file)


@dataclass
class CalibrationRun:
    """What a calibrator did in one build.

    `batch_size` is what it said; `cache` what it gave to read; `batches` each one as TensorRT would read it, float32
    [the loader's batch size, 3, H, W], None where that cannot be read; `ended` whether it said that there are no more;
    `faults` the first exception of each method; `file` the cache file after it, `named` whether cache_file is its path.
    """

    batch_size: int | None = None
    cache: bytes | None = None
    batches: list[np.ndarray | None] = field(default_factory=list)
    ended: bool = False
    faults: dict[str, str] = field(default_factory=dict)
    file: bytes | None = None
    named: bool = False


Run = TypedDict("Run", get_type_hints(CalibrationRun))


def play_tensorrt(
    calibrator: Any, path: Path, batch: int, most: int, cache: bytes, meanwhile: Callable[[], object] = lambda: None
) -> Run:
    """Call a calibrator as a build does that can use no cache: it asks for one, then for batches, then hands one over.

    Args:
        path: of its cache file.
        batch: images in a batch of its loader.
        most: the batches of the loader; a few more are asked for, then the run stops with `ended` False.
        cache: the bytes that are handed over at the end; they are gone when the call has ended.
        meanwhile: called after each get_batch, before its address is read.
    """
    run = CalibrationRun()
    with _noted(run, "get_batch_size"):
        run.batch_size = int(calibrator.get_batch_size())
    with _noted(run, "read_calibration_cache"):
        run.cache = as_bytes(calibrator.read_calibration_cache())
    with _late_copies() as copies, _noted(run, "get_batch"):
        while len(run.batches) < most + _SPARE_BATCHES and not run.ended:
            given = calibrator.get_batch(["input"])
            run.ended = is_end(given)
            if not run.ended:
                run.batches.append(None)
                with _noted(run, "address"):
                    run.batches[-1] = _read(given, batch, copies, meanwhile)
    with _noted(run, "write_calibration_cache"), memoryview(cache) as lent:
        calibrator.write_calibration_cache(lent)
    run.file, run.named = file_bytes(path), Path(getattr(calibrator, "cache_file", "")) == path
    return asdict(run)


def is_end(given: Any) -> bool:
    """Return whether an answer of get_batch says that there are no more: None, or an empty list."""
    return given is None or (isinstance(given, (list, tuple)) and not given)


@contextlib.contextmanager
def _noted(run: CalibrationRun, method: str) -> Iterator[None]:
    """Keep the first exception of `method` as its fault, with the line; NotImplementedError passes."""
    try:
        yield
    except NotImplementedError:
        raise
    except Exception as error:
        line = where(error, most=1)
        run.faults.setdefault(method, f"{method}: {type(error).__name__}: {error}{line and f' ({line})'}")


@contextlib.contextmanager
def _late_copies() -> Iterator[list[Any]]:
    """Let a stream be busy before each asynchronous copy to the device; give a list of events, one after each."""
    copy, copies, scratch = cuda.memcpy_htod_async, [], cuda.mem_alloc(_BUSY_BYTES)

    def late(dest: Any, src: Any, stream: Any = None) -> None:
        for _ in range(_BUSY_TIMES):
            cuda.memset_d8_async(scratch, 0, _BUSY_BYTES, stream)
        copy(dest, src, stream)
        copies.append(cuda.Event().record(stream))

    with mock.patch.object(cuda, "memcpy_htod_async", late):
        yield copies


def _read(given: Any, batch: int, copies: list[Any], meanwhile: Callable[[], object]) -> np.ndarray:
    if not all(event.query() for event in copies):
        raise RuntimeError("an asynchronous copy was still running when get_batch returned; wait for its stream")
    if not isinstance(given, (list, tuple)) or len(given) != 1:
        raise TypeError(f"get_batch returned a {type(given).__name__}, where TensorRT takes a list of one address")
    meanwhile()
    host = np.empty((batch, 3, EDGE, EDGE), np.float32)
    cuda.memcpy_dtoh(host, int(given[0]))
    return host


def file_bytes(path: Path) -> bytes | None:
    """Return a file's content, None where there is no file."""
    return path.read_bytes() if path.is_file() else None


@probe
def calibrator_runs(notebook: Notebook, *, seed: int, caches: list[bytes]) -> list[Run]:
    """Drive Int8EntropyCalibrator over random images, as TensorRT does in builds, and hand over the `caches`.

    The first run starts without a file; the second one is of the same calibrator, with the last of `caches` in the
    file; the third has a loader without a short batch; in the fourth another calibrator is asked for batches meanwhile.
    """
    make, images = notebook[FUNCTION], random_images(seed, _IMAGES)
    with tempfile.TemporaryDirectory() as folder:
        path, even, own, beside = (Path(folder) / f"{name}.cache" for name in ("calibration", "even", "own", "beside"))
        calibrator = make(loader_of(images, _BATCH), str(path))
        runs = [play_tensorrt(calibrator, path, _BATCH, _WHOLE + 1, caches[0])]
        path.write_bytes(caches[-1])
        runs.append(play_tensorrt(calibrator, path, _BATCH, _WHOLE + 1, caches[1]))
        calibrator = make(loader_of(images[:_EVEN], _BATCH), str(even))
        runs.append(play_tensorrt(calibrator, even, _BATCH, _EVEN // _BATCH, caches[2]))
        calibrator, other = make(loader_of(images, _BATCH), str(own)), make(loader_of(-images, _BATCH), str(beside))
        meanwhile = partial(other.get_batch, ["input"])
        return [*runs, play_tensorrt(calibrator, own, _BATCH, _WHOLE + 1, caches[3], meanwhile)]


@probe
def calibrate(
    notebook: Notebook, *, onnx: bytes, seed: int, number: int, batches: tuple[int, int, int]
) -> bytes | None:
    """Return the cache that TensorRT writes when it calibrates a model with the student's calibrator."""
    notes = Notes()
    with tempfile.TemporaryDirectory() as folder:
        images = random_images(seed, number)
        calibrate_with(watched(notebook, images, batches[1], Path(folder) / "cache", notes), onnx, tuple(batches))
    return notes.used


def _given_images(case: Case) -> np.ndarray:
    return random_images(case.number("calibrator.images"), _IMAGES)


def _caches(case: Case) -> list[bytes]:
    """Return bytes that reading or writing a text would change; the last are the most."""
    random = case.random("calibrator.cache")
    return [random.bytes(size) + b"\xff\r" for size in (250, 180, 100, 340)]


def _runs(case: Case) -> list[Run]:
    seed, caches = case.number("calibrator.images"), _caches(case)
    reply = case.call(calibrator_runs, seed=seed, caches=caches, limit_s=_LIMIT_S)
    return one_each(reply.require(FUNCTION), caches, "builds")


def _batches(run: Run) -> list[np.ndarray | None]:
    """Return a run's batches; raise Missed where it has none."""
    if not run["batches"]:
        found = run["faults"].get("get_batch", "None at the first call of get_batch")
        raise Missed("a batch at the first call of get_batch", found, "look at that line; the loader gives the batches")
    return run["batches"]


@CALIBRATOR.point("calibrator.batches", 1.5, "The batches reach the device unchanged")
def batches(case: Case) -> str:
    first, _, _, beside = _runs(case)
    _batches(first)
    if first["batch_size"] != _BATCH:
        found = first["faults"].get("get_batch_size", f"{first['batch_size']}")
        raise Missed(f"get_batch_size() to return the loader's batch size, {_BATCH}", found, "look at get_batch_size")
    _compare(case, first, "copy a contiguous float32 array to memory that the calibrator keeps")
    _compare(case, beside, "another calibrator was asked for a batch meanwhile: keep buffer and iterator in self")
    return f"{_WHOLE} batches of float32 {[_BATCH, *SHAPE]}, bit for bit, beside another calibrator too"


def _compare(case: Case, run: Run, advice: str) -> None:
    images, given = _given_images(case), run["batches"]
    for index in range(_WHOLE):
        expected = images[index * _BATCH : (index + 1) * _BATCH]
        if index >= len(given) or not np.array_equal(given[index], expected):
            what = f"batch {index + 1} of {_WHOLE} at the address, float32 {[_BATCH, *SHAPE]} in C order"
            raise Missed(what, _difference(run, given[index : index + 1], expected, images), advice)


def _difference(run: Run, given: list[np.ndarray | None], expected: np.ndarray, images: np.ndarray) -> str:
    """Return what lies at the address in the place of `expected`: known mistakes each leave a trace of their own."""
    if not given or given[0] is None:
        return run["faults"].get("address" if given else "get_batch", "no batch")
    traces = {
        "the batch with its channels last": expected.transpose(0, 2, 3, 1).tobytes(),
        "the batch in float64": expected.astype(np.float64).tobytes()[: expected.nbytes],
    }
    other = all(any(np.array_equal(row, image) for image in images) for row in given[0])
    said = "other images" if other else f"{np.mean(given[0] != expected):.0%} of the values differ"
    return next((what for what, trace in traces.items() if given[0].tobytes() == trace), said)


@CALIBRATOR.point("calibrator.last_batch", 0.75, "A short last batch is left out or filled up with its own images")
def last_batch(case: Case) -> str:
    run, images = _runs(case)[0], _given_images(case)
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


@CALIBRATOR.point("calibrator.end", 0.75, "After the last batch comes None")
def end(case: Case) -> str:
    for run, images in zip(_runs(case)[:3:2], (_IMAGES, _EVEN), strict=True):
        counts = sorted({images // _BATCH, -(-images // _BATCH)})
        given = len(_batches(run))
        if not run["ended"] or given not in counts:
            found = run["faults"].get("get_batch", f"{given} batches" + " and still no end" * (not run["ended"]))
            what = (
                f"{' or '.join(map(str, counts))} batches of {_BATCH}, then None, where the loader has {images} images"
            )
            raise Missed(what, found, "give every whole batch; return None where the loader has no more")
    return f"None after the last batch of {_IMAGES} and of {_EVEN} images"


@CALIBRATOR.point("calibrator.again", 0.5, "The same calibrator serves another build")
def again(case: Case) -> str:
    first, run = _batches(_runs(case)[0]), _runs(case)[1]
    given = run["batches"]
    if len(given) != len(first) or not all(map(np.array_equal, given, first)) or not run["ended"]:
        found = f"{len(given)} batches" + (", other ones" if len(given) == len(first) else f", {len(first)} before")
        advice = "after the last batch begin again, in get_batch itself: an iterator that is used up stays empty"
        raise Missed("the same batches for a second build", run["faults"].get("get_batch", found), advice)
    return f"{len(first)} batches again"


@CALIBRATOR.point("calibrator.cache_written", 0.25, "The cache on disk is what TensorRT gave", reported=_PLAYED)
def cache_written(case: Case) -> str:
    caches, places = _caches(case), ("where no file was", "with an older cache in its place")
    for run, right, place in zip(_runs(case), caches, places, strict=False):
        if run["file"] != right:
            found = "no file" if run["file"] is None else f"{len(run['file'])} bytes: {run['file'][:40]!r} …"
            found = run["faults"].get("write_calibration_cache", found)
            advice = "write the bytes in binary mode, in the place of what is there"
            raise Missed(f"the {len(right)} bytes that were handed over, {place}", found, advice)
        if not run["named"]:
            advice = "keep the path in self.cache_file"
            raise Missed("calibrator.cache_file to be the file's path", "something else", advice)
    return f"{len(caches[0])} bytes, then {len(caches[1])} in their place"


@CALIBRATOR.point("calibrator.cache_read", 0.25, "A cache that is there is read, bytes for bytes", reported=_PLAYED)
def cache_read(case: Case) -> str:
    rights = (None, _caches(case)[-1])
    for run, right, when in zip(_runs(case), rights, ("where there is no file", "with a file in place"), strict=False):
        found, fault = run["cache"], run["faults"].get("read_calibration_cache")
        if found != right or fault:
            what = "None" if right is None else f"the {len(right)} bytes of cache_file"
            said = fault or ("None" if found is None else f"{len(found)} other bytes")
            raise Missed(f"{what} from read_calibration_cache {when}", said, "look at the file at each call")
    return "read at each call; None without a file"
