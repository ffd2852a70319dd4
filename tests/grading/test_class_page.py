"""The class page and the platforms' files, from records that are written here."""

import csv
import statistics
from html.parser import HTMLParser
from pathlib import Path

import pytest

from helpers.course.steps import BONUS, CELLS, COLUMNS
from helpers.tools.files import write_json
from solutions.grading.class_page import class_figures, write_class_page
from solutions.grading.course import Course
from solutions.grading.grades import StudentGrades
from solutions.grading.layout import ROOT
from solutions.grading.platforms import write_export
from solutions.grading.roster import Student
from solutions.grading.step_record import StepRecord

STEP = "01_export"
WORTH = dict(zip(COLUMNS, (40.0, 30.0, 15.0, 15.0, 24.0), strict=True))
SHARES = {"ann": (2.0, 1.0), "ben": (2.0, 0.0), "cem": (1.0, 1.0), "dia": (0.0, 1.0), "eva": (0.0, 0.0)}
"""What the two claims, of 2 points and 1, gave to each; the first has what the better students have."""

TOTALS = {"ann": 90.0, "ben": 70.0, "cem": 50.0, "dia": 30.0, "eva": 10.0}
ADVICE = "multiply <b>x</b> by itself"


@pytest.fixture
def graded(tmp_path: Path) -> tuple[Course, list[StudentGrades]]:
    """A course with the records of five students, and their grades."""
    course = Course.at(tmp_path, ROOT)
    for number, (name, shares) in enumerate(SHARES.items()):
        results = [_result(claim, points, got) for claim, points, got in zip("ab", (2.0, 1.0), shares, strict=True)]
        _write(course, name, STEP, "export_model", 3.0, results, seconds=10.0 * number)
    return course, [_grades(name) for name in SHARES]


def _grades(student: str) -> StudentGrades:
    return StudentGrades(student, dict.fromkeys(COLUMNS, 0.0) | {"correctness": TOTALS[student]})


def _write(
    course: Course, student: str, step: str, cell: str, points: float, results: list[dict], **known: float
) -> None:
    StepRecord(student, step, **known).write(course.autograded(student))
    record = {"cell": cell, "step": step, "criterion": CELLS[cell].criterion, "engine": "none", "points": points}
    write_json(course.autograded(student) / "records" / f"{cell}.json", {**record, "results": results})


def _result(claim: str, points: float, earned: float) -> dict:
    missed = None if earned == points else {"expected": "a square", "found": "nothing", "try_this": ADVICE}
    status = "kept" if missed is None else "partial" if earned else "lost"
    return {"claim": claim, "title": f"Claim {claim}", "points": points, "earned": earned, "status": status} | {
        "evidence": "",
        "missed": missed,
        "seconds": 0.1,
    }


def _rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


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
    course, grades = graded
    (course.autograded("ann") / "records" / "export_model.json").unlink()
    first, second = class_figures(*graded, WORTH, [STEP])["claims"]
    assert (first["students"], first["difficulty"]) == (5, pytest.approx(0.3))
    assert second["difficulty"] == pytest.approx(0.4)


def test_a_bonus_is_compared_with_the_whole_total(tmp_path: Path) -> None:
    course, cell = Course.at(tmp_path, ROOT), next(name for name, cell in CELLS.items() if cell.criterion == BONUS)
    step, shares = CELLS[cell].step, (24.0, 0.0, 24.0, 0.0, 24.0)
    grades = [_grades(name) for name in SHARES]
    for name, earned in zip(SHARES, shares, strict=True):
        _write(course, name, step, cell, 24.0, [_result("c", 24.0, earned)])
    (claim,) = class_figures(course, grades, WORTH, [step])["claims"]
    assert claim["discrimination"] == pytest.approx(statistics.correlation(shares, TOTALS.values()))


def test_four_students_are_too_few_for_a_correlation(graded: tuple[Course, list[StudentGrades]]) -> None:
    course, grades = graded
    claims = class_figures(course, grades[:4], WORTH, [STEP])["claims"]
    assert {claim["discrimination"] for claim in claims} == {None}


def test_the_page_has_no_script_and_no_markup_of_a_students(
    graded: tuple[Course, list[StudentGrades]], tmp_path: Path
) -> None:
    page = write_class_page(tmp_path, class_figures(*graded, WORTH, [STEP])).read_text()
    tags: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: tags.append(tag)
    parser.feed(page)
    assert not {"script", "b", "img", "link"} & set(tags) and "default-src 'none'" in page
    assert "multiply &lt;b&gt;x" in page and "median 50 of 100 points" in page


def test_what_the_platforms_import(graded: tuple[Course, list[StudentGrades]], tmp_path: Path) -> None:
    _, grades = graded
    grades[1].pending = 6.0
    grades[0].points[BONUS] = 4.5
    roster = [Student("ann", "Ann", "=Ärger", "ann@example.org")]
    canvas = _rows(write_export("canvas", tmp_path, grades, WORTH, roster))
    assert canvas[0]["Student"] == "Points Possible" and canvas[0]["TensorRT lab"] == "100"
    assert canvas[0]["TensorRT lab: bonus"] == "0"  # of as many as are possible Canvas would make a part of the grade
    assert canvas[1] == {
        **{"Student": "'=Ärger, Ann", "ID": "", "SIS User ID": "", "SIS Login ID": "ann", "Section": ""},
        **{"TensorRT lab": "90", "TensorRT lab: bonus": "4.5"},
    }
    assert canvas[2]["TensorRT lab: bonus"] == ""  # not 0 points of a piece of work
    assert canvas[2]["TensorRT lab"] == ""  # a person has still to give points
    moodle = _rows(write_export("moodle", tmp_path, grades, WORTH, roster))
    assert (moodle[0]["Email address"], moodle[0]["TensorRT lab"]) == ("ann@example.org", "90")
    assert (moodle[4]["ID number"], moodle[4]["TensorRT lab"]) == ("eva", "10")
