"""What a good report.html shows: points on which the visible and the hidden checks of step 8 agree."""

import base64
import re
from typing import Any
from urllib.parse import unquote

from helpers.feedback.report_numbers import among, leaves, numbers_of, words
from helpers.feedback.table_places import check_table
from helpers.missed import Missed
from helpers.probes.pages import Page
from helpers.probes.quotes import numbers_in

__all__ = ["check_page"]

_SHARE = 0.8


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
        "median latency": leaves(report["latency_ms"]),
        "throughput": leaves(report["throughput"]),
        "speed-up": numbers_of("speedup.png", report),
        "top-1": [score["top1"] for score in report["accuracy"].values()],
    }
    numbers = numbers_in(page.text)
    for what, values in tables.items():
        there = sum(among(value, numbers, 0.01, 0.06) for value in values)
        if there < _SHARE * len(values):
            raise Missed(
                f"the {len(values)} numbers of {what} in a table of report.html",
                f"{there} of them",
                "write the report's numbers, rounded for reading, into a table",
            )
    for table in page.tables:
        check_table(table, report)
    if not words(report["engine"]) <= words(page.text):
        raise Missed(
            f"report.html to name the engine: {report['engine']}", "it is not in the text", "add it to a heading"
        )
    return f"{len(linked)} charts linked, {embedded} embedded, {len(numbers)} numbers"


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
