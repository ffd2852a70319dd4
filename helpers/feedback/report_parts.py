"""What a good report shows, part by part: points on which the visible and the hidden checks of step 8 agree."""

import base64
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

from helpers.feedback.card import Missed
from helpers.probes.figures import Drawn
from helpers.probes.measurements import BASELINE, NAMES
from helpers.probes.quotes import Page, candidates, count_words, matches, numbers_in, quotes

__all__ = [
    "FEWEST_QUOTES",
    "WORDS",
    "check_device",
    "check_labels",
    "check_length",
    "check_numbers",
    "check_page",
    "check_quotes",
]

WORDS = (200, 400)
FEWEST_QUOTES, FEWEST_UNITS = 5, 3

_RATE = r"(?:images?|imgs?)\s*(?:/|per|·|\s)\s*s(?:ec(?:ond)?s?)?\b|(?:images?|imgs?)\W+s\W*(?:-|−|⁻)\W*[1¹]"
_TIMES = r"×|\\times|\bx\b|\btimes\b|\bratio\b|\brelative\b"
_PERCENT = r"%|\bper ?cent(?:age)?\b"
_UNITS: dict[str, dict[str, str]] = {
    "latency.png": {"ms": r"\bms\b|\bmilliseconds?\b"},
    "throughput.png": {"images/s": _RATE},
    "speedup.png": {"×": _TIMES},
    "accuracy.png": {"%": _PERCENT, "×": _TIMES},
}
"""The units that a chart's axis labels must hold, and how they may be written."""

_CHART_SHARE, _PAGE_SHARE = 0.9, 0.8


def check_labels(name: str, drawn: Drawn | None) -> str:
    """Return a chart's axis labels; raise Missed where an axis has none or a quantity has no unit."""
    drawn = _needed(name, drawn)
    for axis, labels in (("x", drawn.x_labels), ("y", drawn.y_labels)):
        if not labels:
            raise Missed(f"a label on both axes of {name}", f"no {axis} label", f"set_{axis}label says what it shows")
    labels = (*drawn.x_labels, *drawn.y_labels)
    for unit, pattern in _UNITS[name].items():
        if not any(re.search(pattern, label, re.IGNORECASE) for label in labels):
            raise Missed(
                f"the unit {unit} in an axis label of {name}",
                f"the labels {', '.join(map(repr, labels))}",
                f"write the unit into the label: … ({unit})",
            )
    return f"{name}: {', '.join(labels)}"


def check_device(name: str, drawn: Drawn | None, engines: Iterable[str]) -> str:
    """Return the engine that a chart names; raise Missed where it names none of `engines`."""
    drawn, engines = _needed(name, drawn), list(engines)
    said = _words(" ".join(drawn.texts))
    for engine in engines:
        if _words(engine) <= said:
            return f"{name}: {engine}"
    raise Missed(
        f"{name} to say where its numbers were measured: {engines[0]}",
        f"the texts {', '.join(map(repr, drawn.texts[:12]))}",
        "put the files' `engine` into the title",
    )


def check_numbers(name: str, drawn: Drawn | None, report: dict[str, Any]) -> str:
    """Return how many of a chart's numbers were drawn; raise Missed where they are not the report's, or not named."""
    drawn = _needed(name, drawn)
    wanted = _wanted(name, report)
    there = [value for value in wanted if _among(value, drawn.numbers, 0.005, 0)]
    if len(there) < _CHART_SHARE * len(wanted):
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
    return f"{name}: {len(there)} of {len(wanted)} numbers"


def check_page(source: str, charts: dict[str, bytes | None], report: dict[str, Any]) -> str:
    """Return what report.html shows; raise Missed where a chart, the tables' numbers or the engine are not there."""
    page = Page(source)
    linked = {name for name in charts if any(_links(picture, name) for picture in page.pictures)}
    embedded = sum(_is_embedded(picture) for picture in set(page.pictures))
    if broken := sorted(name for name in linked if charts[name] is None):
        raise Missed("every picture of report.html to exist", f"no file {', '.join(broken)}", "save the charts first")
    if len(linked) + embedded < len(charts):
        raise Missed(
            f"report.html to show the {len(charts)} charts",
            f"{len(linked)} linked by their name, {embedded} embedded",
            '<img src="latency.png"> beside the file, or a data:image/png;base64 source',
        )
    tables = {
        "median latency": _leaves(report["latency_ms"]),
        "throughput": _leaves(report["throughput"]),
        "speed-up": _wanted("speedup.png", report),
        "top-1": [score["top1"] for score in report["accuracy"].values()],
    }
    numbers = numbers_in(page.text)
    for what, values in tables.items():
        there = sum(_among(value, numbers, 0.01, 0.06) for value in values)
        if there < _PAGE_SHARE * len(values):
            raise Missed(
                f"the {len(values)} numbers of {what} in a table of report.html",
                f"{there} of them",
                "write the report's numbers, rounded for reading, into a table",
            )
    if not _words(report["engine"]) <= _words(page.text):
        raise Missed(
            f"report.html to name the engine: {report['engine']}", "it is not in the text", "add it to a heading"
        )
    return f"{len(linked)} charts linked, {embedded} embedded, {len(numbers)} numbers"


