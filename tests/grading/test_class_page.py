"""The class page, from records that are written here."""

import re
import statistics
from pathlib import Path

import pytest

from helpers.course.steps import BONUS, CELLS, COLUMNS
from helpers.tools.files import write_json
from solutions.grading.class_page import class_figures, write_class_page
from solutions.grading.course import Course
from solutions.grading.grades import StudentGrades
from solutions.grading.layout import ROOT
from solutions.grading.step_record import StepRecord

STEP = "01_export"
WORTH = dict(zip(COLUMNS, (40.0, 30.0, 15.0, 15.0, 24.0), strict=True))
TOTALS = {"ann": 90.0, "ben": 70.0, "cem": 50.0, "dia": 30.0, "eva": 10.0}
# What the two claims, of 2 points and 1, gave to each; the first has what the better students have.
EARNED = [(2.0, 1.0), (2.0, 0.0), (1.0, 1.0), (0.0, 1.0), (0.0, 0.0)]
ADVICE = "multiply <b>x</b> by itself"


@pytest.fixture
def graded(tmp_path: Path) -> tuple[Course, list[StudentGrades]]:
    return _graded(tmp_path, "export_model", [[_result("a", 2.0, a), _result("b", 1.0, b)] for a, b in EARNED])


def _graded(root: Path, cell: str, results: list[list[dict]]) -> tuple[Course, list[StudentGrades]]:
    course, step = Course.at(root, ROOT), CELLS[cell].step
    about = {"cell": cell, "step": step, "criterion": CELLS[cell].criterion, "engine": "none", "points": 24.0}
    for number, (name, own) in enumerate(zip(TOTALS, results, strict=True)):
        StepRecord(name, step, seconds=10.0 * number).write(course.autograded(name))
        write_json(course.autograded(name) / "records" / f"{cell}.json", {**about, "results": own})
    points = {name: dict.fromkeys(COLUMNS, 0.0) | {"correctness": total} for name, total in TOTALS.items()}
    return course, [StudentGrades(name, points[name], absent=[step]) for name in TOTALS]


def _result(claim: str, points: float, earned: float) -> dict:
    missed = None if earned == points else {"expected": "a square", "found": "nothing", "try_this": ADVICE}
    about = {"claim": claim, "title": f"Claim {claim}", "points": points, "earned": earned, "missed": missed}
    return {**about, "status": "lost" if missed else "kept", "evidence": "", "seconds": 0.1}


def test_difficulty_and_discrimination_of_a_claim(graded: tuple[Course, list[StudentGrades]]) -> None:
    figures = class_figures(*graded, WORTH, [STEP])
    first, second = figures["claims"]
    assert (first["claim"], first["difficulty"], second["difficulty"]) == ("a", 0.5, pytest.approx(0.6))
    expected = statistics.correlation([1, 1, 0.5, 0, 0], [88, 68, 49, 30, 10])
    assert first["discrimination"] == pytest.approx(expected) and abs(second["discrimination"]) < 0.5
    assert figures["bins"] == [0, 1, 0, 1, 0, 1, 0, 1, 0, 1] and figures["median"] == 50
    assert figures["slowest"][0] == (40.0, "eva", STEP)
    assert figures["messages"][0] == (3, STEP, "Claim a", ADVICE)


def test_what_a_kernel_died_before_counts_as_nothing(graded: tuple[Course, list[StudentGrades]]) -> None:
    (graded[0].autograded("ann") / "records" / "export_model.json").unlink()
    first, second = class_figures(*graded, WORTH, [STEP])["claims"]
    assert (first["students"], first["difficulty"]) == (5, pytest.approx(0.3))
    assert second["difficulty"] == pytest.approx(0.4)


def test_a_bonus_is_compared_with_the_whole_total(tmp_path: Path) -> None:
    cell, earned = next(name for name, cell in CELLS.items() if cell.criterion == BONUS), (24.0, 0.0, 24.0, 0.0, 24.0)
    course, grades = _graded(tmp_path, cell, [[_result("c", 24.0, points)] for points in earned])
    (claim,) = class_figures(course, grades, WORTH, [CELLS[cell].step])["claims"]
    assert claim["discrimination"] == pytest.approx(statistics.correlation(earned, TOTALS.values()))


def test_four_students_are_too_few_for_a_correlation(graded: tuple[Course, list[StudentGrades]]) -> None:
    course, grades = graded
    claims = class_figures(course, grades[:4], WORTH, [STEP])["claims"]
    assert {claim["discrimination"] for claim in claims} == {None}


def test_the_page_has_no_script_and_no_markup_of_a_students(
    graded: tuple[Course, list[StudentGrades]], tmp_path: Path
) -> None:
    page = write_class_page(tmp_path, class_figures(*graded, WORTH, [STEP])).read_text()
    assert not {"script", "b", "img", "link"} & set(re.findall(r"<(\w+)", page)) and "default-src 'none'" in page
    assert "multiply &lt;b&gt;x" in page and "median 50 of 100 points" in page
    assert re.search(r'<td class="word">ben</td><td>–</td>\s*<td></td><td>70</td>', page)
