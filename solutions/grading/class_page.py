"""class.html: the class at a glance, from its grades and records; no script, nothing loaded from elsewhere.

Difficulty and discrimination are those of classical test theory: the share of its points that a claim gave, and the
correlation of that share with the student's other points of the 100 (item-rest correlation). If a graded step has no
record of a claim that others have, the claim gave 0.
"""

import datetime
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from helpers.course.steps import BONUS, CELLS, CRITERIA, STEPS
from helpers.tools.files import atomic_write
from solutions.checks.core.record import ClaimResult
from solutions.grading.course import Course
from solutions.grading.grades import StudentGrades
from solutions.grading.layout import records_of
from solutions.grading.outcome import usable_record
from solutions.grading.step_record import GRADED, StepRecord
from solutions.grading.untrusted.text import printable

# With fewer students a correlation says nothing.
_FEWEST = 5


def write_class_page(folder: Path, figures: dict[str, Any]) -> Path:
    """Write the page of a class's figures into `folder` and return its path."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if isinstance(value, str) else value,
    )
    page = environment.get_template("class.html.j2").render(
        figures=figures, written=f"{datetime.datetime.now().astimezone():%Y-%m-%d %H:%M}"
    )
    atomic_write(folder / "class.html", page)
    return folder / "class.html"


def class_figures(
    course: Course, grades: list[StudentGrades], worth: dict[str, float], steps: list[str]
) -> dict[str, Any]:
    """Return what class.html shows of a graded class, from its grades and the records in autograded/.

    `rows` has everybody as grades.json does, with None for what is not graded. `bins` counts the totals in ten equal
    parts of the `most` points, and `claims` has the hardest first. `slowest` are (seconds, student, step), and
    `messages` (how many, step, claim's title, what students were told to try).
    """
    most = sum(points for criterion, points in worth.items() if criterion != BONUS)
    totals = [row.total for row in grades if not row.lacks(*CRITERIA)]
    bins, _ = np.histogram(np.clip(totals, 0, most), bins=10, range=(0, most or 1))
    records = [StepRecord.known(course.autograded(row.student), row.student, step) for row in grades for step in steps]
    graded = [record for record in records if record.state == GRADED]
    timed = [(record.seconds, record.student, record.step) for record in graded if record.seconds is not None]
    results = [(record, result) for record in graded for result in _results(course, record)]
    missed = Counter((record.step, one.title, one.missed["try_this"]) for record, one in results if one.missed)
    return {
        "students": len(grades),
        "steps": steps,
        "rows": [row.shown() for row in grades],
        "most": most,
        "median": statistics.median(totals) if totals else 0.0,
        "bins": bins.tolist(),
        "claims": _claims(results, graded, {row.student: row.total for row in grades}),
        "slowest": sorted(timed, reverse=True)[:10],
        "messages": [(count, *said) for said, count in missed.most_common(15)],
    }


def _results(course: Course, record: StepRecord) -> Iterator[ClaimResult]:
    for cell in (name for name, about in CELLS.items() if about.step == record.step):
        found, _ = usable_record(records_of(course.autograded(record.student)) / f"{cell}.json")
        yield from found.results if found else ()


def _claims(
    results: list[tuple[StepRecord, ClaimResult]], graded: list[StepRecord], totals: dict[str, float]
) -> list[dict[str, Any]]:
    found: dict[tuple[str, str], dict[str, ClaimResult]] = defaultdict(dict)
    for record, result in results:
        found[record.step, result.claim][record.student] = result
    claims = [_figures(step, by_student, graded, totals) for (step, _), by_student in found.items()]
    return sorted(claims, key=lambda claim: claim["difficulty"])


def _figures(
    step: str, found: dict[str, ClaimResult], graded: list[StepRecord], totals: dict[str, float]
) -> dict[str, Any]:
    *_, last = found.values()
    shares = {record.student: 0.0 for record in graded if record.step == step}  # what a kernel died before gave nothing
    shares |= {name: result.earned / result.points if result.points else 1.0 for name, result in found.items()}
    own = last.points if step in STEPS else 0.0  # a bonus is no part of the total
    rest = [totals[name] - share * own for name, share in shares.items()]
    return {
        "step": step,
        "claim": last.claim,
        "title": last.title,
        "students": len(shares),
        "difficulty": statistics.fmean(shares.values()),
        "discrimination": _correlation([*shares.values()], rest),
        "errors": sum(result.status == "error" for result in found.values()),
    }


def _correlation(values: list[float], rest: list[float]) -> float | None:
    if len(values) < _FEWEST or len(set(values)) == 1 or len(set(rest)) == 1:
        return None
    return statistics.correlation(values, rest)
