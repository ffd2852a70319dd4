"""write_page(report) -> HTML: the four charts, the engine, and tables in which a reader finds each number."""

import math
import re
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from itertools import zip_longest

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.s08_report.charts import CHARTS
from helpers.checks.points.s08_report.naming import batch_in, name_in
from helpers.checks.points.s08_report.runs import Part, Run
from helpers.checks.points.s08_report.text import NUMBER, number
from helpers.checks.probes.answer import Notebook, probe
from helpers.course.settings import BASELINE

FUNCTION = "write_page"
DECIMALS = 1
"""Least decimals of a number on the page; above some 500 the rounding that is allowed takes whole ones too."""

_ROUNDING, _RELATIVE = 0.51 * 10**-DECIMALS, 0.001
_TABLES = {
    "latency_ms": ("latency", r"latenc|\bms\b|millisecond"),
    "throughput": ("throughput", r"throughput|images? ?(?:/|per) ?s"),
    "speedup": ("speed-up", r"speed|×|relative"),
}
_HIDING = ("script", "style", "template", "title")
_EMPTY = ("area", "br", "col", "hr", "img", "input", "link", "meta", "wbr")  # elements that have no end
_TOP1 = re.compile(r"\btop\W?1\b", re.IGNORECASE)

Rows = list[list[str]]


@probe
def page_written(notebook: Notebook, *, report: dict) -> str | None:
    """Return what `write_page(report)` gives, None where that is no text."""
    returned = notebook[FUNCTION](report)
    return returned if isinstance(returned, str) else None


class Page(HTMLParser):
    """A web page's visible text, the sources of its pictures, and its tables: heading and rows of cells, all texts.

    What an element hides is left out. A table's heading is its caption and what stands between it and the one before.
    """

    def __init__(self, source: str) -> None:
        super().__init__()
        self.pictures: list[str] = []
        self.tables: list[tuple[list[str], Rows]] = []
        self.text = ""
        self._before: list[str] = []
        self._in_table, self._in_cell = False, False
        self._unseen: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._unseen or _hidden(tag, attrs):
            if tag not in _EMPTY and tag in (self._unseen or [tag]):
                self._unseen.append(tag)
            return
        if tag == "img":
            self.pictures.append((dict(attrs).get("src") or "").removeprefix("./"))
        elif tag == "table":
            self.tables.append((self._before, []))
            self._before, self._in_table = [], True
        elif tag == "tr" and self.tables:
            self.tables[-1][1].append([])
        elif tag in ("td", "th") and self.tables and self.tables[-1][1]:
            self.tables[-1][1][-1].append("")
        # A cell need not be closed in HTML: the next tag of a table ends it.
        self._in_cell = tag in ("td", "th") or (self._in_cell and tag not in ("table", "tr", "caption"))

    def handle_endtag(self, tag: str) -> None:
        if tag in self._unseen:
            self._unseen.pop()
        self._in_cell = self._in_cell and tag not in ("td", "th", "tr", "table")
        self._in_table = self._in_table and tag != "table"

    def handle_data(self, data: str) -> None:
        if self._unseen:
            return
        self.text += f" {data}"
        if self._in_cell and self.tables and self.tables[-1][1] and self.tables[-1][1][-1]:
            self.tables[-1][1][-1][-1] += data
        else:
            (self.tables[-1][0] if self._in_table else self._before).append(data)


def _hidden(tag: str, attrs: list[tuple[str, str | None]]) -> bool:
    """Return whether a browser shows nothing of an element. What style sheets do is for a person to see."""
    said = {name: value or "" for name, value in attrs}
    style = re.sub(r"\s", "", said.get("style", "")).lower()
    return tag in _HIDING or "hidden" in said or bool(re.search(r"display:none|visibility:hidden", style))


def _page(case: Case, run: Run) -> Page:
    source = case.call(page_written, report=run.report).require(FUNCTION)
    if source is None:
        raise Missed(f"the page's HTML as text from {FUNCTION}", "another type", "return the text, do not write a file")
    try:
        return Page(source)
    except (AssertionError, ValueError) as error:  # of html.parser
        advice = "look at its marks that begin with <! or &#"
        raise Missed("a page that can be read as HTML", str(error)[:120], advice) from error


def _check_charts(page: Page, run: Run) -> str:
    if lacking := [name for name in CHARTS if f"{name}.png" not in page.pictures]:
        expected = "an <img> with the file's name as src for each of the four charts"
        found = f"none for {', '.join(lacking)}; sources: {', '.join(page.pictures)[:120] or 'none'}"
        raise Missed(expected, found, f'<img src="{lacking[0]}.png">: the file lies beside the page')
    return "four charts"


