"""Reads a written text: its words, its numbers, and the figures it quotes with their units."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

__all__ = ["Quote", "candidates", "count_words", "matches", "numbers_in", "quotes"]

_NUMBER = r"[-−+]?\d{1,3}(?:[,\u202f\u2009]\d{3})+(?:\.\d+)?|[-−+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
_UNITS = {
    "×": r"×(?! ?\d)|x(?! ?\d)(?![\w-])|\\times|times(?= (?:as|faster|the|smaller|larger|higher|lower|more|less)\b)",
    "ms": r"ms(?!\w)|milliseconds?(?!\w)",
    "images/s": r"(?:images?|img|imgs)(?: ?/ ?s(?:ec(?:ond)?)?(?!\w)| (?:per|a|each|every) second)",
    "%": r"%|per ?cent(?!\w)",
    "points": r"(?:percentage[ -]|%[ -])?points?(?!\w)",
    "MB": r"MB(?!\w)|megabytes?(?!\w)",
}
_UNIT = "|".join(f"(?P<u{place}>{pattern})" for place, pattern in enumerate(_UNITS.values()))
_QUOTE = re.compile(rf"(?<![\w.])(?P<number>{_NUMBER})[\s\u00a0*_`$-]*(?:{_UNIT})")
_LIMIT = re.compile(
    r"(?:at most|at least|under|below|above|over|within|less than|more than|no more than|up to|limit of|budget of|"
    r"allow\w*|tolerat\w*|limit is|budget is)[\s\w]{0,12}$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Quote:
    """A figure in a text: the number as it is written, its value, its unit, and half a unit of its last place.

    `free` figures may be limits of the writer's own: a number after "at most", "under", "a budget of" and the like, and
    a round percentage or number of points (a multiple of 0.5), such as "the 10 % rule".
    """

    text: str
    value: float
    unit: str
    rounding: float
    free: bool = False


def count_words(text: str) -> tuple[int, int]:
    """Return the number of words, without and with those that hold neither letter nor digit, such as a dash."""
    words = text.split()
    return sum(any(letter.isalnum() for letter in word) for word in words), len(words)


def quotes(text: str) -> list[Quote]:
    """Return the figures with a unit (×, ms, images/s, %, points, MB) in the order of the text."""
    found = []
    for match in _QUOTE.finditer(text):
        unit = next(name for i, name in enumerate(_UNITS) if match[f"u{i}"])
        value, rounding = _value(match["number"])
        limit = bool(_LIMIT.search(text[max(0, match.start() - 40) : match.start()]))
        whole = unit in ("%", "points") and value % 0.5 == 0 and rounding >= 0.05
        found.append(Quote(" ".join(match[0].split()), value, unit, rounding, limit or whole))
    return found


def _value(written: str) -> tuple[float, float]:
    text = re.sub(r"[,\u202f\u2009]", "", written).replace("−", "-")
    mantissa, _, exponent = text.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return float(text), 0.5 * 10.0 ** (int(exponent or 0) - decimals)


def candidates(report: dict[str, Any]) -> dict[str, list[float]]:
    """Return the values that a text about `report` may quote, by unit.

    × stands for a speed-up or a ratio of two of the report's values of one kind, % and points for an accuracy, a
    loss, or how much larger or smaller one value is than another; the others for a value or the difference of two.
    """
    kinds = [_leaves(report[key]) for key in ("latency_ms", "throughput", "sizes_bytes", "memory_bytes")]
    ratios = _leaves(report["speedup"]) + [a / b for kind in kinds for a in kind for b in kind if b]
    shares = [100 * ratio for ratio in ratios] + [100 * (ratio - 1) for ratio in ratios]
    accuracy = _leaves(report["accuracy"])
    gaps = _differences(accuracy) + _leaves(report["accuracy_loss"])
    megabytes = [size / unit for kind in kinds[2:] for size in kind + _differences(kind) for unit in (1e6, 2**20)]
    return {
        "×": ratios,
        "ms": kinds[0] + _differences(kinds[0]),
        "images/s": kinds[1] + _differences(kinds[1]),
        "%": accuracy + gaps + shares,
        "points": gaps,
        "MB": megabytes,
    }


def _differences(values: list[float]) -> list[float]:
    return [a - b for a in values for b in values]


def matches(quote: Quote, values: Iterable[float]) -> bool:
    """Return whether the quoted figure is one of `values`, rounded (or cut) to the places that are written."""
    return any(abs(abs(quote.value) - abs(value)) <= 2.02 * quote.rounding + 1e-9 for value in values)


def numbers_in(text: str) -> list[float]:
    """Return every number of a text."""
    return [_value(found)[0] for found in re.findall(_NUMBER, text)]


def _leaves(tree: Any) -> list[float]:
    """Return the numbers of nested dictionaries."""
    if isinstance(tree, dict):
        return [value for part in tree.values() for value in _leaves(part)]
    return [float(tree)] if isinstance(tree, (int, float)) and math.isfinite(tree) else []
