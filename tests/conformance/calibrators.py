"""Calibrators for the conformance suite: they record how the engine calls them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from helpers.engine.backend import cuda, trt

BASES = {
    "entropy2": "IInt8EntropyCalibrator2",
    "entropy": "IInt8EntropyCalibrator",
    "minmax": "IInt8MinMaxCalibrator",
    "legacy": "IInt8LegacyCalibrator",
}


class _Recording:
    """The protocol's methods, mixed into one of TensorRT's calibrator classes."""

    def start(self, batches: Sequence[dict[str, np.ndarray]], cache: Any, end: Any, fail_at: int | None) -> None:
        self.batches, self.cache, self.end, self.fail_at = batches, cache, end, fail_at
        self.calls: list[str] = []
        self.names: list[str] = []
        self.written: bytes | None = None
        self.written_type: type | None = None
        self.taken = 0
        self.batch_size = len(next(iter(batches[0].values())))
        self.memory = {name: cuda.mem_alloc(array.nbytes) for name, array in batches[0].items()}

    def get_batch_size(self) -> int:
        self.calls.append("get_batch_size")
        return self.batch_size

    def get_batch(self, names: list[str]) -> list[int] | None:
        self.calls.append("get_batch")
        self.names = list(names)
        if self.fail_at == self.taken:
            raise RuntimeError("the disk is gone")
        if self.taken == len(self.batches):
            return self.end
        batch = self.batches[self.taken]
        self.taken += 1
        for name in names:
            cuda.memcpy_htod(self.memory[name], np.ascontiguousarray(batch[name]))
        return [int(self.memory[name]) for name in names]

    def read_calibration_cache(self) -> bytes | None:
        self.calls.append("read")
        return self.cache

    def write_calibration_cache(self, cache: Any) -> None:
        self.calls.append("write")
        self.written_type, self.written = type(cache), bytes(cache)

    def get_quantile(self) -> float:
        return 0.9999

    def get_regression_cutoff(self) -> float:
        return 1.0

    def read_histogram_cache(self, length: int) -> None:
        return None

    def write_histogram_cache(self, data: Any, length: int) -> None:
        return None


def make_calibrator(
    kind: str,
    batches: Sequence[dict[str, np.ndarray]],
    *,
    cache: bytes | None = None,
    end: Any = None,
    fail_at: int | None = None,
) -> Any:
    """Return a calibrator of `kind` over `batches` (arrays by input name).

    Args:
        end: what get_batch returns when the batches are used up: None or [].
        fail_at: the batch index at which get_batch raises.
    """
    base = getattr(trt, BASES[kind])

    def init(self: Any) -> None:
        base.__init__(self)
        self.start(batches, cache, end, fail_at)

    return type(f"Recording{base.__name__}", (_Recording, base), {"__init__": init})()


def scales_in(cache: bytes) -> dict[str, float]:
    """Return the scales of a calibration cache by tensor name: big-endian float32 in hexadecimal after each name."""
    lines = [line.rpartition(": ") for line in cache.decode().splitlines()[1:] if line]
    return {name: float(np.frombuffer(bytes.fromhex(value.zfill(8)), ">f4")[0]) for name, _, value in lines}
