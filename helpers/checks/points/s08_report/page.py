"""write_page(report) -> HTML: the four charts, the engine, and tables with the report's numbers."""

import html
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.pure import agree
from helpers.checks.points.s08_report.charts import LABELS, PICTURES, name_of, names_engine, right_of
from helpers.checks.points.s08_report.report import OnRuns, Run
from helpers.checks.points.s08_report.text import NUMBER, number
from helpers.checks.probes.answer import Notebook, probe

FUNCTION = "write_page"
DECIMALS = 1
_ROUNDING, _RELATIVE = 0.51 * 10**-DECIMALS, 0.001
Rows = list[list[str]]


@probe
def page_written(notebook: Notebook, *, report: dict[str, Any]) -> str:
    """Return what `write_page(report)` gives, as text."""
    return str(notebook[FUNCTION](report))


def _text(part: str) -> str:
    """Return what a reader sees of a part of a page; it may begin within a tag."""
    return html.unescape(re.sub(r"<[^<>]*>", " ", part)).strip()


def tables_of(page: str) -> list[tuple[str, Rows]]:
    """Return each table's heading (its caption, or the last one before it) and its cells' texts."""
    before, *parts = re.split(r"<table\b", page)
    found = []
    for part in parts:
        body, _, after = part.partition("</table>")
        caption, *rows = re.split(r"<tr\b", body)
        heading = re.split(r"<h\d\b", before)[-1]
        cells = [[_text("<" + cell) for cell in re.split(r"<t[hd]\b", row)[1:]] for row in rows]
        found.append((_text(f"<{heading} <{caption}"), cells))
        before = after
    return found


def numbers_by_name(rows: Rows, names: Sequence[str]) -> dict[str, dict[str, float | str]]:
    """Return the cells of a table by the name that begins its row, and by its column's head; numbers as such."""
    heads = [_head(text) for row in rows[:1] for text in row]
    return {name_of(row[0], names): dict(zip(heads, map(_value, row), strict=False)) for row in rows if row}


def _value(text: str) -> float | str:
    match = re.search(NUMBER, text)
    return number(match[0]) if match else text


def _head(text: str) -> str:
    letters = re.sub(r"[\W_]", "", text.lower())
    return next((word for word in ("loss", "top1") if word in letters), "".join(re.findall(r"\d+", text)[:1]))


def _table(page: str, run: Run, chart: str) -> str:
    word, right = chart.removesuffix("up"), right_of(run)[chart]
    if chart == "accuracy":
        score, loss = run.report["accuracy"], run.report["accuracy_loss"]
        right = {name: {"top1": score[name]["top1"], "loss": loss[name]} for name in run.names}
    tables = (numbers_by_name(rows, run.names) for heading, rows in tables_of(page) if word in heading.lower())
    advice = f"a heading with {word!r} before its table, each number by its name and head, at least {DECIMALS} decimal"
    agree({word: next(tables, None)}, {word: right}, "the page's tables", advice, rtol=_RELATIVE, atol=_ROUNDING)
    return f"{word}: {len(right)} rows"


def _pictures(page: str, run: Run) -> str:
    sources = [source.removeprefix("./") for source in re.findall(r"<img\b[^<>]*\bsrc=[\"']?([^\"'\s<>]+)", page)]
    if lacking := [name for name in LABELS if f"{name}.png" not in sources]:
        expected = "an <img> with the file's name as src for each of the four charts"
        found = f"none for {', '.join(lacking)}; sources: {', '.join(sources)[:120] or 'none'}"
        raise Missed(expected, found, f'<img src="{lacking[0]}.png">: the file lies beside the page; return its HTML')
    return "four charts"


def _judge(case: Case, runs: Sequence[Run], piece: str) -> str:
    judge = {"charts": _pictures, "engine": partial(names_engine, where="the page")}.get(
        piece, partial(_table, chart=piece)
    )
    pages = [case.call(page_written, report=run.report).require(FUNCTION) for run in runs]
    return [judge(page, run) for page, run in zip(pages, runs, strict=True)][0]


_TITLE = "The page shows the charts, the engine and the tables"
PICTURES.point("charts.page", 0.5, _TITLE)(OnRuns(_judge, ("charts", "engine", *LABELS)))
