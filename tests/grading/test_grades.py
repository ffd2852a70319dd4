"""A class's table: four criteria that make the total, and a bonus beside it."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from helpers.course.steps import BONUS, COLUMNS, CRITERIA
from solutions.grading.class_files import PLATFORMS, write_export
from solutions.grading.grades import StudentGrades, table, write_grades

ADA = StudentGrades("ada", dict(zip(COLUMNS, (30.0, 20.0, 10.0, 8.5, 7.25), strict=True)), {"02_fp16": 11.0}, 6.0)
WORTH = dict(zip(COLUMNS, (40.0, 30.0, 15.0, 15.0, 24.0), strict=True))


def _shown(worth: dict[str, float]) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(table([ADA], worth))
    return console.export_text()


def test_a_bonus_is_no_part_of_the_hundred() -> None:
    assert ADA.total == 68.5
    last = _shown(WORTH).splitlines()[-2]
    assert last.split() == "│ ada │ 30 │ 20 │ 10 │ 8.5 + 6 pending │ 68.5 + 6 pending │ 7.25 │".split()
    assert "/100" in _shown(WORTH) and "/24" in _shown(WORTH)


def test_a_course_without_optional_steps_has_no_column_for_them() -> None:
    assert BONUS not in _shown({**WORTH, BONUS: 0.0})


def test_the_bonus_has_a_column_behind_the_total(tmp_path: Path) -> None:
    write_grades(tmp_path, [ADA], WORTH, ["02_fp16"])
    row = next(csv.DictReader((tmp_path / "grades.csv").read_text().splitlines()))
    assert list(row) == ["student", *CRITERIA, "pending", "late", "total", BONUS, "02_fp16", "notes"]
    assert (row["total"], row[BONUS], row["02_fp16"]) == ("68.5", "7.25", "11")
    kept = json.loads((tmp_path / "grades.json").read_text())
    assert kept["maximum"][BONUS] == 24 and kept["students"][0]["total"] == 68.5


@pytest.mark.parametrize(
    ("ungraded", "empty"),
    [
        ([], set()),
        (["02_fp16"], {"correctness", "performance", "total", "02_fp16"}),
        (["09_mixed_precision"], {BONUS, "09_mixed_precision"}),
    ],
)
def test_what_is_not_graded_is_empty_in_every_export(tmp_path: Path, ungraded: list[str], empty: set[str]) -> None:
    steps = ["02_fp16", "09_mixed_precision"]
    row = replace(ADA, steps={"02_fp16": 11.0, "09_mixed_precision": 7.25}, pending=0.0, ungraded=ungraded)
    write_grades(tmp_path, [row], WORTH, steps)
    shown = _read(tmp_path / "grades.csv")
    assert {name for name in (*COLUMNS, "total", *steps) if shown[name] == ""} == empty
    kept = json.loads((tmp_path / "grades.json").read_text())["students"][0]
    assert {name for name, points in {**kept["points"], **kept["steps"], **kept}.items() if points is None} == empty
    for platform in PLATFORMS:
        shown = _read(write_export(platform, tmp_path, [row], WORTH, []))
        assert (shown["TensorRT lab"] == "", shown["TensorRT lab: bonus"] == "") == ("total" in empty, BONUS in empty)


def _read(path: Path) -> dict[str, str]:
    return list(csv.DictReader(path.read_text().splitlines()))[-1]
