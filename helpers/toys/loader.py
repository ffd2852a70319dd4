"""PyTorch's DataLoader behind a progress bar: calibration reads its images one by one, and that takes a while."""

from collections.abc import Iterator
from typing import Any

from torch.utils import data

from helpers.course.labels import progress


class DataLoader(data.DataLoader):
    """torch.utils.data.DataLoader; its batches are counted by a bar from the first that is asked for to the last."""

    def __iter__(self) -> Iterator[Any]:
        yield from progress(super().__iter__(), "images read", len(self), unit="batch")
