"""Which engine, batch and unit a text names, in any of the ways they are written."""

import re
from collections.abc import Sequence

from helpers.checks.points.s08_report.runs import Run
from helpers.course.settings import BASELINE

_WRITTEN = {
    "ms": r"\bms\b|\bmilliseconds?\b",
    "images/s": r"(?:images?|imgs?)\s*(?:/|per|·|\s)\s*s(?:ec(?:ond)?s?)?\b|(?:images?|imgs?)\W+s\W*(?:-|−|⁻)\W*[1¹]",
    "×": r"×|\\times|\bx\b|\btimes\b|\bratio\b|\brelative\b",
    "%": r"%|\bper ?cent(?:age)?\b",
}
_BATCH = re.compile(
    r"(?:\b(?:batch(?:[ _-]?size)?|bs|b|n)\W{0,3}|^\W*)(\d+)(?:\.0+)?(?=\W*$|\W*images?\W*$|[\s,:;)])", re.IGNORECASE
)


def has_unit(label: str, unit: str) -> bool:
    """Return whether an axis label holds a unit, in any of the ways it is written."""
    return bool(re.search(_WRITTEN[unit], label, re.IGNORECASE))


def name_in(text: str, names: Sequence[str]) -> str:
    """Return the one name that a text holds, however it is written: "FP16", "fp-16"; "" where it is none or several."""
    spans = {match.span(): name for name in names for match in _spelled(name).finditer(text.lower())}
    inner = {one for one in spans for a, b in spans if (a, b) != one and a <= one[0] and one[1] <= b}
    found = {name for span, name in spans.items() if span not in inner}
    if found == {BASELINE, "fp32"}:  # "PyTorch, eager FP32"
        return BASELINE
    return found.pop() if len(found) == 1 else ""


def _spelled(name: str) -> re.Pattern[str]:
    parts = r"[\W_]?".join(re.findall(r"[a-z]+|\d+", name))
    pattern = r"(?:py)?torch(?:\W*fp\W?32)?" if name == BASELINE else parts
    return re.compile(rf"(?<![a-z0-9]){pattern}(?![a-z0-9])")


def batch_in(text: str, run: Run) -> str:
    """Return the batch that a text says, as a number alone or after the word; "" where it says none of the run's."""
    match = _BATCH.search(text) if not name_in(text, run.names) or "batch" in text.lower() else None
    return match[1] if match and match[1] in run.batches else ""
