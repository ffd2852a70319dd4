"""The student's side of step 7: its loop on a model whose answers are known beforehand, and on an engine."""

import contextlib
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict
from unittest import mock

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

from helpers.checks.probes.answer import Notebook, probe
from helpers.course.artifacts import load_definition

FUNCTION = "evaluate_accuracy"
_INFERENCE = "TensorRTInference"


class _Numbered(Dataset):
    """Images that carry their own number in their first pixel, with labels; image i is at `order.index(i)`."""

    def __init__(self, labels: np.ndarray, edge: int, order: np.ndarray) -> None:
        self._labels, self._edge, self._numbers = labels, edge, order % len(labels)

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index >= len(self):
            raise IndexError(index)
        image = torch.zeros(3, self._edge, self._edge)
        number = int(self._numbers[index])
        image[0, 0, 0] = number
        return image, int(self._labels[number])


def numbered_loader(labels: np.ndarray, batch_size: int, edge: int = 224, unused: int = 0) -> DataLoader:
    """Return a PyTorch loader of (images float32 [N, 3, edge, edge], labels int64 [N]), in the order of `labels`.

    The data set holds them in another order, which the loader's sampler undoes, and `unused` more images.
    """
    order = np.random.default_rng(len(labels)).permutation(len(labels) + unused)
    places = np.argsort(order)[: len(labels)]
    return DataLoader(_Numbered(labels, edge, order), batch_size=batch_size, sampler=places.tolist())


class _ModelError(RuntimeError, ValueError, TypeError, LookupError, ArithmeticError, MemoryError):
    """What a model may raise, in one: who catches any of these catches it."""


class KnownScores:
    """A model for `numbered_loader`: image i gets row i of `scores` [M, classes], whatever batch it comes in.

    Attributes:
        wrong_inputs: what it was given besides float32 NumPy arrays [N, 3, H, W], in words.

    It raises ValueError for a batch of no images, as an engine does, or of
    others than the loader's, and an error of many kinds for one with image `fails_on`.
    """

    def __init__(self, scores: np.ndarray, as_tensor: bool = False, fails_on: int | None = None) -> None:
        self._scores, self._as_tensor, self._fails_on = scores.astype(np.float32), as_tensor, fails_on
        self.wrong_inputs: list[str] = []

    def __call__(self, images: Any) -> Any:
        if not isinstance(images, np.ndarray):
            self.wrong_inputs.append(f"a {type(images).__module__}.{type(images).__name__}")
        elif images.dtype != np.float32 or images.ndim != 4 or images.shape[1] != 3:
            self.wrong_inputs.append(f"a NumPy array of {images.dtype}, shape {images.shape}")
        numbers = np.asarray(images)[:, 0, 0, 0].astype(np.int64)
        if not len(numbers):
            raise ValueError("a batch of 0 images, which no engine takes")
        if numbers.max() >= len(self._scores):
            raise ValueError("images whose pixels are not those of the loader's images")
        if self._fails_on in numbers:
            raise _ModelError("the model cannot run this batch")
        found = self._scores[numbers]
        return torch.from_numpy(found) if self._as_tensor else found

    def eval(self) -> "KnownScores":
        """Return itself, as a PyTorch module does."""
        return self

    def close(self) -> None:
        """Accepted; there is nothing to free."""


@contextlib.contextmanager
def _open_order() -> Iterator[None]:
    """Turn round what NumPy and torch leave in any order: in short rows some processors' sort it, others' do not."""
    argpartition, topk = np.argpartition, torch.topk

    def parted(a: Any, kth: Any, axis: int | None = -1, **how: Any) -> np.ndarray:
        found = argpartition(a, kth, axis, **how)
        axis = -1 if axis is None else axis
        found = np.moveaxis(found, axis, -1)
        places = np.unique(np.atleast_1d(kth) % found.shape[-1])
        for start, end in zip([0, *places + 1], [*places, found.shape[-1]], strict=True):
            found[..., start:end] = found[..., start:end][..., ::-1].copy()
        return np.moveaxis(found, -1, axis)

    def largest(*args: Any, sorted: bool = True, **how: Any) -> Any:
        found, dim = topk(*args, **how), how.get("dim", args[2] if len(args) > 2 else -1)
        return found if sorted else type(found)(part.flip(dim) for part in found)

    with contextlib.ExitStack() as patches:
        patches.enter_context(mock.patch.object(np, "argpartition", parted))
        for home in (torch, torch.Tensor):
            patches.enter_context(mock.patch.object(home, "topk", largest))
        yield


