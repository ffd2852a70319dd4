"""key_figures(report) and write_analysis(report): figures that are the report's, whatever run it is about."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.pure import agree, results_of
from helpers.checks.points.s08_report.report import ROUNDING, OnRuns, Run
from helpers.checks.points.task import Task
from helpers.checks.probes.student import one_each

KEYS = ("fastest_name", "fastest_batch", "int8_speedup", "int8_top1_loss", "int8_saturation_batch")
WORDS = (200, 400)
FEWEST_QUOTES, FEWEST_UNITS = 5, 3

NUMBER = r"[-−+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?|[-−+]?\d+(?:\.\d+)?(?:[eE][-+]?\d{1,2})?"
UNITS = {
    "×": r"[×x](?! ?\d)(?![\w-])|times(?= (?:as|faster|the|smaller|larger|higher|lower|more|less)\b)",
    "ms": r"ms(?!\w)|milliseconds?(?!\w)",
    "images/s": r"(?:images?|imgs?) ?(?:/ ?|per )s(?:ec(?:ond)?)?(?!\w)",
    "%": r"%|per ?cent(?!\w)",
    "points": r"(?:percentage[ -])?points?(?!\w)",
    "MB": r"MB(?!\w)",
}
_UNIT = "|".join(f"(?P<u{place}>{pattern})" for place, pattern in enumerate(UNITS.values()))
_FIGURE = re.compile(rf"(?<![\w.])(?P<number>{NUMBER})[\s*_`]*(?:{_UNIT})", re.IGNORECASE)
_LIMIT = r"at most|at least|under|below|above|within|up to|less than|more than|budget of"
_FREE = re.compile(rf"(?:{_LIMIT})\s+(?:{NUMBER})|(?<![\w.])\d+(?:\.[05])?0*\s*(?:%|points)", re.IGNORECASE)
_FROM_REPORT = "take it from `report` in an f-string instead of typing it; a limit of your own reads 'at most …'"
_OF_ANY_RUN = (0, 1, 100)  # the baseline's speed-up, the loss of what nothing is lost against

ANALYSIS = Task("analysis_figures", "Analysis", "check_analysis", ("key_figures", "write_analysis"))


def _answers(case: Case, runs: Sequence[Run], function: str) -> list[Any]:
    reply = case.call(results_of, name=function, calls=[[run.report] for run in runs])
    return [answer["value"] for answer in one_each(reply.require(function), runs)]


def _key_figure(case: Case, runs: Sequence[Run], key: str) -> str:
    for run, found in zip(runs, _answers(case, runs, "key_figures"), strict=True):
        rates = ", ".join(f"{batch}: {rate:.4g}" for batch, rate in run.report["throughput"]["int8"].items())
        what = f"key_figures of a run that was made up, with INT8 at {rates} images/s"
        agree(found, {key: run.figures[key]}, what, "read the key's definition again", atol=ROUNDING)
    return f"{key} right in {len(runs)} runs"


def _length(case: Case, runs: Sequence[Run], piece: str) -> str:
    lengths = [len(str(text).split()) for text in _answers(case, runs, "write_analysis")]
    if wrong := [length for length in lengths if not WORDS[0] <= length <= WORDS[1]]:
        expected = f"a text of {WORDS[0]} to {WORDS[1]} words"
        raise Missed(expected, f"{wrong[0]}", "say what a decision needs, and no more")
    return f"{lengths[0]} words"


def _quoted(case: Case, runs: Sequence[Run], piece: str) -> str:
    texts = [str(text) for text in _answers(case, runs, "write_analysis")]
    evidence = [check_quotes(text, run.report) for text, run in zip(texts, runs, strict=True)]
    check_typed(texts)
    return f"in {len(runs)} runs; the first: {evidence[0]}"


class Quote(NamedTuple):
    """A figure in a text: the number with its unit as it is written, its value, and half a unit of its last place."""

    text: str
    unit: str
    value: float
    rounding: float


def quotes(text: str) -> list[Quote]:
    """Return the figures with a unit (×, ms, images/s, %, points, MB) in the order of the text.

    Limits of the writer's own are left out: a number after "at most", "under", "a budget of" and the like, and a
    percentage or number of points that is a multiple of 0.5, such as "the 10 % rule".
    """
    found = []
    for match in _FIGURE.finditer(_FREE.sub("…", text)):
        unit = next(name for place, name in enumerate(UNITS) if match[f"u{place}"])
        mantissa, _, exponent = match["number"].lower().partition("e")
        rounding = 0.5 * 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
        found.append(Quote(" ".join(match[0].split()), unit, number(match["number"]), rounding))
    return found


def number(written: str) -> float:
    """Return the value of a number as NUMBER finds it."""
    return float(written.replace(",", "").replace("−", "-"))


def check_quotes(text: str, report: dict[str, Any]) -> str:
    """Return the figures that a text quotes; raise Missed where one is not the report's, or there are too few."""
    found, known = quotes(text), _candidates(report)
    for quote in found:  # rounded, or cut
        if not any(abs(quote.value - value) <= 2.02 * quote.rounding + 1e-9 for value in known[quote.unit]):
            expected = "every figure with a unit to be one of the report's, rounded"
            raise Missed(expected, f"{quote.text!r}, which matches nothing in the report passed in", _FROM_REPORT)
    said = ", ".join(quote.text for quote in found[:12])
    if len(found) < FEWEST_QUOTES or len({quote.unit for quote in found}) < FEWEST_UNITS:
        expected = f"at least {FEWEST_QUOTES} figures in at least {FEWEST_UNITS} of the units {', '.join(UNITS)}"
        raise Missed(expected, f"{len(found)} figures ({said})", "say with which numbers each conclusion stands")
    return f"{len(found)} figures: {said}"


