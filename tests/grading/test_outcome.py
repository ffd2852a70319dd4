"""Only the record of a test cell gives points, and nbgrader reads exactly those."""

import json
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell
from nbgrader.utils import determine_grade

from solutions.grading.outcome import decided_outputs, is_test_cell
from tests.grading.tiny import POINTS

CELL = "export_model"


def _written(folder: Path, results: list[dict], **changes: object) -> Path:
    record = {"cell": CELL, "step": "01_export", "criterion": "correctness", "engine": "none", "points": 3.0}
    path = folder / f"{CELL}.json"
    path.write_text(json.dumps({**record, "results": results, "earned": 0, **changes}))
    return path


def _claim(earned: float, points: float = 1.5, name: str = "a") -> dict:
    status = "kept" if earned == points else "lost"
    missed = None if earned else {"expected": "<b>4</b>", "found": "5", "try_this": "add"}
    return {"claim": name, "title": "It adds", "points": points, "earned": earned, "status": status, "missed": missed}


def _graded(outputs: list) -> float:
    label = {"grade": True, "solution": False, "grade_id": CELL, "points": POINTS[CELL]}
    return determine_grade(new_code_cell("", outputs=outputs, metadata={"nbgrader": label}))[0]


def test_the_points_are_those_of_the_record(tmp_path: Path) -> None:
    outputs = decided_outputs(_written(tmp_path, [_claim(1.5), _claim(0, name="b")]), 3.0, None)
    assert _graded(outputs) == 1.5
    assert "1.5 of 3 points" in outputs[0].data["text/plain"]
    assert "&lt;b&gt;" in outputs[0].data["text/html"] and "<b>4" not in outputs[0].data["text/html"]


def test_a_cell_without_a_record_gets_none_and_says_why(tmp_path: Path) -> None:
    outputs = decided_outputs(tmp_path / "none.json", 3.0, "the kernel died in cell 4")
    assert _graded(outputs) == 0
    assert outputs[0].text == "No points: the kernel died in cell 4.\n"


def test_claims_that_were_decided_before_the_end_keep_their_points(tmp_path: Path) -> None:
    outputs = decided_outputs(_written(tmp_path, [_claim(1.5)]), 3.0, "it was stopped by the time limit after 9 s")
    assert _graded(outputs) == 1.5
    assert "is not listed above: it was stopped" in outputs[1].text


@pytest.mark.parametrize("earned", [99.0, -5.0, float("nan"), float("inf")])
def test_no_record_gives_more_than_the_cell_is_worth_or_less_than_nothing(tmp_path: Path, earned: float) -> None:
    assert 0 <= _graded(decided_outputs(_written(tmp_path, [_claim(earned)]), 3.0, None)) <= 3.0


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"results": 4}', '{"cell": "a", "results": [{"b": 1}]}'])
def test_a_record_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken.json"
    path.write_text(text)
    assert _graded(decided_outputs(path, 3.0, None)) == 0


def test_a_record_that_is_refused_costs_its_cell_only_and_the_reason_is_shown(tmp_path: Path) -> None:
    outputs = decided_outputs(_written(tmp_path, [_claim(1.5, name="b"), {**_claim(1.5), "earned": "lots"}]), 3.0, None)
    assert _graded(outputs) == 0
    said = outputs[0].text
    assert said.startswith(f"No points: the grading record {CELL}.json is refused: results.1.earned: 'lots' is not")


def test_answers_that_a_person_reads_are_no_test_cells() -> None:
    label = {"grade": True, "solution": True, "grade_id": "analysis", "points": 6}
    assert not is_test_cell(new_markdown_cell("", metadata={"nbgrader": label}))
    assert not is_test_cell(new_code_cell("", metadata={"nbgrader": label}))
    assert is_test_cell(new_code_cell("", metadata={"nbgrader": {**label, "solution": False}}))
