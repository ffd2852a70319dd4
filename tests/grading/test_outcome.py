"""Only the record of a test cell gives points, and nbgrader reads exactly those."""

import json
from pathlib import Path

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell
from nbgrader.utils import determine_grade

from solutions.grading.outcome import decided_outputs, is_test_cell
from tests.grading.tiny import POINTS, label

CELL = "export_model"


def _claim(earned: float | str, name: str = "a") -> dict:
    missed = None if earned else {"expected": "<b>4</b>", "found": "5", "try_this": "add"}
    status = "kept" if earned == 1.5 else "lost"
    return {"claim": name, "title": "It adds", "points": 1.5, "earned": earned, "status": status, "missed": missed}


def _record(*results: dict) -> str:
    record = {"cell": CELL, "step": "01_export", "criterion": "correctness", "engine": "none", "points": 3.0}
    return json.dumps({**record, "results": results, "earned": 0})


def _decided(folder: Path, record: str, fault: str | None = None) -> tuple[list[NotebookNode], float]:
    """Return a test cell's outputs and the points that nbgrader reads in them."""
    path = folder / f"{CELL}.json"
    path.write_text(record)
    outputs = decided_outputs(path, 3.0, fault)
    cell = new_code_cell("", outputs=outputs, metadata=label(CELL, points=POINTS[CELL]))
    return outputs, determine_grade(cell)[0]


def test_the_points_are_those_of_the_record(tmp_path: Path) -> None:
    outputs, points = _decided(tmp_path, _record(_claim(1.5), _claim(0, "b")))
    assert points == 1.5 and "1.5 of 3 points" in outputs[0].data["text/plain"]
    assert "&lt;b&gt;" in outputs[0].data["text/html"] and "<b>4" not in outputs[0].data["text/html"]


def test_a_cell_without_a_record_gets_none_and_says_why(tmp_path: Path) -> None:
    (said, points) = decided_outputs(tmp_path / "none.json", 3.0, "the kernel died in cell 4")
    assert said.text == "No points: the kernel died in cell 4.\n" and points.data == {"text/plain": "0"}


def test_claims_that_were_decided_before_the_end_keep_their_points(tmp_path: Path) -> None:
    outputs, points = _decided(tmp_path, _record(_claim(1.5)), "it was stopped by the time limit after 9 s")
    assert points == 1.5 and "is not listed above: it was stopped" in outputs[1].text


@pytest.mark.parametrize("earned", [99.0, -5.0, float("nan"), float("inf")])
def test_no_record_gives_more_than_the_cell_is_worth_or_less_than_nothing(tmp_path: Path, earned: float) -> None:
    assert 0 <= _decided(tmp_path, _record(_claim(earned)))[1] <= 3.0


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"results": 4}', '{"cell": "a", "results": [{"b": 1}]}'])
def test_a_record_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    assert _decided(tmp_path, text)[1] == 0


def test_a_record_that_is_refused_costs_its_cell_only_and_the_reason_is_shown(tmp_path: Path) -> None:
    outputs, points = _decided(tmp_path, _record(_claim(1.5, "b"), _claim("lots")))
    refused = f"No points: the grading record {CELL}.json is refused: results.1.earned: 'lots' is not"
    assert points == 0 and outputs[0].text.startswith(refused)


def test_answers_that_a_person_reads_are_no_test_cells() -> None:
    answer = label("analysis", points=6, solution=True)
    cells = [new_markdown_cell("", metadata=answer), new_code_cell("", metadata=answer)]
    assert not any(map(is_test_cell, cells)) and is_test_cell(new_code_cell("", metadata=label("analysis", points=6)))
