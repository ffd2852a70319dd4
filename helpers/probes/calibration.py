"""Plays TensorRT's part towards a calibrator, and reads back what lies at each address that it hands out."""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from helpers.backend import cuda

__all__ = ["CalibrationRun", "ImageList", "play_tensorrt", "read_scales"]

_SPARE_BATCHES = 4


class ImageList:
    """A data set of float32 images [N, 3, H, W] in memory, for a torch DataLoader."""

    def __init__(self, images: np.ndarray) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> np.ndarray:
        return self.images[index]


@dataclass
class CalibrationRun:
    """What a calibrator did in one build.

    `batches` holds each one as TensorRT would read it, float32 [batch size, 3, H, W]; `ended` whether it said that
    the data is over; `cache` what it gave to read; `fault` the first thing that TensorRT could not have used.
    """

    batch_size: int = 0
    cache: bytes | None = None
    batches: list[np.ndarray] = field(default_factory=list)
    ended: bool = False
    fault: str | None = None


def play_tensorrt(calibrator: Any, image: tuple[int, ...], batches: int, cache: bytes) -> CalibrationRun:
    """Call a calibrator as a build does: batch size, cache to read, batches until None, `cache` to write.

    Args:
        image: the shape of one image, such as (3, 224, 224).
        batches: how many to expect; a few more are asked for, then the run stops with `ended` False.
        cache: the bytes that are handed over at the end; with a cache to read, neither batches nor this is asked.
    """
    run = CalibrationRun()
    try:
        run.batch_size = int(_step("get_batch_size", calibrator.get_batch_size))
        run.cache = _step("read_calibration_cache", lambda: _bytes(calibrator.read_calibration_cache()))
        if run.cache:
            return run
        for batch in _batches(run, calibrator, image, batches + _SPARE_BATCHES):
            run.batches.append(batch)
        _step("read_calibration_cache", calibrator.read_calibration_cache)
        _step("write_calibration_cache", lambda: calibrator.write_calibration_cache(memoryview(cache)))
    except _Fault as fault:
        run.fault = str(fault)
    return run


class _Fault(Exception):
    """Something that TensorRT would print or crash on."""


def _step(name: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except NotImplementedError:
        raise
    except Exception as error:
        raise _Fault(f"{name} raised {type(error).__name__}: {error}") from error


def _bytes(found: Any) -> bytes | None:
    return None if found is None else bytes(memoryview(found))


def _batches(run: CalibrationRun, calibrator: Any, image: tuple[int, ...], most: int) -> Iterator[np.ndarray]:
    for _ in range(most):
        given = _step("get_batch", lambda: calibrator.get_batch(["input"]))
        if given is None or (isinstance(given, (list, tuple)) and not given):
            run.ended = True
            return
        yield _read(_address(given), (run.batch_size, *image))


def _address(given: Any) -> int:
    if not isinstance(given, (list, tuple)):
        raise _Fault(f"get_batch returned a {type(given).__name__} where TensorRT takes a list of addresses")
    first = given[0]
    if isinstance(first, (float, str, bytes)) or not hasattr(first, "__int__"):
        raise _Fault(f"get_batch returned a list with a {type(first).__name__} where TensorRT takes device addresses")
    return _step("get_batch returned what is no address;", lambda: int(first))


def _read(address: int, shape: tuple[int, ...]) -> np.ndarray:
    host = np.empty(shape, np.float32)
    try:
        cuda.memcpy_dtoh(host, address)
    except Exception as error:
        raise _Fault(f"{host.nbytes:,} bytes cannot be read at the address from get_batch: {error}") from error
    return host


def read_scales(cache: bytes) -> dict[str, float]:
    """Return the scale of each tensor in a calibration cache; an empty dictionary where it is none.

    The first line names TensorRT's version and the algorithm. Each line after it is `tensor: 3d189ef9`, a big-endian
    float32 in hexadecimal: the scale, of which 127 are the largest magnitude that INT8 keeps.
    """
    header, *lines = cache.decode(errors="replace").splitlines() or [""]
    if not header.startswith("TRT-"):
        return {}
    scales = {}
    for line in lines:
        name, separator, value = line.rpartition(": ")
        try:
            scales[name] = struct.unpack(">f", bytes.fromhex(value.strip().zfill(8)))[0]
        except (ValueError, struct.error):
            return {}
    return scales
