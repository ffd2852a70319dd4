"""Running calibration batches through the network in parts, so that memory does not grow with the batch.

All observed activations of a ResNet-50 take some 60 MB an image. They are only read once, so a batch goes through the
network in parts of a few images. The result is the same: a maximum and a count do not depend on the order, and
merging bins when a range doubles is exact. Only the first batch is run twice when it is split, because its largest
magnitude sets the ranges that the counts need.
"""

from collections.abc import Callable, Iterable

import numpy as np

from trtcpu.api.enums import CalibrationAlgoType
from trtcpu.calibration.histogram import TensorStatistics
from trtcpu.calibration.tensors import MASK, CalibratedTensor, CalibrationPlan

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

    def values_of(part: Tensors) -> Tensors:
        outputs = {**part, **run(part)}
        return {tensor.name: _counted(tensor, outputs[tensor.source]) for tensor in observed}

    count = 0
    for batch in batches:
        count += 1
        parts = _parts(batch, plan.image_bytes)
        if plan.algorithm == CalibrationAlgoType.MINMAX_CALIBRATION:
            for part in parts:
                statistics.measure(values_of(part))
        elif count == 1:
            _count_first(statistics, parts, values_of)
        else:
            for part in parts:
                statistics.count(values_of(part))
    return statistics, count


def _counted(tensor: CalibratedTensor, array: np.ndarray) -> np.ndarray:
    """Return what is counted of a tensor's values; NaN stays, so that it is found."""
    if tensor.masked:
        return np.where(np.abs(array) >= MASK, np.float32(0), array)
    return array if tensor.value is None else array - tensor.value


def _count_first(statistics: TensorStatistics, parts: list[Tensors], values_of: Run) -> None:
    """Count a batch that sets the ranges: a second run is spared if it is in one part."""
    values: Tensors = {}
    for part in parts:
        values = values_of(part)
        statistics.measure(values)
    statistics.fix_ranges()
    for part in parts:
        statistics.count(values if len(parts) == 1 else values_of(part))


def _parts(batch: Tensors, image_bytes: int | None) -> list[Tensors]:
    """Split a batch if the plan says how much memory an image takes; else it is one part."""
    sizes = {len(array) for array in batch.values()} if image_bytes is not None else set()
    if len(sizes) != 1:
        return [_writeable(batch)]
    size = sizes.pop()
    step = part_size(size, image_bytes)
    return [_writeable({name: array[i : i + step] for name, array in batch.items()}) for i in range(0, size, step)]


def _writeable(part: Tensors) -> Tensors:
    """Copy what may only be read, such as a mapped file: neither OpenVINO nor the compiled counting takes it."""
    return {name: np.require(array, requirements="W") for name, array in part.items()}


def part_size(batch: int, bytes_per_image: int, limit: int = PART_BYTES) -> int:
    """Return the largest divisor of `batch` whose images' activations take at most `limit` bytes, at least 1."""
    return next(
        size for size in range(batch, 0, -1) if batch % size == 0 and (size * bytes_per_image <= limit or size == 1)
    )
