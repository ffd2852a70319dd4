"""What calibration keeps of each tensor: a histogram of magnitudes, or just the largest.

Memory: 2,048 counts a tensor, whatever the number of images.
"""

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from trtcpu.errors import EngineError
from trtcpu.processor import cores

BINS = 2048


class TensorStatistics:
    """Histograms and largest magnitudes of the tensors `names`; updates run on one thread for each CPU of the process.

    Call `measure` with all parts of the first batch, then `fix_ranges`, then `count` with all parts of every batch:
    the first batch's largest magnitude sets a histogram's range, as in TensorRT. Of the tensors named in `rectified`,
    max(value, 0) is what counts.
    """

    def __init__(self, names: list[str], rectified: Collection[str] = ()) -> None:
        self._pool = ThreadPoolExecutor(cores(), thread_name_prefix="calibration")
        self._rectified = frozenset(rectified)
        self.counts = {name: np.zeros(BINS, np.int64) for name in names}
        self._limits = {name: np.zeros(2, np.float32) for name in names}

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()

    def largest(self, name: str) -> float:
        """Return the largest magnitude of tensor `name` seen so far."""
        return float(self._limits[name][1])

    def range(self, name: str) -> float:
        """Return the upper edge of the last bin of the histogram of tensor `name`."""
        return float(self._limits[name][0])

    def beyond(self, name: str, limit: float) -> float:
        """Return the share of the values of tensor `name` that lie beyond `limit`; 0 if none were counted."""
        counts = self.counts[name]
        return float(counts[int(np.ceil(limit / (self.range(name) or 1) * BINS)) :].sum() / max(1, counts.sum()))

    def measure(self, values: Mapping[str, np.ndarray]) -> None:
        """Raise the largest magnitudes to those of `values`, float32 arrays of any shape by tensor name.

        Raises:
            EngineError: a value is infinite or NaN.
        """
        for name, top in self._map(lambda array, name, _: _largest_magnitude(array, name in self._rectified), values):
            _check_finite(name, np.isfinite(top))
            self._limits[name][1] = max(self._limits[name][1], top)

    def fix_ranges(self) -> None:
        """Make the largest magnitudes so far the histograms' ranges."""
        for limits in self._limits.values():
            limits[0] = limits[1]

    def count(self, values: Mapping[str, np.ndarray]) -> None:
        """Add `values`, float32 arrays of any shape by tensor name, to the histograms.

        Raises:
            EngineError: a value is infinite or NaN.
        """
        from trtcpu.calibration._kernels import count_values

        def count_one(array: np.ndarray, name: str, scratch: tuple[np.ndarray, np.ndarray]) -> bool:
            limits = self._limits[name]
            flat, rectified = _flat(array), name in self._rectified
            bits, limits_bits = flat.view("i4"), limits.view("i4")
            return count_values(flat, bits, rectified, self.counts[name], limits, limits_bits, *scratch) == 0

        for name, finite in self._map(count_one, values):
            _check_finite(name, finite)

    def scales(self, scale_of: Callable[[str], float]) -> dict[str, float]:
        """Return `scale_of(name)` for all tensors, computed on all threads."""
        return dict(zip(self.counts, self._pool.map(scale_of, self.counts), strict=True))

    def _map(self, function: Callable, values: Mapping[str, np.ndarray]) -> list[tuple[str, object]]:
        """Call `function(array, name, scratch)` for every tensor on all threads, the largest first."""
        from trtcpu.calibration._kernels import new_scratch

        names = sorted(self.counts.keys() & values.keys(), key=lambda name: -values[name].size)
        return list(
            zip(names, self._pool.map(lambda name: function(values[name], name, new_scratch()), names), strict=True)
        )


def _largest_magnitude(array: np.ndarray, rectified: bool = False) -> np.float32:
    """Return max |array|, or max(array, 0) when `rectified`; infinity or NaN if one is there; 0 for an empty array."""
    from trtcpu.calibration._kernels import largest_bits

    return np.array(largest_bits(_flat(array).view("i4"), rectified), np.int32).view(np.float32)[()]


def _flat(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array, np.float32).reshape(-1)


def _check_finite(name: str, finite: object) -> None:
    if not finite:
        raise EngineError(
            f"tensor {name!r} has infinite or NaN values in a calibration batch; "
            "check the preprocessing and the weights"
        )
