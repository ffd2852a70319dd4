"""What step 11 asks of `mean_pool` and of `make_batches`."""

from typing import Any, TypedDict

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.point import point
from helpers.checks.probes.answer import Notebook, probe
from helpers.toys.bert.encoder import LENGTHS

POOL, BATCHES = "mean_pool", "make_batches"
_LEAST, _LONGEST = LENGTHS[0], LENGTHS[-1]
_TOLERANCE = 1e-5
_POOLED = (((4, 9, 6), np.int32), ((1, 1, 3), np.int64), ((3, 128, 5), bool), ((2, 2_049, 3), np.int32))
"""Shapes of `hidden`, and the mask's type; to 2,049, of the last, half precision cannot count."""

Pair = tuple[list[int], int]


class Pooled(TypedDict):
    """What `pool` answers."""

    vectors: np.ndarray
    kept: bool


class Batch(TypedDict):
    """A batch of make_batches."""

    places: list[int]
    length: int


class Batches(TypedDict):
    """What `batches_of` answers."""

    batches: list[Batch]
    kept: bool


@probe
def pool(notebook: Notebook, *, hidden: np.ndarray, mask: np.ndarray) -> Pooled:
    """Call `mean_pool`; returns `vectors` and whether both arrays were `kept`."""
    given = hidden.copy(), mask.copy()
    vectors = np.asarray(notebook[POOL](*given))
    kept = np.array_equal(given[0], hidden) and np.array_equal(given[1], mask)
    return {"vectors": vectors, "kept": kept}


@point("The mean of the tokens that the mask keeps, whatever stands at padding")
def pooled(case: Case) -> str:
    random = case.random("bert.pool")
    for shape, kind in _POOLED:
        hidden = random.normal(1, 1, shape).astype(np.float32)
        mask = np.arange(shape[1]) < random.integers(1, shape[1] + 1, (shape[0], 1))
        mask[-1] = True
        mask[0] = random.permutation(mask[0])  # a mask need not end a sentence
        hidden[~mask] *= 1_000
        answer = case.call(pool, hidden=hidden, mask=mask.astype(kind)).require(POOL)
        expected = np.stack([row[kept].mean(axis=0, dtype=np.float64) for row, kept in zip(hidden, mask, strict=True)])
        _same_vectors(answer["vectors"], expected)
        if not answer["kept"]:
            raise Missed("hidden and mask as they were", "other numbers in them", "work on a copy")
    return "equal to the mean of each row's own tokens"


def _same_vectors(found: np.ndarray, expected: np.ndarray) -> None:
    if found.shape != expected.shape or found.dtype != np.float32:
        said = f"{found.dtype} {found.shape}"
        raise Missed(f"float32 {expected.shape}, a vector for each sentence", said, "sum over the tokens' axis, 1")
    if not np.allclose(found, expected, rtol=1e-4, atol=_TOLERANCE):
        off = float(np.abs(found - expected).max())
        raise Missed("the mean of the tokens that the mask keeps", f"numbers that are {off:.3g} off", "divide by them")


@probe
def batches_of(notebook: Notebook, *, lengths: list[int], batch: int, dynamic: bool | None, array: bool) -> Batches:
    """Call `make_batches(lengths, batch[, dynamic])`; returns the `batches`, and whether the lengths were `kept`.

    With `array` the lengths are a NumPy array.
    """
    given: Any = np.array(lengths) if array else list(lengths)
    options = {} if dynamic is None else {"dynamic": dynamic}
    found = notebook[BATCHES](given, batch, **options)
    batches = [{"places": [int(place) for place in places], "length": int(length)} for places, length in found]
    return {"batches": batches, "kept": list(given) == lengths}


def _pairs(case: Case, lengths: list[int], batch: int, dynamic: bool | None = None, array: bool = False) -> list[Pair]:
    asked = {"lengths": lengths, "batch": batch, "dynamic": dynamic, "array": array}
    found = case.call(batches_of, **asked).require(BATCHES)
    if not found["kept"]:
        raise Missed("lengths as they were", "another order or other numbers", "sort places, not the list itself")
    return [(each["places"], each["length"]) for each in found["batches"]]