class Rates(TypedDict):
    """What `evaluate_engine` answers."""

    top1: float
    top5: float
    kind: str


class KnownRates(Rates):
    """What `evaluate_known` answers."""

    wrong_inputs: list[str]


@probe
def evaluate_known(
    notebook: Notebook,
    *,
    scores: np.ndarray,
    labels: np.ndarray,
    batch_size: int,
    num_samples: int | None = None,
    as_tensor: bool = False,
    as_list: bool = False,
    after_others: bool = False,
    fails_on: int | None = None,
    edge: int = 224,
    unused: int = 0,
) -> KnownRates:
    """Evaluate a model that gives image i row i of `scores`; `num_samples` None leaves it to the function's default.

    `as_list`: the loader is a list of batches, as behind the notebook's progress bar, and no DataLoader.
    `after_others`: another model has had this loader before, and this model another loader and fewer images.
    `fails_on`: the image whose batch the model raises for; `unused`: images in the loader's data set besides.

    Returns `top1`, `top5` and `kind` as `_pair`, and `wrong_inputs`, what the model was given by mistake.
    """
    model, loader = KnownScores(scores, as_tensor, fails_on), numbered_loader(labels, batch_size, edge, unused)
    number = () if num_samples is None else (num_samples,)
    if after_others:
        for others in ((KnownScores(-scores), loader), (model, numbered_loader(labels[::-1], batch_size, edge))):
            notebook[FUNCTION](*others, *number)
        notebook[FUNCTION](model, loader, 2)
    with _open_order():
        found = _pair(notebook[FUNCTION](model, list(loader) if as_list else loader, *number))
    return {**found, "wrong_inputs": model.wrong_inputs[:3]}


@probe
def evaluate_engine(
    notebook: Notebook, *, plan: bytes, images: np.ndarray, labels: np.ndarray, batch_size: int
) -> Rates:
    """Evaluate an engine on images float32 [N, 3, H, W] through the inference class that the notebook uses.

    Returns `top1`, `top5` and `kind` as `_pair`.
    """
    data = TensorDataset(torch.from_numpy(images), torch.from_numpy(labels.astype(np.int64)))
    inference = notebook.value(_INFERENCE) or load_definition(_INFERENCE)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.engine"
        path.write_bytes(plan)
        with inference(str(path)) as model:
            return _pair(notebook[FUNCTION](model, DataLoader(data, batch_size=batch_size), len(labels)))


def _pair(returned: Any) -> Rates:
    """Return {"top1", "top5", "kind": "pair"}; in `kind` what the function gave where that is no pair of numbers."""
    try:
        found = list(returned)
        top1, top5 = (float(value) for value in found if not isinstance(value, (str, bytes)))
        return {"top1": top1, "top5": top5, "kind": "pair"}
    except (TypeError, ValueError):
        return {"top1": math.nan, "top5": math.nan, "kind": f"{type(returned).__name__} {str(returned)[:80]}"}


def ranked_scores(random: np.random.Generator, labels: np.ndarray, ranks: np.ndarray, classes: int) -> np.ndarray:
    """Return scores [M, classes] without ties in which exactly `ranks[i]` classes score above image i's label.

    Those of an image lie within 0.02, a multiple of 2⁻¹⁷ apart: float32 holds them exactly, half precision does not.
    """
    scores = np.empty((len(labels), classes), np.float32)
    for row, label, rank in zip(scores, labels, ranks, strict=True):
        values = random.choice((-6, -1, 2, 5)) + np.sort(random.choice(2_000, classes, replace=False))[::-1] / 2**17
        others = np.delete(values, rank)
        random.shuffle(others)
        row[:] = np.insert(others, label, values[rank])
    return scores
