"""Writes the tables of docs/threat-model-claims.md: the claims that rest on what the student's side says of itself.

python -m tests.tools.evidence_page
"""

import re
from pathlib import Path

from helpers.course.steps import BONUS, CELLS
from solutions.checks.core.claim import Claim, claims_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "threat-model-claims.md"
_BETWEEN = re.compile(r"(<!-- made by python -m tests.tools.evidence_page -->\n).*?(<!-- end -->\n)", re.S)


def reported(bonus: bool) -> list[Claim]:
    """Return the claims that rest on a report, in whole or in part: of the optional steps, or of the 100 points."""
    cells = [name for name, cell in CELLS.items() if (cell.criterion == BONUS) == bonus]
    return [claim for cell in cells for claim in claims_of(cell) if claim.self_reported]


def section() -> str:
    """Return both tables, each with its sum."""
    return "\n".join(_table(title, reported(bonus)) for title, bonus in (("of the 100", False), ("of the bonus", True)))


def _table(title: str, claims: list[Claim]) -> str:
    total = sum(claim.self_reported for claim in claims)
    rows = [f"| {one.name} | {one.points:g} | {one.self_reported:g} | {one.reported.reason} |" for one in claims]
    head = [
        "| claim | points | of them reported | what the student's side says, and why nobody else can |",
        "|---|---|---|---|",
    ]
    return "\n".join(["", f"**{total:g} points {title}**", "", *head, *rows, ""])


if __name__ == "__main__":
    text = PAGE.read_text()
    PAGE.write_text(_BETWEEN.sub(lambda found: f"{found[1]}{section()}\n{found[2]}", text))
    print(PAGE)
