"""write_page(report) -> HTML: the four charts, the engine, and tables with the report's numbers."""

import html
import re
from collections.abc import Iterable

from helpers.checks.points.case import Case
from helpers.checks.points.pure import agree
from helpers.checks.points.s08_report.charts import LABELS, PICTURES, name_of, names_engine, right_of
from helpers.checks.points.s08_report.report import OnRuns, Run
from helpers.checks.points.s08_report.text import number
from helpers.checks.probes.answer import called

FUNCTION = "write_page"
DECIMALS = 1
_ROUNDING, _RELATIVE = 0.51 * 10**-DECIMALS, 0.001
Rows = list[list[str]]


def _text(part: str) -> str:
    """Return the text of a part of a page as a reader sees it."""
    return html.unescape(re.sub(r"<[^<>]*>", " ", part)).strip()


def tables_of(page: str) -> dict[str, Rows]:
    """Return the cells of the table after each <h2> that has one, row by row, by the heading in lower case."""
    parts = [part.partition("</table>")[0].partition("<table") for part in page.split("<h2")[1:]]
    rows = {_text(f"<{heading}").lower(): re.split(r"<tr\b", table)[1:] for heading, _, table in parts if table}
    cells = {heading: [re.split(r"<t[hd]\b", row)[1:] for row in table] for heading, table in rows.items()}
    return {heading: [[_text(f"<{cell}") for cell in row] for row in table] for heading, table in cells.items()}


def numbers_by_name(rows: Rows, names: Iterable[str]) -> dict[str, dict[str, float]]:
    """Return a table's numbers by the name at the start of the row and the column's head: a batch, top1, loss."""
    heads = [re.sub(r"[(\[].*|\W|batch", "", text.lower()) for row in rows[:1] for text in row]
    return {name_of(row[0], names): dict(zip(heads, map(number, row), strict=False)) for row in rows if row}


def _table(page: str, run: Run, chart: str) -> str:
    word, right = chart.removesuffix("up"), right_of(run)[chart]
    if chart == "accuracy":
        right = {
            name: {"top1": score["top1"], "loss": run.report["accuracy_loss"][name]}
            for name, score in run.report["accuracy"].items()
        }
    tables = (
        numbers_by_name(rows, run.report["throughput"]) for heading, rows in tables_of(page).items() if word in heading
    )
    advice = f"put an <h2> with {word!r} before its table, names first in the rows, at least {DECIMALS} decimal"
    agree({word: next(tables, None)}, {word: right}, "the page's tables", advice, rtol=_RELATIVE, atol=_ROUNDING)
    return f"{word}: {len(right)} rows"


def _pictures(page: str, run: Run, piece: str) -> str:
    sources = re.findall(r"<img\b[^<>]*\bsrc=[\"']?([^\"'\s<>]+)", page)
    found, right = {source.removeprefix("./"): True for source in sources}, {f"{name}.png": True for name in LABELS}
    agree(found, right, "the page's <img> sources", "name the charts' files in <img> tags, without a folder")
    return "four charts"


def _judge(case: Case, run: Run, piece: str) -> str:
    judge = {"charts": _pictures, "the page": names_engine}.get(piece, _table)
    page = str(case.call(called, name=FUNCTION, argument=run.report).require(FUNCTION))
    return judge(page, run, piece)


PICTURES.point("charts.page", 0.5, "The page has the charts, the engine and the tables")(
    OnRuns(_judge, ("charts", "the page", *LABELS))
)