def check_length(text: Any) -> str:
    """Return the number of words of an analysis; raise Missed outside 200 to 400."""
    if not isinstance(text, str):
        raise Missed("the analysis as text", f"a {type(text).__name__}", "return the text itself")
    (words, all_words), (least, most) = count_words(text), WORDS
    if all_words < least or words > most:
        advice = "say what follows from the numbers" if all_words < least else "keep what a decision needs"
        raise Missed(f"{least} to {most} words", f"{all_words if all_words < least else words}", advice)
    return f"{words} words"


def check_quotes(text: Any, report: dict[str, Any]) -> str:
    """Return the figures that a text quotes; raise Missed where one is not the report's, or there are too few."""
    if not isinstance(text, str):
        raise Missed("the analysis as text", f"a {type(text).__name__}", "return the text itself")
    every, known = quotes(text), candidates(report)
    found = [quote for quote in every if matches(quote, known[quote.unit])]
    if strange := [quote for quote in every if quote not in found and not quote.free]:
        raise Missed(
            "every figure with a unit to be one of the report's, rounded",
            f"{strange[0].text!r} matches nothing in the report that was passed in"
            + (f", nor do {len(strange) - 1} more" if len(strange) > 1 else ""),
            "take it from `report` in an f-string instead of typing it; a limit of your own reads 'at most …'",
        )
    units = sorted({quote.unit for quote in found})
    if len(found) < FEWEST_QUOTES or len(units) < FEWEST_UNITS:
        raise Missed(
            f"at least {FEWEST_QUOTES} figures in at least {FEWEST_UNITS} of the units ×, ms, images/s, %, points, MB",
            f"{len(found)} figures ({', '.join(quote.text for quote in found[:8]) or 'none'})",
            "say with which numbers each conclusion stands",
        )
    return f"{len(found)} figures: {', '.join(quote.text for quote in found[:12])}"


def _needed(name: str, drawn: Drawn | None) -> Drawn:
    if drawn is None:
        raise Missed(
            f"{name}, saved by matplotlib into output_folder",
            "no figure was saved there",
            f"figure.savefig(output_folder / {name!r})",
        )
    return drawn


def _wanted(name: str, report: dict[str, Any]) -> list[float]:
    """Return the numbers that a chart must show."""
    engines = [engine for engine in report["speedup"] if engine != BASELINE]
    if name == "speedup.png":
        return _leaves([report["speedup"][engine] for engine in engines])
    if name == "accuracy.png":
        largest = [max(report["speedup"][engine].items(), key=lambda item: int(item[0]))[1] for engine in engines]
        return largest + [report["accuracy"][engine]["top1"] for engine in engines]
    return _leaves(report["latency_ms" if name == "latency.png" else "throughput"])


def _leaves(tree: Any) -> list[float]:
    parts = tree.values() if isinstance(tree, dict) else tree
    return [leaf for part in parts for leaf in (_leaves(part) if isinstance(part, (dict, list)) else [part])]


def _among(value: float, numbers: Iterable[float], relative: float, absolute: float) -> bool:
    return any(abs(value - number) <= max(relative * abs(value), absolute) for number in numbers)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def _links(source: str, name: str) -> bool:
    """Whether a picture's source is the file of that name in the page's own folder."""
    return unquote(source).removeprefix("./") == name


def _is_embedded(source: str) -> bool:
    kind, _, data = source.partition(",")
    if not re.match(r"data:image/png;base64$", kind.strip()):
        return False
    try:
        return base64.b64decode(re.sub(r"\s", "", unquote(data)))[:4] == b"\x89PNG"
    except ValueError:
        return False
