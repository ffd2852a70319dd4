"""The files that platforms import: points by step, and feedback under the names that they gave."""

import csv
import datetime
import json
import zipfile
from pathlib import Path

import pytest

from solutions.grading.collector import collect
from solutions.grading.course import Course
from solutions.grading.exports import PLATFORMS, write_export
from solutions.grading.grades import ClassGrades, StudentGrades
from solutions.grading.step_record import StepRecord
from solutions.grading.submissions import Student
from tests.grading.conftest import hand_in
from tests.grading.tiny import STEP

LATER, READ, OPTIONAL = "02_fp16", "08_report", "09_mixed_precision"
STEPS = [STEP, LATER, READ, OPTIONAL]
ROSTER = [
    Student("ada", "Ada", "=Ärger", "ada@example.org", "4711"),
    Student("ben", "Ben", "Bit", "ben@example.org"),
    Student("nobody", "No", "Body"),
]
ADA = StudentGrades("ada", steps=dict(zip(STEPS, (4.5, 0.0, 9.0, 3.25), strict=True)), absent=[LATER], unread=[READ])
BEN = StudentGrades("ben", steps=dict.fromkeys(STEPS, 0.0), absent=[LATER, READ, OPTIONAL], ungraded=[STEP])
EVE = StudentGrades("eve", steps=dict.fromkeys(STEPS, 0.0), absent=[LATER, READ, OPTIONAL])


def _in_the_course(course: Course, step: str) -> None:
    course.source(step).parent.mkdir()
    course.source(step).touch()


@pytest.fixture
def exported(bare: Course) -> dict[str, list[dict[str, str]]]:
    """Return the rows of each platform's file. The first and the optional step are due: somebody has handed them in."""
    _in_the_course(bare, OPTIONAL)
    hand_in(bare, "ada", "")
    StepRecord("ada", OPTIONAL).write(bare.autograded("ada"))
    result = ClassGrades(STEPS, {}, [ADA, BEN, EVE])
    paths = {name: write_export(name, bare, result, ROSTER) for name in PLATFORMS}
    return {name: list(csv.DictReader(found[0].read_text().splitlines())) for name, found in paths.items()}


def _points(row: dict[str, str]) -> list[str]:
    return [points for column, points in row.items() if column.startswith("TensorRT lab")]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_everybody_has_a_row_and_each_step_a_column_that_is_empty_until_it_is_graded(
    exported: dict[str, list[dict[str, str]]], platform: str
) -> None:
    rows = exported[platform][platform == "canvas" :]
    points = {
        "ada": ["4.5", "", "", "3.25"],
        "ben": ["", "", "", ""],
        "nobody": ["0", "", "", ""],
        "eve": ["0", "", "", ""],
    }
    assert [_points(row) for row in rows] == list(points.values())
    assert [row.get("SIS Login ID") or row.get("ID number") for row in rows] == list(points)


def test_whose_works_were_all_left_out_gets_no_zero(bare: Course) -> None:
    (bare.root / "students.csv").write_text("id\nada\nben\n")
    for number in (1, 2):
        place = bare.root / "downloaded" / STEP / "archive" / f"ada_attempt {number}" / f"{STEP}.ipynb"
        place.parent.mkdir(parents=True)
        place.write_text(f"work {number}")
    collect(bare)
    hand_in(bare, "ben", "")
    [path] = write_export("moodle", bare, ClassGrades([STEP], {}, []), ROSTER)
    assert [_points(row) for row in csv.DictReader(path.read_text().splitlines())] == [[""], ["0"], ["0"]]


def test_canvas_gets_its_own_columns_and_a_bonus_that_can_only_raise_a_grade(exported: dict) -> None:
    worth, ada, *_ = exported["canvas"]
    assert worth["Student"] == "Points Possible" and _points(worth) == ["5", "11", "15", "0"]
    assert (ada["Student"], ada["ID"], ada["SIS Login ID"]) == ("'=Ärger, Ada", "4711", "ada")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_course_without_optional_steps_has_no_bonus(bare: Course, platform: str) -> None:
    [path] = write_export(platform, bare, ClassGrades([STEP], {}, [ADA]), ROSTER)
    lines = path.read_text().splitlines()
    assert "bonus" not in lines[0] and len({len(row) for row in csv.reader(lines)}) == 1


def test_moodle_gets_names_and_addresses(exported: dict) -> None:
    ada = exported["moodle"][0]
    assert (ada["First name"], ada["Last name"], ada["Email address"]) == ("Ada", "'=Ärger", "ada@example.org")


def test_a_step_that_is_not_due_has_empty_cells_and_no_feedback(bare: Course) -> None:
    for step in (LATER, OPTIONAL):
        _in_the_course(bare, step)
    hand_in(bare, "ada", "")
    ahead = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None) + datetime.timedelta(days=1)
    with bare.gradebook() as gradebook:
        for step in (STEP, OPTIONAL):
            gradebook.update_or_create_assignment(step, duedate=ahead)
    _collected(bare, {"ada": f"lovelaceada_1_22_{STEP}.ipynb"})
    result = ClassGrades([STEP, LATER, OPTIONAL], {}, [ADA])
    grades, *pages = write_export("canvas", bare, result, [])
    _, row = csv.DictReader(grades.read_text().splitlines())
    assert _points(row) == ["", "", ""] and pages == []


def test_feedback_has_the_name_under_which_the_platform_gave_the_work(bare: Course) -> None:
    names = {
        "ada": f"submissions/lovelaceada_LATE_1_22_{STEP}-2.ipynb",
        "ben": f"all/Ben Bit_17_assignsubmission_file_/work/{STEP}.ipynb",
        "eve": f"eve/{STEP}.ipynb",
    }
    _collected(bare, names)
    hand_in(bare, "ada", "")
    result = ClassGrades([STEP], {}, [])
    assert _zipped(write_export("canvas", bare, result, [])[1:]) == {f"lovelaceada_LATE_1_22_{STEP}-2.html": "ada"}
    moodle = {f"Ben Bit_17_assignsubmission_file_/work/{STEP}.html": "ben"}
    assert _zipped(write_export("moodle", bare, result, [])[1:]) == moodle


def _collected(course: Course, names: dict[str, str]) -> None:
    """Write what was collected under which names, and a feedback page for each student."""
    record = course.root / "downloaded" / STEP / "collected.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"whole": "", "students": {}, "names": names}))
    for student in names:
        page = course.feedback_page(student, STEP)
        page.parent.mkdir(parents=True)
        page.write_text(student)


def _zipped(paths: list[Path]) -> dict[str, str]:
    (path,) = paths
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}
