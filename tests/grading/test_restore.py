"""A submitted notebook gets the course's own test cells back, whatever was done to them."""

import json
from copy import deepcopy

import nbformat
import pytest
from nbformat import NotebookNode

from helpers.course.handout import read_notebook
from solutions.grading.restore import SKIP, restore, tidy
from tests.grading.tiny import POINTS, index_of, solved, source_notebook
from trtcpu.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore")  # nbformat's, about what is mended here


def _mended(notebook: NotebookNode) -> tuple[NotebookNode, list[str]]:
    tidy(notebook)
    return notebook, restore(notebook, source_notebook())


def _names(notebook: NotebookNode) -> list[str]:
    return [name for cell in notebook.cells if (name := cell.metadata.get("nbgrader", {}).get("grade_id"))]


@pytest.mark.slow
def test_an_honest_notebook_is_left_as_it_is(lab: NotebookNode) -> None:
    mended, notes = _mended(solved(lab))
    assert notes == []
    assert [cell.source for cell in mended.cells] == [cell.source for cell in solved(lab).cells]


def test_deleted_test_cells_are_put_back_in_order(lab: NotebookNode) -> None:
    notebook = solved(lab)
    notebook.cells = [cell for cell in notebook.cells if not cell.metadata.get("nbgrader", {}).get("grade")]
    mended, notes = _mended(notebook)
    assert _names(mended) == ["square_todo", "export_model", "cube_todo", "simplify_model"]
    assert notes == ["cell export_model was missing: put back", "cell simplify_model was missing: put back"]


def test_a_doubled_test_cell_runs_once_where_the_last_one_is(lab: NotebookNode) -> None:
    notebook = solved(lab)
    double = deepcopy(notebook.cells[index_of(notebook, "export_model")])
    notebook.cells.insert(0, double)
    mended, notes = _mended(notebook)
    assert _names(mended) == ["square_todo", "export_model", "cube_todo", "simplify_model"]
    assert notes == ["cell export_model was there more than once: the last one counts"]


def test_edited_points_labels_and_code_do_not_count(lab: NotebookNode) -> None:
    notebook = solved(lab)
    cell = notebook.cells[index_of(notebook, "export_model")]
    cell.metadata.nbgrader.update(points=50, locked=False)
    cell.source = "50"
    mended, notes = _mended(notebook)
    mended_cell = mended.cells[index_of(mended, "export_model")]
    assert mended_cell.metadata.nbgrader.points == POINTS["export_model"]
    assert "assert square(1) == 1" in mended_cell.source
    assert [note.split()[:2] for note in notes] == [["the", "label"], ["test", "cell"]]


@pytest.mark.parametrize(
    "label", ["rubbish", 7, {"grade_id": 3}, {"grade_id": "other", "grade": True, "points": 99}, []]
)
def test_a_label_that_makes_no_sense_is_dropped(lab: NotebookNode, label: object) -> None:
    notebook = solved(lab)
    notebook.cells[1].metadata["nbgrader"] = label
    mended, notes = _mended(notebook)
    assert "nbgrader" not in mended.cells[1].metadata
    assert notes == ["1 labels that this step does not have were ignored"]


def test_a_deleted_answer_is_not_put_back_as_a_todo(lab: NotebookNode) -> None:
    notebook = solved(lab)
    del notebook.cells[index_of(notebook, "square_todo")]
    mended, _ = _mended(notebook)
    assert not any("NotImplementedError" in cell.source for cell in mended.cells)


def test_only_demonstrations_that_were_not_changed_are_skipped(lab: NotebookNode) -> None:
    notebook = solved(lab)
    notebook.cells[1].metadata["tags"] = [SKIP, "explore"]
    mended, _ = _mended(notebook)
    assert mended.cells[1].metadata == {}
    assert SKIP in mended.cells[-1].metadata.tags
    notebook.cells[-1].source += "\nmine = 1"
    assert _mended(notebook)[0].cells[-1].metadata == {}


def test_metadata_that_a_student_edits_change_nothing(lab: NotebookNode) -> None:
    plain, edited = solved(lab), solved(lab)
    for cell in edited.cells:
        tags = [SKIP, "raises-exception", "for-the-grader", "remove-input"]
        cell.metadata |= {"tags": tags, "transient": {"remove_source": True}, "deletable": True, "timeout": 0}
        if "nbgrader" in cell.metadata:
            cell.metadata.nbgrader |= {"points": 1000.0, "locked": False, "grade": True, "solution": True, "task": True}
    mended, untouched = _mended(edited)[0].cells, _mended(plain)[0].cells
    for cell, same in zip(mended, untouched, strict=True):
        assert (cell.cell_type, cell.source, cell.metadata) == (same.cell_type, same.source, same.metadata)


def test_notebooks_of_older_formats_and_with_broken_outputs_are_read(lab: NotebookNode, tmp_path) -> None:
    notebook = solved(lab)
    notebook.nbformat_minor = 2
    for cell in notebook.cells:
        del cell["id"]
        if cell.cell_type == "code":
            cell.outputs = [{"output_type": "nonsense"}]
    path = tmp_path / "old.ipynb"
    path.write_text(json.dumps(notebook))
    mended, _ = _mended(read_notebook(path))
    assert mended.nbformat_minor >= 5
    nbformat.validate(mended)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{ not JSON", "it is not JSON"),
        (b"", "it is not JSON"),
        (b"[1, 2]", "not a notebook"),
        (b'{"cells": 3, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "not a notebook"),
        (b"\xff\xfe\x00", "UTF-8"),
        (b'{"cells": [{"cell_type": "code"}], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "not a"),
        (b'{"cells": [7], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "not a"),
    ],
)
def test_what_is_no_notebook_is_refused_with_one_line(content: bytes, reason: str, tmp_path) -> None:
    path = tmp_path / "broken.ipynb"
    path.write_bytes(content)
    with pytest.raises(InputError, match=reason) as caught:
        tidy(read_notebook(path))
    assert "\n" not in str(caught.value)
