"""The points of `mean_pool` and `make_batches`."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from helpers.checks.points.case import Case
from helpers.checks.points.pure import Answered, compare, results_of
from helpers.checks.points.task import Task
from helpers.checks.probes.answer import Notebook, probe
from helpers.toys.bert.encoder import LENGTHS

POOL, BATCHES = "mean_pool", "make_batches"
_LEAST, _LONGEST = LENGTHS[0], LENGTHS[-1]
_POOLED = (((4, 9, 6), np.int32), ((1, 1, 3), np.int64), ((3, 128, 5), bool))
"""Shapes of `hidden`, and the mask's type."""

POOLING = Task("bert_pooling", check="check_bert_pooling", takes=(POOL,))
BATCHING = Task("bert_batches", check="check_bert_batches", takes=(BATCHES,))


@POOLING.point("bert.pooled", 0.5, "The mean of the tokens that the mask keeps; padding has no effect")
def pooled(case: Case) -> str:
    random, pairs = case.random("bert.pool"), []
    for shape, kind in _POOLED:
        hidden = random.normal(1, 1, shape).astype(np.float32)
        mask = np.arange(shape[1]) < random.integers(1, shape[1] + 1, (shape[0], 1))
        mask[-1], mask[0] = True, random.permutation(mask[0])  # a mask need not end a sentence
        hidden[~mask] *= 1_000
        right = [row[kept].mean(axis=0, dtype=np.float64) for row, kept in zip(hidden, mask, strict=True)]
        pairs.append(((hidden, mask.astype(kind)), np.stack(right)))
    advice = "for each sentence, sum the tokens that the mask keeps and divide by their number"
    return compare(case, POOL, pairs, advice, rtol=1e-4, atol=1e-5)


@probe
def batches_of(notebook: Notebook, *, name: str, calls: list[list[Any]], raising: bool) -> list[Answered]:
    """Answer like `results_of`, for make_batches."""
    return results_of({name: partial(_batches, notebook[name])}, name=name, calls=calls, raising=raising)


def _batches(make: Callable[..., Any], *given: Any) -> dict[str, list[Any]]:
    found = [([int(place) for place in places], int(length)) for places, length in make(*given)]
    batches, padded = [places for places, _ in found], [length for _, length in found]
    every = sorted(place for places in batches for place in places)
    return {"batches": batches, "padded to": padded, "all indices": every, "sizes": [*map(len, batches)]}


def _right(lengths: Sequence[int], batch: int, dynamic: bool = True) -> dict[str, list[Any]]:
    """Return the batches of sentences with different lengths, and the length that each is padded to."""
    places = sorted(range(len(lengths)), key=lambda place: lengths[place] if dynamic else place)
    batches = [places[start : start + batch] for start in range(0, len(places), batch)]
    longest = [max(_LEAST, *(int(lengths[place]) for place in places)) if dynamic else _LONGEST for places in batches]
    return {"batches": batches, "padded to": longest}


def _lengths(case: Case) -> tuple[list[int], int]:
    """Return some dozens of different lengths above the least, and a batch size that does not divide their number."""
    random = case.random("bert.lengths")
    batch = int(random.integers(9, 13))
    number = batch * int(random.integers(3, 6)) + int(random.integers(1, 4))
    return random.permutation(np.arange(_LEAST + 1, _LONGEST + 1))[:number].tolist(), batch


@BATCHING.point("bert.once", 0.25, "Each sentence is in one batch, and only the last batch is short")
def once(case: Case) -> str:
    lengths, batch = _lengths(case)
    sizes = [batch] * (len(lengths) // batch) + [len(lengths) % batch]
    right = {"all indices": [*range(len(lengths))], "sizes": sizes}
    advice = "check the last slice, and return indices, cut in order: only the last batch is short"
    pairs = [((lengths, batch, dynamic), right) for dynamic in (True, False)]
    return compare(case, BATCHES, pairs, advice, through=batches_of)


@BATCHING.point("bert.tight", 0.5, "Sorted by length, and padded to the longest of each batch")
def tight(case: Case) -> str:
    given, advice = _lengths(case), f"sort with argsort, and pad to each batch's longest sentence, at least {_LEAST}"
    return compare(case, BATCHES, [(given, _right(*given))], advice, through=batches_of)


@BATCHING.point("bert.static", 0.25, "dynamic=False keeps the order and pads to 128")
def static(case: Case) -> str:
    given, advice = (*_lengths(case), False), "sort, and pad to less than 128, only if dynamic is true"
    return compare(case, BATCHES, [(given, _right(*given))], advice, through=batches_of)


@BATCHING.point("bert.edges", 0.25, "No, few or very short sentences, in a list or an array")
def edges(case: Case) -> str:
    given: list[Any] = [[], [2, 3, 5], np.array([1, 3, _LEAST, 40, _LONGEST]), [*range(1, 13)]]
    advice = f"return nothing for no sentences, and pad to the longest sentence, at least {_LEAST}"
    return compare(case, BATCHES, [((one, 4), _right(one, 4)) for one in given], advice, through=batches_of)