def check_typed(texts: Sequence[str]) -> None:
    """Raise Missed where a figure stands in the texts about every one of several runs: it was typed, not taken."""
    found = [{quote.text: abs(quote.value) for quote in quotes(text)} for text in texts]
    for text, value in found[0].items():
        if value not in _OF_ANY_RUN and all(text in other for other in found):
            said = f"{text!r} in the texts about {len(texts)} different runs"
            raise Missed("every figure with a unit to change with the report", said, _FROM_REPORT)


def _candidates(report: dict[str, Any]) -> dict[str, list[float]]:
    """Return the values that a text about `report` may quote, by unit.

    × stands for any ratio of two of the report's values of one kind, % and points for an accuracy, a loss, or how much
    larger or smaller one value is than another; the others for a value, the difference of two, or ms an image.
    """
    kinds = [_leaves(report[key]) for key in ("latency_ms", "throughput", "sizes_bytes", "memory_bytes")]
    ratios = _leaves(report["speedup"]) + [a / b for kind in kinds for a in kind for b in kind]
    accuracy, gaps = _leaves(report["accuracy"]), _gaps(_leaves(report["accuracy"]))
    an_image = [ms / int(batch) for row in report["latency_ms"].values() for batch, ms in row.items()]
    return {
        "×": ratios,
        "ms": kinds[0] + _gaps(kinds[0]) + an_image,
        "images/s": kinds[1] + _gaps(kinds[1]),
        "%": accuracy + gaps + [100 * ratio for ratio in ratios] + [100 * (ratio - 1) for ratio in ratios],
        "points": gaps,
        "MB": [size / unit for kind in kinds[2:] for size in kind + _gaps(kind) for unit in (1e6, 2**20)],
    }


def _gaps(values: list[float]) -> list[float]:
    return [a - b for a in values for b in values]


def _leaves(tree: Any) -> list[float]:
    """Return the numbers of nested dictionaries."""
    return [value for part in tree.values() for value in _leaves(part)] if isinstance(tree, dict) else [tree]


ANALYSIS.point("analysis.key_figures", 1, "The key figures are those of the report")(OnRuns(_key_figure, KEYS, 6))
ANALYSIS.point("analysis.length", 0.25, f"The analysis has {WORDS[0]} to {WORDS[1]} words")(OnRuns(_length, ("",), 6))
ANALYSIS.point("analysis.quotes", 0.75, "The figures it quotes are the report's")(OnRuns(_quoted, ("",), 6))
