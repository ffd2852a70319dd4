"""Step 8: build_report, draw_charts, write_page, key_figures, write_analysis: functions of their arguments only.

Each is called with made-up runs, since a number that is typed in or taken from another run can only be right by
chance. Reading order: report.py, charts.py, page.py, text.py (key figures and analysis).
"""

from helpers.checks.points.s08_report import charts, page, report, text

PROMISES = (
    f"at least {text.FEWEST_QUOTES} figures, in at least {text.FEWEST_UNITS} of the units {', '.join(text.UNITS)}",
    f"{text.WORDS[0]} to {text.WORDS[1]} words",
    f"rounding to {report.DECIMALS} or more decimals is fine",
    f"at least {page.DECIMALS} decimal",
    "adds less than 10 % throughput",
)
"""Figures in the notebook's text."""

TASKS = (report.NUMBERS, charts.PICTURES, text.ANALYSIS)
