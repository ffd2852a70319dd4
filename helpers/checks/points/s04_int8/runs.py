"""Plays TensorRT's part towards a calibrator, and reads back what lies at each address that it hands out.

An exception in one call does not hide what the others do: TensorRT prints it and goes on too. An exception in get_batch
ends the images, an address that cannot be read is noted as such.
"""

import contextlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypedDict, get_type_hints

import numpy as np

from helpers.checks.probes.frames import where
from helpers.engine.backend import cuda

_SPARE_BATCHES = 4


class ImageList:
    """A data set of float32 images [N, 3, H, W] in memory, for a torch DataLoader."""

    def __init__(self, images: np.ndarray) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> np.ndarray:
        return self.images[index]


def loader_of(images: np.ndarray, batch: int, order: list[int] | None = None, *, channels_last: bool = False) -> Any:
    """Return a torch DataLoader over images [N, 3, H, W], in `order` where given; `channels_last` in memory alone."""
    from torch.utils.data import DataLoader

    collate = _channels_last if channels_last else None
    return DataLoader(ImageList(images), batch_size=batch, sampler=order, collate_fn=collate)


def _channels_last(images: list[np.ndarray]) -> Any:
    import torch

    return torch.from_numpy(np.stack(images)).contiguous(memory_format=torch.channels_last)


@dataclass
class CalibrationRun:
    """What a calibrator did in one build.

    `batch_size` is what it said; `cache` what it gave to read; `batches` each one as TensorRT would read it, float32
    [the loader's batch size, 3, H, W], None where that cannot be read; `ended` whether it said that there are no more;
    `faults` the first thing by method that TensorRT could not have used.
    """

    batch_size: int | None = None
    cache: bytes | None = None
    batches: list[np.ndarray | None] = field(default_factory=list)
    ended: bool = False
    faults: dict[str, str] = field(default_factory=dict)

    def plain(self) -> "Run":
        """Return the run as plain data."""
        return asdict(self)


Run = TypedDict("Run", get_type_hints(CalibrationRun))
"""A CalibrationRun as it comes back."""


class _Fault(Exception):
    """Something that TensorRT would print, or read as garbage."""


def play_tensorrt(
    calibrator: Any,
    shape: tuple[int, ...],
    batches: int,
    cache: bytes,
    meanwhile: Callable[[], object] = lambda: None,
) -> CalibrationRun:
    """Call a calibrator as a build does that can use no cache: it asks for one, then for batches, then hands one over.

    Args:
        shape: of a batch of the loader, such as (8, 3, 224, 224).
        batches: how many to expect; a few more are asked for, then the run stops with `ended` False.
        cache: the bytes that are handed over at the end; they are gone when the call has ended.
        meanwhile: called after each get_batch, before its address is read.
    """
    run = CalibrationRun()
    with _noted(run, "get_batch_size"):
        run.batch_size = int(calibrator.get_batch_size())
    with _noted(run, "read_calibration_cache"):
        run.cache = _bytes(calibrator.read_calibration_cache())
    for _ in range(batches + _SPARE_BATCHES):
        given, raised = None, True
        with _noted(run, "get_batch"):
            given, raised = calibrator.get_batch(["input"]), False
        if raised or is_end(given):
            run.ended = not raised
            break
        meanwhile()
        run.batches.append(None)
        with _noted(run, "address"):
            run.batches[-1] = _read(_address(given), shape)
    with _noted(run, "write_calibration_cache"), memoryview(cache) as lent:
        calibrator.write_calibration_cache(lent)
    return run


def is_end(given: Any) -> bool:
    """Return whether an answer of get_batch says that there are no more: None, or an empty list."""
    return given is None or (isinstance(given, (list, tuple)) and not given)


@contextlib.contextmanager
def _noted(run: CalibrationRun, method: str) -> Any:
    """Keep the first exception of `method` as its fault, with the line; NotImplementedError passes."""
    try:
        yield
    except NotImplementedError:
        raise
    except _Fault as fault:
        run.faults.setdefault(method, str(fault))
    except Exception as error:
        line = where(error, most=1)
        run.faults.setdefault(method, f"{method} raised {type(error).__name__}: {error}{line and f' ({line})'}")


def _bytes(found: Any) -> bytes | None:
    return None if found is None else bytes(memoryview(found))


def _address(given: Any) -> int:
    if not isinstance(given, (list, tuple)):
        raise _Fault(
            f"get_batch returned a value of type {type(given).__name__}, where TensorRT takes a list of addresses"
        )
    first = given[0]
    if isinstance(first, (float, str, bytes)) or not hasattr(first, "__int__"):
        raise _Fault(f"get_batch's list holds a value of type {type(first).__name__}, where TensorRT takes addresses")
    if len(given) > 1:
        raise _Fault(f"get_batch returned {len(given)} addresses, where the network has one input")
    try:
        return int(first)
    except (TypeError, ValueError) as error:
        raise _Fault(f"get_batch returned a list with what is no address: {error}") from error


def _read(address: int, shape: tuple[int, ...]) -> np.ndarray:
    host = np.empty(shape, np.float32)
    try:
        cuda.memcpy_dtoh(host, address)
    except Exception as error:
        raise _Fault(f"{host.nbytes:,} bytes cannot be read at the address from get_batch: {error}") from error
    return host


def file_bytes(path: Path) -> bytes | None:
    """Return a file's content, None where there is no file."""
    return path.read_bytes() if path.is_file() else None
