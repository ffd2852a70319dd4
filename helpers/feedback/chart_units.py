"""The units that the axis labels of step 8's charts must hold, and how they may be written."""

import re

__all__ = ["UNITS", "has_unit"]

UNITS = {"latency.png": ("ms",), "throughput.png": ("images/s",), "speedup.png": ("×",), "accuracy.png": ("%", "×")}
"""The units by chart."""

_WRITTEN = {
    "ms": r"\bms\b|\bmilliseconds?\b",
    "images/s": r"(?:images?|imgs?)\s*(?:/|per|·|\s)\s*s(?:ec(?:ond)?s?)?\b|(?:images?|imgs?)\W+s\W*(?:-|−|⁻)\W*[1¹]",
    "×": r"×|\\times|\bx\b|\btimes\b|\bratio\b|\brelative\b",
    "%": r"%|\bper ?cent(?:age)?\b",
}


def has_unit(label: str, unit: str) -> bool:
    """Return whether an axis label holds a unit, in any of the ways it is written."""
    return bool(re.search(_WRITTEN[unit], label, re.IGNORECASE))