def _check_engine(page: Page, run: Run) -> str:
    engine, said = run.report["engine"], " ".join(re.findall(r"\w+", page.text.lower()))
    if " ".join(re.findall(r"\w+", engine.lower())) not in said:
        raise Missed(f"{engine!r} on the page", "it is not in the text", "put the report's `engine` into a heading")
    return engine


def _check_table(page: Page, run: Run, key: str) -> str:
    what, heading = _TABLES[key]
    texts = [" ".join([*before, *_heads(rows, run)]) for before, rows in page.tables]
    said = [
        rows
        for text, (_, rows) in zip(texts, page.tables, strict=True)
        if texts.count(text) == 1 and re.search(heading, text, re.I)  # one that stands twice does not say which it is
    ]
    expected = f"a table of {what}, headed so and as no other one, with a row for each name and a column for each batch"
    table = run.report[key]
    optional = {BASELINE} if key == "speedup" else set()
    return _verified(said, run, table, run.batches, lambda text: batch_in(text, run), expected, what, optional)


def _check_scores(page: Page, run: Run) -> str:
    def column(text: str) -> str:
        return "top-1" if _TOP1.search(text) else "loss" if re.search(r"\bloss", text, re.I) else ""

    loss = run.report["accuracy_loss"]
    right = {name: {"top-1": score["top1"], "loss": loss[name]} for name, score in run.report["accuracy"].items()}
    expected = "a table with a row for each name, a column headed top-1 and one headed loss"
    tables = [rows for _, rows in page.tables]
    return _verified(tables, run, right, ["top-1", "loss"], column, expected, "accuracy", set())


def _heads(rows: Rows, run: Run) -> list[str]:
    cells = [cell.strip() for row in rows for cell in row]
    return [cell for cell in cells if not re.fullmatch(NUMBER, cell) and not name_in(cell, run.names)]


def _verified(
    tables: list[Rows],
    run: Run,
    right: dict[str, dict[str, float]],
    columns: list[str],
    column: Callable[[str], str],
    expected: str,
    what: str,
    optional: set[str],
) -> str:
    """Return evidence that a table holds the `right` numbers by name and column; raise Missed where none does."""
    wrong = None
    for rows in (either for table in tables for either in (table, _turned(table))):
        cells = _cells(rows, run, columns, column)
        if {name for name, _ in cells} >= set(run.names) - optional:
            off = [(key, text) for key, text in cells.items() if not _says(text, right[key[0]][key[1]])]
            if not off:
                return f"{what}: {len(cells)} numbers"
            wrong = wrong or off[0]
    if wrong is None:
        if not tables:
            raise Missed(expected, "no table headed so", "say what a table shows in its caption or right before it")
        found = f"{len(tables)} tables in question, none with these rows and columns"
        raise Missed(expected, found, "write names and heads into the table's first row and column")
    (name, head), text = wrong
    place = f"{what} of {name} " + (f"at batch {head}" if head in run.batches else f"under {head}")
    advice = "look each number up by its name and head: other dictionaries may have another order"
    if "." not in text and abs(_number_in(text) - right[name][head]) < 1:
        advice = f"write at least {DECIMALS} decimal"
    raise Missed(f"{place} to be {right[name][head]:,.6g} in its table", repr(text.strip()[:60]), advice)


def _turned(rows: Rows) -> Rows:
    return [list(column) for column in zip_longest(*rows, fillvalue="")]


def _cells(rows: Rows, run: Run, columns: list[str], column: Callable[[str], str]) -> dict[tuple[str, str], str]:
    """Return the text by name and column of a table whose rows are names; nothing where it has not all columns."""
    for row in rows:
        heads = {column(text): place for place, text in enumerate(row) if column(text)}
        if set(heads) == set(columns):
            break
    else:
        return {}
    found = {}
    for row in rows:
        own = [text for place, text in enumerate(row) if place not in heads.values()]
        name = next(filter(None, (name_in(text, run.names) for text in own)), "")
        if name and len(row) > max(heads.values()):
            found |= {(name, head): row[place] for head, place in heads.items()}
    return found


def _says(text: str, value: float) -> bool:
    return abs(_number_in(text) - value) <= max(_ROUNDING, _RELATIVE * abs(value))


def _number_in(text: str) -> float:
    match = re.search(NUMBER, text)
    return number(match[0]) if match else math.nan


_CHECKS: dict[str, Callable[[Page, Run], str]] = {
    "charts": _check_charts,
    "engine": _check_engine,
    **{key: lambda page, run, key=key: _check_table(page, run, key) for key in _TABLES},
    "scores": _check_scores,
}


def _judge(case: Case, runs: Sequence[Run], piece: str) -> str:
    return [_CHECKS[piece](_page(case, run), run) for run in runs][0]


PARTS = {"charts.page": Part("The page shows the charts, the engine and the tables", tuple(_CHECKS), _judge)}
