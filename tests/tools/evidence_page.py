"""Writes the tables of docs/threat-model-claims.md: the points that rest on what the student's side says of itself.

python -m tests.tools.evidence_page
"""

import re
from pathlib import Path

from helpers.checks.points.task import Point
from helpers.course.steps import BONUS, CELLS
from solutions.checks.core.asked import points_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "threat-model-claims.md"
_BETWEEN = re.compile(r"(<!-- made by python -m tests.tools.evidence_page -->\n).*?(<!-- end -->\n)", re.S)


def reported(bonus: bool) -> list[Point]:
    """Return the points that rest on a report: of the optional steps, or of the 100 points."""
    cells = [name for name, cell in CELLS.items() if (cell.criterion == BONUS) == bonus]
    return [point for cell in cells for point in points_of(cell) if point.reported]


def section() -> str:
    """Return both tables, each with its sum."""
    return "\n".join(_table(title, reported(bonus)) for title, bonus in (("of the 100", False), ("of the bonus", True)))


def _table(title: str, points: list[Point]) -> str:
    total = sum(point.worth for point in points)
    rows = [f"| {one.name} | {one.worth:g} | {one.reported} |" for one in points]
    head = [
        "| point | worth | what the student's side says, and why nobody else can |",
        "|---|---|---|",
    ]
    return "\n".join(["", f"**{total:g} points {title}**", "", *head, *rows, ""])


if __name__ == "__main__":
    text = PAGE.read_text()
    PAGE.write_text(_BETWEEN.sub(lambda found: f"{found[1]}{section()}\n{found[2]}", text))
    print(PAGE)
