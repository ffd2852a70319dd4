"""key_figures(report) and write_analysis(report): their figures match the report, whatever its run."""

import re
from typing import Any

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.pure import compare
from helpers.checks.points.s08_report.report import EXAMPLES, ROUNDING, OnRuns, Run
from helpers.checks.points.task import Task
from helpers.checks.probes.answer import called

KEYS = ("fastest_name", "fastest_batch", "int8_speedup", "int8_top1_loss", "int8_saturation_batch")
WORDS = (200, 400)
FEWEST_QUOTES, FEWEST_UNITS = 5, 3

NUMBER = r"[-−+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
UNITS = {
    "×": r"[×x](?! ?\d)(?![\w-])|times(?= (?:as|faster|the|smaller|larger|higher|lower|more|less)\b)",
    "ms": r"ms(?!\w)|milliseconds?(?!\w)",
    "images/s": r"(?:images?|imgs?) ?(?:/ ?|per )s(?:ec(?:ond)?)?(?!\w)",
    "%": r"%|per ?cent(?!\w)",
    "points": r"(?:percentage[ -])?points?(?!\w)",
    "MB": r"MB(?!\w)",
}
_UNIT = "|".join(f"({pattern})" for pattern in UNITS.values())
_FIGURE = re.compile(rf"(?<![\w.])({NUMBER})[\s*_`]*(?:{_UNIT})", re.IGNORECASE)
_LIMIT = r"at most|at least|under|below|above|within|up to|less than|more than|budget of"
_FREE = re.compile(rf"(?:{_LIMIT})\s+(?:{NUMBER})|(?<![\w.])\d+(?:\.[05])?0*\s*(?:%|points)", re.IGNORECASE)
_OF_TWO = "quote values of `report`, or ratios, shares or differences of two; write a limit of your own as 'at most …'"
_FROM_REPORT = "fill it in from `report` with an f-string; write a limit of your own as 'at most …'"
_OF_ANY_RUN = (0, 1, 100)  # for example the baseline's speed-up, and its loss

ANALYSIS = Task("analysis_figures", "Analysis", "check_analysis", ("key_figures", "write_analysis"))


def _key_figure(case: Case, run: Run, key: str) -> str:
    rates = ", ".join(f"{batch}: {rate:.4g}" for batch, rate in run.report["throughput"]["int8"].items())
    advice = f"read the key's definition again; INT8's images/s in this run, by batch: {rates}"
    return compare(case, "key_figures", [((run.report,), {key: run.figures[key]})], advice, atol=ROUNDING)


def _analysis(case: Case, run: Run) -> str:
    """Return the student's text about a run."""
    return str(case.call(called, name="write_analysis", argument=run.report).require("write_analysis"))


def _length(case: Case, run: Run, piece: str) -> str:
    length = len(_analysis(case, run).split())
    if not WORDS[0] <= length <= WORDS[1]:
        raise Missed(f"a text of {WORDS[0]} to {WORDS[1]} words", f"{length}", "write only what a decision needs")
    return f"{length} words"


def _quoted(case: Case, run: Run, piece: str) -> str:
    found, *others = (quotes(_analysis(case, each)) for each in (run, *EXAMPLES))
    known, said = _candidates(run.report), ", ".join(" ".join(quote) for quote in found[:12])
    for written, unit in found:
        value, rounding = number(written), 0.5 * 10.0 ** -len(written.partition(".")[2])
        if not any(abs(value - right) <= 2.02 * rounding + 1e-9 for right in known[unit]):  # rounded, or cut
            text = f"'{written} {unit}', which matches nothing in the report that was passed in"
            raise Missed("every figure with a unit to match the report, rounded", text, _OF_TWO)
        if abs(value) not in _OF_ANY_RUN and all((written, unit) in other for other in others):
            text = f"'{written} {unit}' in the texts about {len(others)} different runs"
            raise Missed("every figure with a unit to change with the report", text, _FROM_REPORT)
    if len(found) < FEWEST_QUOTES or len({unit for _, unit in found}) < FEWEST_UNITS:
        expected = f"at least {FEWEST_QUOTES} figures in at least {FEWEST_UNITS} of the units {', '.join(UNITS)}"
        raise Missed(expected, f"{len(found)} figures ({said})", "give the figures that support each conclusion")
    return f"{len(found)} figures: {said}"


def quotes(text: str) -> list[tuple[str, str]]:
    """Return the figures with a unit (×, ms, images/s, %, points, MB) in the order of the text: number and unit.

    The writer's own limits are left out: a number after "at most", "under", "a budget of" and the like, and a
    percentage or number of points that is a multiple of 0.5, such as "the 10 % rule".
    """
    return [(match[1], list(UNITS)[(match.lastindex or 2) - 2]) for match in _FIGURE.finditer(_FREE.sub("…", text))]


def number(text: str) -> float:
    """Return the first number in a text, NaN for none."""
    return float((re.findall(NUMBER, text) or ["nan"])[0].replace(",", "").replace("−", "-"))


def _candidates(report: dict[str, Any]) -> dict[str, list[float]]:
    """Return the values that a text about `report` may quote, by unit.

    × may be any ratio of two values of one kind. % and points may be an accuracy, a loss, or the difference between two
    values. The others may be a value, the difference of two, or ms per image.
    """
    kinds = [_leaves(report[key]) for key in ("latency_ms", "throughput", "sizes_bytes", "memory_bytes")]
    ratios = _leaves(report["speedup"]) + [a / b for kind in kinds for a in kind for b in kind]
    accuracy, gaps = _leaves(report["accuracy"]), _gaps(_leaves(report["accuracy"]))
    an_image = [ms / int(batch) for row in report["latency_ms"].values() for batch, ms in row.items()]
    return {
        "×": ratios,
        "ms": kinds[0] + _gaps(kinds[0]) + an_image,
        "images/s": kinds[1] + _gaps(kinds[1]),
        "%": accuracy + gaps + [100 * share for ratio in ratios for share in (ratio, ratio - 1, 1 - ratio)],
        "points": gaps,
        "MB": [size / unit for kind in kinds[2:] for size in kind + _gaps(kind) for unit in (1e6, 2**20)],
    }


def _gaps(values: list[float]) -> list[float]:
    return [a - b for a in values for b in values]


def _leaves(tree: Any) -> list[float]:
    """Return the numbers of nested dictionaries."""
    return [value for part in tree.values() for value in _leaves(part)] if isinstance(tree, dict) else [tree]


ANALYSIS.point("analysis.key_figures", 1, "The key figures match the report")(OnRuns(_key_figure, KEYS, 6))
ANALYSIS.point("analysis.length", 0.25, f"The analysis has {WORDS[0]} to {WORDS[1]} words")(OnRuns(_length, ("",), 6))
ANALYSIS.point("analysis.quotes", 0.75, "Quoted figures match the report")(OnRuns(_quoted, ("",), 6))