def _lengths(case: Case, purpose: str) -> tuple[list[int], int]:
    """Return some dozen lengths above the least, and a batch that leaves a rest."""
    random = case.random(purpose)
    batch = int(random.integers(9, 13))
    number = batch * int(random.integers(3, 6)) + int(random.integers(1, 4))
    return [int(length) for length in random.integers(_LEAST + 1, _LONGEST, number)], batch


@point("Each sentence is in one batch; all batches are full but one")
def once(case: Case) -> str:
    lengths, batch = _lengths(case, "bert.once")
    for dynamic in (True, False):
        pairs = _pairs(case, lengths, batch, dynamic)
        _complete(pairs, len(lengths), batch)
    return f"{len(lengths)} sentences in {len(pairs)} batches of up to {batch}"


def _complete(pairs: list[Pair], number: int, batch: int) -> None:
    places = [place for own, _ in pairs for place in own]
    if sorted(places) != list(range(number)):
        found = f"{len(places)} places, {len(set(places))} different ones"
        raise Missed(f"each of the {number} places once", found, "look at the last slice, and at what a place is")
    sizes = [len(own) for own, _ in pairs]
    inner, rest = sizes[1:-1], sorted(sizes)[0]
    full = [size for size in sizes if size == batch]
    if len(full) < len(sizes) - 1 or rest > batch or any(size != batch for size in inner):
        raise Missed(f"batches of {batch}, and the first or the last of what is left over", str(sizes), "cut in order")


@point("Sorted by length, and padded to the longest of each batch")
def tight(case: Case) -> str:
    lengths, batch = _lengths(case, "bert.tight")
    pairs = _pairs(case, lengths, batch)
    if not pairs:
        raise Missed("batches", "none", "return the list")
    for places, length in pairs:
        _padded(lengths, places, length)
    ranges = sorted((min(own), max(own)) for own in ([lengths[place] for place in places] for places, _ in pairs))
    if any(before[1] > after[0] for before, after in zip(ranges, ranges[1:], strict=False)):
        found = ", ".join(f"{low} to {high}" for low, high in ranges[:6])
        raise Missed("batches whose lengths do not overlap: sorted by length", found, "argsort gives places")
    waste = sum(len(own) * length for own, length in pairs) / sum(lengths) - 1
    return f"{len(lengths)} sentences with {waste:.0%} of padding"


def _padded(lengths: list[int], places: list[int], length: int) -> None:
    if not places or not all(0 <= place < len(lengths) for place in places):
        raise Missed("places in lengths in every batch", f"{places}", "a place is an index, not a length")
    longest = max(_LEAST, *(lengths[place] for place in places))
    if length != longest:
        own = sorted(lengths[place] for place in places)
        raise Missed(f"a batch of lengths {own} padded to {longest}", f"{length}", "take its longest sentence")


@point("dynamic=False keeps the order and pads to 128")
def static(case: Case) -> str:
    lengths, batch = _lengths(case, "bert.static")
    pairs = _pairs(case, lengths, batch, dynamic=False)
    order = [place for own, _ in pairs for place in own]
    padded = {length for _, length in pairs}
    if order != list(range(len(lengths))) or padded != {_LONGEST}:
        found = f"places {order[:6]} …, padded to {sorted(padded)}"
        raise Missed(f"places 0, 1, 2 … padded to {_LONGEST}", found, "sort and shorten only where dynamic is true")
    return f"{len(pairs)} batches of length {_LONGEST}"


@point("None, few, equal and very short sentences; a list or an array")
def edges(case: Case) -> str:
    if _pairs(case, [], 4) or _pairs(case, [], 4, dynamic=False):
        raise Missed("no batches of no sentences", "some", "a loop over nothing makes nothing")
    same = int(case.random("bert.edges").integers(20, 100))
    for lengths in ([same], [same] * 8, [2, 3, 5], [1, _LONGEST, 3, _LEAST, same], list(range(1, 13))):
        for array in (False, True):
            pairs = _pairs(case, lengths, 4, array=array)
            _complete(pairs, len(lengths), 4)
            for places, length in pairs:
                _padded(lengths, places, length)
    return f"padded to {_LEAST} at least"
