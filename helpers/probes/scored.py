"""A model whose answers are known beforehand, and a loader of images that it recognises."""

from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

__all__ = ["KnownScores", "numbered_loader", "ranked_scores"]


class _Numbered(Dataset):
    """Images that carry their own number in their first pixel, with labels."""

    def __init__(self, labels: np.ndarray, edge: int, places: np.ndarray) -> None:
        self._labels, self._edge, self._numbers = labels, edge, np.argsort(places)

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index >= len(self):
            raise IndexError(index)
        image = torch.zeros(3, self._edge, self._edge)
        number = int(self._numbers[index])
        image[0, 0, 0] = number
        return image, int(self._labels[number])


def numbered_loader(labels: np.ndarray, batch_size: int, edge: int = 224) -> DataLoader:
    """Return a PyTorch loader of (images float32 [N, 3, edge, edge], labels int64 [N]), in the order of `labels`.

    The data set holds them in another order, which the loader's sampler undoes.
    """
    places = np.random.default_rng(len(labels)).permutation(len(labels))
    return DataLoader(_Numbered(labels, edge, places), batch_size=batch_size, sampler=places.tolist())


class KnownScores:
    """A model for `numbered_loader`: image i gets row i of `scores` [M, classes], whatever batch it comes in.

    Attributes:
        wrong_inputs: what it was given besides float32 NumPy arrays [N, 3, H, W], in words.
        images: how many images it was given in all.
    """

    def __init__(self, scores: np.ndarray, as_tensor: bool = False) -> None:
        self._scores, self._as_tensor = scores.astype(np.float32), as_tensor
        self.wrong_inputs: list[str] = []
        self.images = 0

    def __call__(self, images: Any) -> Any:
        if not isinstance(images, np.ndarray):
            self.wrong_inputs.append(f"a {type(images).__module__}.{type(images).__name__}")
        elif images.dtype != np.float32 or images.ndim != 4 or images.shape[1] != 3:
            self.wrong_inputs.append(f"a NumPy array of {images.dtype}, shape {images.shape}")
        numbers = np.asarray(images)[:, 0, 0, 0].astype(np.int64)
        self.images += len(numbers)
        found = self._scores[numbers]
        return torch.from_numpy(found) if self._as_tensor else found

    def eval(self) -> "KnownScores":
        """Return itself, as a PyTorch module does."""
        return self

    def close(self) -> None:
        """Accepted; there is nothing to free."""


def ranked_scores(random: np.random.Generator, labels: np.ndarray, ranks: np.ndarray, classes: int) -> np.ndarray:
    """Return scores [M, classes] without ties in which exactly `ranks[i]` classes score above image i's label."""
    scores = np.empty((len(labels), classes))
    for row, label, rank in zip(scores, labels, ranks, strict=True):
        values = np.sort(random.choice(10_000, classes, replace=False))[::-1] / 100.0 - 50.0
        others = np.delete(values, rank)
        random.shuffle(others)
        row[:] = np.insert(others, label, values[rank])
    return scores
