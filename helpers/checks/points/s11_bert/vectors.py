"""What step 11 asks of `mean_pool` and of `make_batches`."""

from typing import Any

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.pure import OneOf, agree, compare
from helpers.checks.points.task import Task
from helpers.checks.probes.answer import Notebook, probe
from helpers.toys.bert.encoder import LENGTHS

POOL, BATCHES = "mean_pool", "make_batches"
_LEAST, _LONGEST = LENGTHS[0], LENGTHS[-1]
_POOLED = (((4, 9, 6), np.int32), ((1, 1, 3), np.int64), ((3, 128, 5), bool))
"""Shapes of `hidden`, and the mask's type."""

POOLING = Task("bert_pooling", check="check_bert_pooling", takes=(POOL,))
BATCHING = Task("bert_batches", check="check_bert_batches", takes=(BATCHES,))


Batch = tuple[list[int], int]  # places, and the length that they are padded to


@POOLING.point("bert.pooled", 0.5, "The mean of the tokens that the mask keeps, whatever stands at padding")
def pooled(case: Case) -> str:
    random, pairs = case.random("bert.pool"), []
    for shape, kind in _POOLED:
        hidden = random.normal(1, 1, shape).astype(np.float32)
        mask = np.arange(shape[1]) < random.integers(1, shape[1] + 1, (shape[0], 1))
        mask[-1], mask[0] = True, random.permutation(mask[0])  # a mask need not end a sentence
        hidden[~mask] *= 1_000
        right = [row[kept].mean(axis=0, dtype=np.float64) for row, kept in zip(hidden, mask, strict=True)]
        pairs.append(((hidden, mask.astype(kind)), np.stack(right)))
    advice = "sum the tokens that the mask keeps, and divide by their number: one vector for each sentence"
    return compare(case, POOL, pairs, advice, rtol=1e-4, atol=1e-5)


@probe
def batches_of(notebook: Notebook, *, lengths: Any, batch: int, options: dict[str, bool]) -> list[Batch]:
    """Call `make_batches(lengths, batch, **options)`, and return its pairs with whole numbers."""
    found = notebook[BATCHES](lengths, batch, **options)
    return [([int(place) for place in places], int(length)) for places, length in found]


def _batches(case: Case, lengths: Any, batch: int, **options: bool) -> list[Batch]:
    return case.call(batches_of, lengths=lengths, batch=batch, options=options).require(BATCHES)


def _lengths(case: Case) -> tuple[list[int], int]:
    """Return some dozen lengths above the least, and a batch that leaves a rest."""
    random = case.random("bert.lengths")
    batch = int(random.integers(9, 13))
    number = batch * int(random.integers(3, 6)) + int(random.integers(1, 4))
    return random.integers(_LEAST + 1, _LONGEST, number).tolist(), batch


@BATCHING.point("bert.once", 0.25, "Each sentence is in one batch; all batches are full but one")
def once(case: Case) -> str:
    lengths, batch = _lengths(case)
    full, rest = [batch] * (len(lengths) // batch), len(lengths) % batch
    right = {"places": [*range(len(lengths))], "sizes": OneOf(([*full, rest], [rest, *full]))}
    for dynamic in (True, False):
        found = _batches(case, lengths, batch, dynamic=dynamic)
        sizes = [len(places) for places, _ in found]
        advice = "look at the last slice, and at what a place is; cut in order: only one batch is not full"
        agree({"places": sorted(_places(found)), "sizes": sizes}, right, f"{BATCHES}, places sorted", advice)
    return f"{len(lengths)} sentences in batches of up to {batch}"


def _places(found: list[Batch]) -> list[int]:
    return [place for places, _ in found for place in places]


@BATCHING.point("bert.tight", 0.5, "Sorted by length, and padded to the longest of each batch")
def tight(case: Case) -> str:
    lengths, batch = _lengths(case)
    found = _batches(case, lengths, batch)
    order = _own(lengths, _places(found))
    agree(order, OneOf((sorted(order), sorted(order)[::-1])), "the sentences' lengths in order", "argsort gives places")
    return _padded(found, lengths)


def _own(lengths: list[int], places: list[int]) -> list[int]:
    """Return the lengths at these places; raise Missed where one is none."""
    if not places or not all(0 <= place < len(lengths) for place in places):
        raise Missed("places in lengths in every batch", f"{places}", "a place is an index, not a length")
    return [lengths[place] for place in places]


def _padded(found: list[Batch], lengths: list[int]) -> str:
    right = [max(_LEAST, *_own(lengths, places)) for places, _ in found]
    advice = f"take each batch's longest sentence, {_LEAST} at least"
    agree([length for _, length in found], right, "what the batches are padded to", advice)
    return f"{len(found)} batches padded to their longest, {_LEAST} at least"


@BATCHING.point("bert.static", 0.25, "dynamic=False keeps the order and pads to 128")
def static(case: Case) -> str:
    lengths, batch = _lengths(case)
    found, advice = _batches(case, lengths, batch, dynamic=False), "sort and shorten only where dynamic is true"
    agree(_places(found), list(range(len(lengths))), "all places in order", advice)
    agree([length for _, length in found], [_LONGEST] * len(found), "what the batches are padded to", advice)
    return f"{len(found)} batches of length {_LONGEST}"


@BATCHING.point("bert.edges", 0.25, "None, few and very short sentences; a list or an array")
def edges(case: Case) -> str:
    agree(_batches(case, [], 4), [], f"{BATCHES}([], 4)", "a loop over nothing makes nothing")
    said = ""
    for given in ([2, 5, 3], np.array([1, _LONGEST, 3, _LEAST, 40]), [*range(1, 13)]):
        found = _batches(case, given, 4)
        agree(len(_places(found)), len(given), f"the number of places of {given}", "each of them once")
        said = _padded(found, list(given))
    return said
