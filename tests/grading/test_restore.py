"""A submitted notebook gets the course's own test cells back, whatever was done to them."""

import json
from collections.abc import Callable
from copy import deepcopy

import nbformat
import pytest
from nbformat import NotebookNode

from helpers.course.handout import cell_name, read_notebook
from solutions.grading.restore import SKIP, restore
from tests.grading.tiny import POINTS, index_of, solved, source_notebook
from trtcpu.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore")  # nbformat's, about what is mended here


Cells = list[NotebookNode]


def _mended(notebook: NotebookNode) -> tuple[Cells, list[str]]:
    notes = restore(notebook, source_notebook())
    return notebook.cells, notes


def _export_model(cells: Cells) -> NotebookNode:
    return next(cell for cell in cells if cell_name(cell) == "export_model")


def _relabelled(cells: Cells) -> Cells:
    cell = _export_model(cells)
    cell.metadata.nbgrader.update(points=50, locked=False)
    cell.source = "50"
    return cells


def _with_metadata(cells: Cells) -> Cells:
    for cell in cells:
        tags = [SKIP, "raises-exception", "for-the-grader", "remove-input"]
        cell.metadata |= {"tags": tags, "transient": {"remove_source": True}, "deletable": True, "timeout": 0}
        if "nbgrader" in cell.metadata:
            cell.metadata.nbgrader |= {"points": 1000.0, "locked": False, "grade": True, "solution": True, "task": True}
    return cells


def _strange(label: object) -> Callable[[Cells], Cells]:
    return lambda cells: [cells[0], NotebookNode(cells[1] | {"metadata": {"nbgrader": label}}), *cells[2:]]


EDITED = "the label of cell {} was edited ({}): the course's counts"
STRANGE = ("rubbish", 7, {"grade_id": 3}, {"grade_id": "other", "grade": True, "points": 99}, [])
EDITS: dict[str, tuple[Callable[[Cells], Cells], list[str]]] = {
    "nothing": (list, []),
    "test cells deleted": (
        lambda cells: [cell for cell in cells if cell_name(cell) not in POINTS],
        [f"cell {name} was missing: put back" for name in POINTS],
    ),
    "a test cell doubled": (
        lambda cells: [deepcopy(_export_model(cells)), *cells],
        ["cell export_model was there more than once: the last one counts"],
    ),
    "points, labels and code edited": (
        _relabelled,
        [
            EDITED.format("export_model", "locked, points"),
            "test cell export_model was edited: the course's own ran instead",
        ],
    ),
    **{
        f"a label that makes no sense: {label}": (
            _strange(label),
            ["1 labels that this step does not have were ignored"],
        )
        for label in STRANGE
    },
    "metadata edited": (
        _with_metadata,
        [
            EDITED.format(name, "solution, locked, points, task" if name in POINTS else "grade, points, task")
            for name in ("square_todo", "export_model", "cube_todo", "simplify_model")
        ],
    ),
}


def _shown(cells: Cells) -> list[tuple]:
    """Return what a cell says and is worth, those without a name last."""
    return [(one.cell_type, one.source, one.metadata) for one in sorted(cells, key=lambda cell: not cell_name(cell))]


@pytest.mark.parametrize(("edit", "notes"), EDITS.values(), ids=EDITS)
def test_whatever_is_done_to_a_notebook_its_cells_are_the_courses_and_the_answers_its_own(
    lab: NotebookNode, edit: Callable[[Cells], Cells], notes: list[str]
) -> None:
    notebook = solved(lab)
    notebook.cells = edit(notebook.cells)
    mended, said = _mended(notebook)
    plain, _ = _mended(solved(lab))
    assert said == notes
    assert [cell.source for cell in plain] == [cell.source for cell in solved(lab).cells]
    assert _shown(mended) == _shown(plain)


def test_a_deleted_answer_is_not_put_back_as_a_todo(lab: NotebookNode) -> None:
    notebook = solved(lab)
    del notebook.cells[index_of(notebook, "square_todo")]
    assert not any("NotImplementedError" in cell.source for cell in _mended(notebook)[0])


def test_only_demonstrations_that_were_not_changed_are_skipped(lab: NotebookNode) -> None:
    notebook = solved(lab)
    notebook.cells[1].metadata["tags"] = [SKIP, "explore"]
    mended, _ = _mended(notebook)
    assert mended[1].metadata == {} and SKIP in mended[-1].metadata.tags
    notebook.cells[-1].source += "\nmine = 1"
    assert _mended(notebook)[0][-1].metadata == {}


def test_notebooks_of_older_formats_and_with_broken_outputs_are_read(lab: NotebookNode, tmp_path) -> None:
    notebook = solved(lab)
    notebook.nbformat_minor = 2
    for cell in notebook.cells:
        del cell["id"]
        if cell.cell_type == "code":
            cell.outputs = [{"output_type": "nonsense"}]
    path = tmp_path / "old.ipynb"
    path.write_text(json.dumps(notebook))
    old = read_notebook(path)
    _mended(old)
    assert old.nbformat_minor >= 5
    nbformat.validate(old)


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
        _mended(read_notebook(path))
    assert "\n" not in str(caught.value)
