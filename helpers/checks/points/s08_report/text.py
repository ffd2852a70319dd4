"""key_figures(report) and write_analysis(report): figures that are the report's, whatever run it is about."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.s08_report.contents import as_json, equal
from helpers.checks.points.s08_report.runs import Part, Report, Run
from helpers.checks.probes.answer import Notebook, probe

KEYS = ("fastest_name", "fastest_batch", "int8_speedup", "int8_top1_loss", "int8_saturation_batch")
WORDS = (200, 400)
FEWEST_QUOTES, FEWEST_UNITS = 5, 3

NUMBER = r"[-−+]?\d{1,3}(?:[,\u202f\u2009]\d{3})+(?:\.\d+)?|[-−+]?\d+(?:\.\d+)?(?:[eE][-+]?\d{1,2})?"
UNITS = {
    "×": r"×(?! ?\d)|x(?! ?\d)(?![\w-])|\\times|times(?= (?:as|faster|the|smaller|larger|higher|lower|more|less)\b)",
    "ms": r"ms(?!\w)|milliseconds?(?!\w)",
    "images/s": r"(?:images?|img|imgs)(?: ?/ ?s(?:ec(?:ond)?)?(?!\w)| (?:per|a|each|every) second)",
    "%": r"%|per ?cent(?!\w)",
    "points": r"(?:percentage[ -]|%[ -])?points?(?!\w)",
    "MB": r"MB(?!\w)|megabytes?(?!\w)",
}
_UNIT = "|".join(f"(?P<u{place}>{pattern})" for place, pattern in enumerate(UNITS.values()))
_QUOTE = re.compile(rf"(?<![\w.])(?P<number>{NUMBER})[\s\u00a0*_`$-]*(?:{_UNIT})")
_LIMIT = re.compile(
    r"(?:at most|at least|under|below|above|over|within|less than|more than|no more than|up to|limit of|budget of|"
    r"allow\w*|tolerat\w*|limit is|budget is)[\s\w]{0,12}$",
    re.IGNORECASE,
)
_OF_ANY_RUN = (
    0,
    1,
    100,
)  # true of any run somewhere: the baseline's speed-up, the loss of what nothing is lost against


@probe
def about_report(notebook: Notebook, *, function: str, report: dict[str, Any]) -> Any:
    """Return what `function(report)` gives, as JSON would hold it; text stays text."""
    returned = notebook[function](report)
    return returned if isinstance(returned, str) else as_json(returned)


def _judge_figure(case: Case, runs: Sequence[Run], key: str) -> str:
    for run in runs:
        found = case.call(about_report, function="key_figures", report=run.report).require("key_figures")
        if not isinstance(found, dict):
            raise Missed("key_figures to return a dictionary", repr(found)[:80], f"its keys are {', '.join(KEYS)}")
        if not equal(found.get(key), run.figures[key]):
            about = ""
            if key == "int8_saturation_batch":
                rates = run.report["throughput"]["int8"]
                about = f" (INT8: {', '.join(f'{batch}: {rate:.4g}' for batch, rate in rates.items())} images/s)"
            expected = f"{key} = {run.figures[key]!r} for a run that was made up{about}"
            raise Missed(expected, repr(found.get(key, "nothing"))[:80], "read the key's definition again")
    return f"{key} right in {len(runs)} runs"


def _texts(case: Case, runs: Sequence[Run]) -> list[str]:
    texts = []
    for run in runs:
        text = case.call(about_report, function="write_analysis", report=run.report).require("write_analysis")
        if not isinstance(text, str):
            raise Missed("the analysis as text", f"a {type(text).__name__}", "return the text itself")
        texts.append(re.sub(r"<!--.*?-->", " ", text, flags=re.DOTALL))
    return texts


def _judge_length(case: Case, runs: Sequence[Run], piece: str) -> str:
    least, most = WORDS
    for text in _texts(case, runs):
        words = text.split()
        spoken = sum(any(letter.isalnum() for letter in word) for word in words)
        if len(words) < least:
            raise Missed(f"{least} to {most} words", f"{len(words)}", "say what follows from the numbers")
        if spoken > most:  # a dash or a rule of a table is no word
            raise Missed(f"{least} to {most} words", f"{spoken}", "keep what a decision needs")
    return f"{spoken} words"


def _judge_quotes(case: Case, runs: Sequence[Run], piece: str) -> str:
    texts = _texts(case, runs)
    evidence = [check_quotes(text, run.report) for text, run in zip(texts, runs, strict=True)]
    check_typed(texts)
    return f"in {len(runs)} runs; the first: {evidence[0]}"


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


def quotes(text: str) -> list[Quote]:
    """Return the figures with a unit (×, ms, images/s, %, points, MB) in the order of the text."""
    found = []
    for match in _QUOTE.finditer(text):
        unit = next(name for i, name in enumerate(UNITS) if match[f"u{i}"])
        value, rounding = number(match["number"]), half_a_unit(match["number"])
        limit = bool(_LIMIT.search(text[max(0, match.start() - 40) : match.start()]))
        whole = unit in ("%", "points") and value % 0.5 == 0 and rounding >= 0.05
        found.append(Quote(" ".join(match[0].split()), value, unit, rounding, limit or whole))
    return found


def number(written: str) -> float:
    """Return the value of a number as NUMBER finds it."""
    return float(re.sub(r"[,\u202f\u2009]", "", written).replace("−", "-"))


def half_a_unit(written: str) -> float:
    """Return half a unit of the last place of a number as it is written."""
    mantissa, _, exponent = written.lower().partition("e")
    return 0.5 * 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def check_quotes(text: str, report: Report) -> str:
    """Return the figures that a text quotes; raise Missed where one is not the report's, or there are too few."""
    every, known = quotes(text), _candidates(report)
    found = [quote for quote in every if _matches(quote, known[quote.unit])]
    if strange := [quote for quote in every if quote not in found and not quote.free]:
        raise Missed(
            "every figure with a unit to be one of the report's, rounded",
            f"{strange[0].text!r} matches nothing in the report that was passed in"
            + (f", nor do {len(strange) - 1} more" if len(strange) > 1 else ""),
            "take it from `report` in an f-string instead of typing it; a limit of your own reads 'at most …'",
        )
    if len(found) < FEWEST_QUOTES or len({quote.unit for quote in found}) < FEWEST_UNITS:
        raise Missed(
            f"at least {FEWEST_QUOTES} figures in at least {FEWEST_UNITS} of the units {', '.join(UNITS)}",
            f"{len(found)} figures ({', '.join(quote.text for quote in found[:8]) or 'none'})",
            "say with which numbers each conclusion stands",
        )
    return f"{len(found)} figures: {', '.join(quote.text for quote in found[:12])}"


