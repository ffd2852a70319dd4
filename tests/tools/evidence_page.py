"""`python -m tests.tools.evidence_page`: the points that rest on what the student's side says of itself, and why."""

from helpers.checks.points.task import Point
from helpers.course.steps import BONUS, CELLS
from solutions.checks.core.asked import points_of


def reported(bonus: bool) -> list[Point]:
    """Return the points that rest on a report: of the optional steps, or of the 100 points."""
    cells = [name for name, cell in CELLS.items() if (cell.criterion == BONUS) == bonus]
    return [point for cell in cells for point in points_of(cell) if point.reported]


if __name__ == "__main__":
    for title, bonus in (("of the 100", False), ("of the bonus", True)):
        print(f"{sum(point.worth for point in reported(bonus)):g} points {title}")
        for point in reported(bonus):
            print(f"  {point.name} {point.worth:g}: {point.reported}")
