"""The numbers of a report as charts and page must show them, and how close a shown number must be."""

import re
from collections.abc import Iterable
from typing import Any

from helpers.probes.measurements import BASELINE

__all__ = ["among", "leaves", "numbers_of", "words"]


def numbers_of(name: str, report: dict[str, Any]) -> list[float]:
    """Return the numbers that a chart must show."""
    engines = [engine for engine in report["speedup"] if engine != BASELINE]
    if name == "speedup.png":
        return leaves([report["speedup"][engine] for engine in engines])
    if name == "accuracy.png":
        largest = [max(report["speedup"][engine].items(), key=lambda item: int(item[0]))[1] for engine in engines]
        return largest + [report["accuracy"][engine]["top1"] for engine in engines]
    return leaves(report["latency_ms" if name == "latency.png" else "throughput"])


def leaves(tree: Any) -> list[float]:
    """Return the numbers of nested dictionaries and lists."""
    parts = tree.values() if isinstance(tree, dict) else tree
    return [leaf for part in parts for leaf in (leaves(part) if isinstance(part, (dict, list)) else [part])]


def among(value: float, numbers: Iterable[float], relative: float, absolute: float) -> bool:
    """Return whether one of `numbers` is `value`, give or take the larger of both tolerances."""
    return any(abs(value - number) <= max(relative * abs(value), absolute) for number in numbers)


def words(text: str) -> set[str]:
    """Return the words of a text in lower case, for texts that may be wrapped or laid out differently."""
    return set(re.findall(r"\w+", text.lower()))