def check_typed(texts: Sequence[str]) -> None:
    """Raise Missed where a figure stands in the texts about every one of several runs: it was typed, not taken."""
    found = [{quote.text: quote for quote in quotes(text)} for text in texts]
    same = [quote for written, quote in found[0].items() if all(written in other for other in found[1:])]
    typed = [quote.text for quote in same if not quote.free and abs(quote.value) not in _OF_ANY_RUN]
    if len(texts) > 1 and typed:
        raise Missed(
            "every figure with a unit to change with the report",
            f"{typed[0]!r} in the texts about {len(texts)} different runs",
            "take it from `report` in an f-string instead of typing it; a limit of your own reads 'at most …'",
        )


def _candidates(report: Report) -> dict[str, list[float]]:
    """Return the values that a text about `report` may quote, by unit.

    × stands for any ratio of two of the report's values of one kind, % and points for an accuracy, a loss, or how much
    larger or smaller one value is than another; the others for a value, the difference of two, or ms an image.
    """
    kinds = [_leaves(report[key]) for key in ("latency_ms", "throughput", "sizes_bytes", "memory_bytes")]
    ratios = _leaves(report["speedup"]) + [a / b for kind in kinds for a in kind for b in kind if b]
    shares = [100 * ratio for ratio in ratios] + [100 * (ratio - 1) for ratio in ratios]
    accuracy = _leaves(report["accuracy"])
    gaps = _gaps(accuracy) + _leaves(report["accuracy_loss"])
    an_image = [ms / int(batch) for row in report["latency_ms"].values() for batch, ms in row.items()]
    return {
        "×": ratios,
        "ms": kinds[0] + _gaps(kinds[0]) + an_image,
        "images/s": kinds[1] + _gaps(kinds[1]),
        "%": accuracy + gaps + shares,
        "points": gaps,
        "MB": [size / unit for kind in kinds[2:] for size in kind + _gaps(kind) for unit in (1e6, 2**20)],
    }


def _gaps(values: list[float]) -> list[float]:
    return [a - b for a in values for b in values]


def _matches(quote: Quote, values: Sequence[float]) -> bool:
    """Return whether the quoted figure is one of `values`, rounded (or cut) to the places that are written.

    A minus may say that something shrank, but no ratio has one.
    """
    if quote.unit == "×" and quote.value < 0:
        return False
    return any(abs(abs(quote.value) - abs(value)) <= 2.02 * quote.rounding + 1e-9 for value in values)


def _leaves(tree: Any) -> list[float]:
    """Return the numbers of nested dictionaries."""
    if isinstance(tree, dict):
        return [value for part in tree.values() for value in _leaves(part)]
    return [float(tree)] if isinstance(tree, (int, float)) and math.isfinite(tree) else []


PARTS = {
    "analysis.key_figures": Part("The key figures are those of the report", KEYS, _judge_figure),
    "analysis.length": Part(f"The analysis has {WORDS[0]} to {WORDS[1]} words", ("length",), _judge_length),
    "analysis.quotes": Part("The figures it quotes are the report's", ("quotes",), _judge_quotes),
}
