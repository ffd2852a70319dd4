"""Step 8: build_report, draw_charts, write_page, key_figures, write_analysis; functions of what they are given.

Each is called with runs that were made up, since a number that is typed, or taken from another run, is right by chance
at most once. Reading order: report.py, charts.py, page.py, text.py (key figures and analysis).
"""

from helpers.checks.points.s08_report import charts, page, report, text

PROMISES = (
    f"at least {text.FEWEST_QUOTES} figures, in at least {text.FEWEST_UNITS} of the units {', '.join(text.UNITS)}",
    f"{text.WORDS[0]} to {text.WORDS[1]} words",
    f"rounding to {report.DECIMALS} or more decimals is fine",
    f"at least {page.DECIMALS} decimal",
    "adds less than 10 % throughput",
)
"""What the notebook's text says in figures."""

TASKS = (report.NUMBERS, charts.PICTURES, text.ANALYSIS)
