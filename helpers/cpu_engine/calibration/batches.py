"""Running calibration batches through the network in parts, so that memory does not grow with the batch.

All observed activations of a ResNet-50 take some 60 MB an image. They are only read once, so a batch goes through the
network in parts of a few images. The result is the same: a maximum and a count do not depend on the order, and
merging bins when a range doubles is exact. Only the first batch is run twice when it is split, because its largest
magnitude sets the ranges that the counts need.
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from helpers.cpu_engine.api.enums import CalibrationAlgoType
from helpers.cpu_engine.calibration.histogram import TensorStatistics
from helpers.cpu_engine.calibration.tensors import CalibrationPlan

__all__ = ["Run", "observe_batches", "part_size"]

Tensors = dict[str, np.ndarray]
Run = Callable[[Tensors], Tensors]

# A ResNet-50 runs and counts two images at a time as fast as eight, and touches less memory.
PART_BYTES = 160 << 20


def observe_batches(batches: Iterable[Tensors], plan: CalibrationPlan, run: Run) -> tuple[TensorStatistics, int]:
    """Return the statistics over all batches, and how many there were.

    `run(feeds)` may overwrite the arrays it returned before.
    """
    observed = [tensor for tensor in plan.tensors if tensor.is_observed]
    rectified = [tensor.name for tensor in observed if tensor.rectified]
    statistics = TensorStatistics([tensor.name for tensor in observed], rectified)
    runner = _PartRunner(plan, run)
    count = 0
    for batch in batches:
        count += 1
        if plan.algorithm == CalibrationAlgoType.MINMAX_CALIBRATION:
            for values in runner.parts(batch):
                statistics.measure(values)
        else:
            _count(statistics, runner, batch, first=count == 1)
    return statistics, count


def _count(statistics: TensorStatistics, runner: "_PartRunner", batch: Tensors, first: bool) -> None:
    if first:
        values: Tensors = {}
        for values in runner.parts(batch):
            statistics.measure(values)
        statistics.fix_ranges()
        if runner.is_whole(batch):
            statistics.count(values)
            return
    for values in runner.parts(batch):
        statistics.count(values)


class _PartRunner:
    """Runs batches in parts where the plan says how much memory an image takes, else as a whole."""

    def __init__(self, plan: CalibrationPlan, run: Run) -> None:
        self._plan = plan
        self._run = run

    def is_whole(self, batch: Tensors) -> bool:
        """Whether `batch` runs in one part."""
        return self._step(batch) >= _common_batch(batch)

    def parts(self, batch: Tensors) -> Iterator[Tensors]:
        """Yield the observed values of each part of `batch`, by name."""
        if self.is_whole(batch):
            yield self._values(batch)
            return
        step = self._step(batch)
        for start in range(0, _common_batch(batch), step):
            yield self._values({name: array[start : start + step] for name, array in batch.items()})

    def _step(self, batch: Tensors) -> int:
        size = _common_batch(batch)
        return size if self._plan.image_bytes is None else part_size(size, self._plan.image_bytes)

    def _values(self, feeds: Tensors) -> Tensors:
        outputs = {**feeds, **self._run(feeds)}
        values: Tensors = {}
        for tensor in self._plan.tensors:
            if tensor.is_observed:
                array = outputs[tensor.source]
                values[tensor.name] = array if tensor.value is None else array - tensor.value
        return values


def part_size(batch: int, bytes_per_image: int, limit: int = PART_BYTES) -> int:
    """Return the largest divisor of `batch` whose images' activations take at most `limit` bytes, at least 1."""
    return next(
        size for size in range(batch, 0, -1) if batch % size == 0 and (size * bytes_per_image <= limit or size == 1)
    )


def _common_batch(batch: Tensors) -> int:
    """Return the inputs' common first dimension, 0 when they have none."""
    sizes = {array.shape[0] if array.ndim else 0 for array in batch.values()}
    return sizes.pop() if len(sizes) == 1 else 0
