"""Step 8: build_report, draw_charts, write_page, key_figures, write_analysis; functions of what they are given.

Each is called with runs that were made up (runs.py), since a number that is typed, or taken from another run, is right
by chance at most once. Reading order: runs.py, contents.py (the report), figures.py (a matplotlib figure as data),
naming.py (names, batches and units in texts), charts.py, page.py, text.py (key figures and analysis).
"""

from helpers.checks.points.point import Check
from helpers.checks.points.s08_report import charts, contents, page, text

__all__ = ["CHECKS", "PARTS", "PROMISES"]

PARTS = {**contents.PARTS, **charts.PARTS, **page.PARTS, **text.PARTS}
"""What is asked, by the name of the claim that its points go to."""

PROMISES = (
    f"at least {text.FEWEST_QUOTES} figures, in at least three of the units {', '.join(text.UNITS)}",
    f"{text.WORDS[0]} to {text.WORDS[1]} words",
    f"rounding to {contents.DECIMALS} or more decimals is fine",
    f"with at least {page.DECIMALS} decimal",
    "adds less than 10 % throughput",
)
"""What the notebook's text says in figures."""


def _check(title: str, takes: tuple[str, ...], parts: dict) -> Check:
    return Check("08_report", title, takes, tuple(part.point() for part in parts.values()))


CHECKS = {
    "check_report": _check("Report", (contents.FUNCTION,), contents.PARTS),
    "check_charts": _check("Charts and page", (charts.FUNCTION, page.FUNCTION), {**charts.PARTS, **page.PARTS}),
    "check_analysis": _check("Analysis", ("key_figures", "write_analysis"), text.PARTS),
}
