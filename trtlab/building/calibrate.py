"""INT8 calibrators on TensorRT's interface, fed from `CalibrationBatches` or from a cache.

TensorRT swallows what `get_batch` raises: it prints it, ends the calibration and builds an engine from the batches so
far. These calibrators keep the exception instead, so that the build can raise it.
"""

from collections.abc import Callable, Iterator

import numpy as np

from helpers.engine.backend import cuda, trt
from trtlab.building.calibration_data import CalibrationBatches


class _BatchFeeder:
    """The methods that every calibrator shares.

    Attributes:
        written: the cache that TensorRT handed over, or None.
        error: what `get_batch` raised, or None.
    """

    def start(
        self, batches: CalibrationBatches | None, cache: bytes | None, batch_size: int, report: Callable[[str], None]
    ) -> None:
        """Feed `batches`, or let TensorRT take every scale from `cache`."""
        self._cache, self._batch_size = cache, batch_size
        self._batches: Iterator[dict[str, np.ndarray]] = batches.told(report) if batches else iter(())
        self._buffers: dict[str, cuda.DeviceAllocation] = {}
        self.written: bytes | None = None
        self.error: BaseException | None = None

    def get_batch_size(self) -> int:
        return self._batch_size

    def get_batch(self, names: list[str]) -> list[int] | None:
        """Upload the next batch and return the device address of each input in `names`; None ends the calibration."""
        try:
            batch = next(self._batches, {})
            for name, array in batch.items():
                self._upload(name, array)
        except BaseException as error:  # Ctrl-C too: TensorRT would swallow it
            self.error, batch = error, {}
        return [int(self._buffers[name]) for name in names] if batch else None

    def read_calibration_cache(self) -> bytes | None:
        return self._cache

    def write_calibration_cache(self, cache: bytes) -> None:
        self.written = bytes(cache)

    def _upload(self, name: str, batch: np.ndarray) -> None:
        if name not in self._buffers:
            self._buffers[name] = cuda.mem_alloc(batch.nbytes)
        cuda.memcpy_htod(self._buffers[name], batch)


class EntropyCalibrator(_BatchFeeder, trt.IInt8EntropyCalibrator2):
    """Least Kullback-Leibler divergence; TensorRT's recommendation for convolutional networks."""


class Entropy1Calibrator(_BatchFeeder, trt.IInt8EntropyCalibrator):
    """TensorRT's first entropy calibrator; here only to use caches that it wrote."""


class MinMaxCalibrator(_BatchFeeder, trt.IInt8MinMaxCalibrator):
    """The largest absolute value sets the range: nothing is clipped."""


class PercentileCalibrator(_BatchFeeder, trt.IInt8LegacyCalibrator):
    """The 99.99th percentile of the absolute values sets the range (TensorRT's legacy calibrator)."""

    def get_quantile(self) -> float:
        return 0.9999

    def get_regression_cutoff(self) -> float:
        return 1.0

    def read_histogram_cache(self, length: int) -> None:
        return None

    def write_histogram_cache(self, data: object, length: int) -> None:
        return None


CALIBRATORS: dict[str, type] = {
    "entropy": EntropyCalibrator,
    "minmax": MinMaxCalibrator,
    "percentile": PercentileCalibrator,
    "entropy1": Entropy1Calibrator,
}
