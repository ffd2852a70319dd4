"""What a good chart shows: points on which the visible and the hidden checks of step 8 agree."""

from collections.abc import Iterable
from typing import Any

from helpers.feedback.chart_places import check_places
from helpers.feedback.chart_units import UNITS, has_unit
from helpers.feedback.report_numbers import among, numbers_of, words
from helpers.missed import Missed
from helpers.probes.figures import Drawn
from helpers.probes.measurements import NAMES

__all__ = ["check_device", "check_labels", "check_numbers"]

_SHARE = 0.9


def check_labels(name: str, drawn: Drawn | None) -> str:
    """Return a chart's axis labels; raise Missed where an axis has none or a quantity has no unit."""
    drawn = _needed(name, drawn)
    for axis, labels in (("x", drawn.x_labels), ("y", drawn.y_labels)):
        if not labels:
            raise Missed(f"a label on both axes of {name}", f"no {axis} label", f"set_{axis}label says what it shows")
    labels = (*drawn.x_labels, *drawn.y_labels)
    for unit in UNITS[name]:
        if not any(has_unit(label, unit) for label in labels):
            raise Missed(
                f"the unit {unit} in an axis label of {name}",
                f"the labels {', '.join(map(repr, labels))}",
                f"write the unit into the label: … ({unit})",
            )
    return f"{name}: {', '.join(labels)}"


def check_device(name: str, drawn: Drawn | None, engines: Iterable[str]) -> str:
    """Return the engine that a chart names; raise Missed where it names none of `engines`."""
    drawn, engines = _needed(name, drawn), list(engines)
    said = words(" ".join(drawn.texts))
    for engine in engines:
        if words(engine) <= said:
            return f"{name}: {engine}"
    raise Missed(
        f"{name} to say where its numbers were measured: {engines[0]}",
        f"the texts {', '.join(map(repr, drawn.texts[:12]))}",
        "put the files' `engine` into the title",
    )


def check_numbers(name: str, drawn: Drawn | None, report: dict[str, Any]) -> str:
    """Return how many of a chart's numbers were drawn; raise Missed where they are not the report's, or not named."""
    drawn = _needed(name, drawn)
    wanted = numbers_of(name, report)
    there = [value for value in wanted if among(value, drawn.numbers, 0.005, 0)]
    if len(there) < _SHARE * len(wanted):
        absent = next(value for value in wanted if value not in there)
        raise Missed(
            f"{name} to show the {len(wanted)} numbers of the report",
            f"{len(there)} of them drawn; {absent:.4g}, for one, is not",
            "draw from the files' numbers: every name, every batch, nothing typed by hand",
        )
    said = " ".join(drawn.texts).lower()
    if absent_names := [engine for engine in NAMES[1:] if engine not in said]:
        raise Missed(
            f"{name} to name what it compares",
            f"no text with {', '.join(absent_names)}",
            "give each series a label and draw a legend, or write the name beside it",
        )
    check_places(name, drawn, report)
    return f"{name}: {len(there)} of {len(wanted)} numbers"


def _needed(name: str, drawn: Drawn | None) -> Drawn:
    if drawn is None:
        raise Missed(
            f"{name}, saved by matplotlib into output_folder",
            "no figure was saved there",
            f"figure.savefig(output_folder / {name!r})",
        )
    return drawn
