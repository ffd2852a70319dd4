"""A newer version of a notebook keeps every answer and every cell of a student's own."""

import json
import subprocess
import sys
import zipfile
from copy import deepcopy
from pathlib import Path

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from helpers.course.handout import HANDOUT, as_handed_out, cell_name, lay_out, mark, read_notebook, renewed
from helpers.course.steps import NOTEBOOKS
from trtcpu.errors import InputError

STEP, STUB = NOTEBOOKS[0], "def square(x):\n    raise NotImplementedError"
SOLVED = "def square(x):\n    return x * x"


def _label(name: str, *, solution: bool) -> dict:
    label = {"grade_id": name, "grade": not solution, "solution": solution, "locked": not solution}
    return {"nbgrader": {**label, "task": False, "schema_version": 3} | ({} if solution else {"points": 1})}


def _handed_out() -> NotebookNode:
    cells = [
        new_markdown_cell("# Squares", id="title"),
        new_code_cell("import math", id="imports"),
        new_markdown_cell("Write a square.", id="task"),
        new_code_cell(STUB, id="todo", metadata=_label("square_todo", solution=True)),
        new_code_cell("assert square(2) == 4", id="check", metadata=_label("square", solution=False)),
        new_markdown_cell("What did you see?", id="question"),
        new_markdown_cell("YOUR ANSWER HERE", id="answer", metadata=_label("answer", solution=True)),
    ]
    notebook = new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    mark(notebook)
    return notebook


def _edited(notebook: NotebookNode, **sources: str) -> NotebookNode:
    """Return a copy with other sources in the cells of these ids."""
    copy = deepcopy(notebook)
    for cell in copy.cells:
        cell.source = sources.get(cell.id, cell.source)
    return copy


def _newer(**sources: str) -> NotebookNode:
    notebook = _edited(_handed_out(), **sources)
    mark(notebook)
    return notebook


def _sources(notebook: NotebookNode) -> list[str]:
    nbformat.validate(notebook)
    return [cell.source for cell in notebook.cells]


def _as_handed_out(notebook: NotebookNode, folder: Path) -> bool:
    nbformat.write(notebook, folder / "notebook.ipynb")
    return as_handed_out(folder / "notebook.ipynb")


def test_an_answer_stays_and_texts_and_checks_come_anew(tmp_path: Path) -> None:
    theirs = _edited(_handed_out(), todo=SOLVED, answer="It is four.")
    theirs.cells[4].outputs = [nbformat.v4.new_output("stream", text="✓")]
    ours = _newer(task="Write a square, please.", check="assert square(3) == 9")
    made, notes = renewed(theirs, ours)
    wanted = ["# Squares", "import math", "Write a square, please.", SOLVED, "assert square(3) == 9"]
    assert _sources(made) == [*wanted, "What did you see?", "It is four."] and notes == []
    assert made.cells[4].outputs == [], "an output of the old check stands below the new one"
    assert not _as_handed_out(made, tmp_path) and _as_handed_out(ours, tmp_path)


def test_what_was_not_touched_is_replaced_and_keeps_its_outputs_where_it_is_the_same(tmp_path: Path) -> None:
    theirs = _handed_out()
    theirs.cells[1].outputs = [nbformat.v4.new_output("stream", text="imported")]
    made, notes = renewed(theirs, _newer(todo=STUB + "  # ten lines"))
    assert made.cells[3].source == STUB + "  # ten lines" and notes == []
    assert made.cells[1].outputs[0].text == "imported" and _as_handed_out(made, tmp_path)


def test_an_answer_to_a_cell_that_has_changed_stays_and_is_said() -> None:
    made, notes = renewed(_edited(_handed_out(), todo=SOLVED), _newer(todo="def square(x, y): ..."))
    assert made.cells[3].source == SOLVED
    assert len(notes) == 1 and "square_todo" in notes[0] and HANDOUT in notes[0]


def test_cells_of_ones_own_stay_behind_the_cell_that_they_are_behind() -> None:
    theirs = _edited(_handed_out(), todo=SOLVED)
    theirs.cells.insert(4, new_code_cell("square(5)", id="mine"))
    theirs.cells.insert(0, new_markdown_cell("My notes", id="notes"))
    theirs.cells.append(new_code_cell("print('the end')"))
    ours = _newer()
    ours.cells.insert(4, new_markdown_cell("A hint", id="hint"))
    mark(ours)
    made, notes = renewed(theirs, ours)
    sources = _sources(made)
    assert sources[0] == "My notes" and sources[4:7] == [SOLVED, "square(5)", "A hint"]
    assert sources[-1] == "print('the end')" and notes == []


def test_cells_that_were_moved_go_back_to_their_places_with_what_is_behind_them() -> None:
    theirs = _edited(_handed_out(), todo=SOLVED)
    theirs.cells.insert(4, new_code_cell("square(5)", id="mine"))
    theirs.cells = theirs.cells[3:] + theirs.cells[:3]
    made, _ = renewed(theirs, _newer())
    assert _sources(made) == _sources(_edited(_handed_out(), todo=SOLVED))[:4] + ["square(5)"] + _sources(made)[5:]
    assert [cell.id for cell in made.cells if cell.id != "mine"] == [cell.id for cell in _handed_out().cells]


def test_a_renamed_cell_is_known_by_its_id() -> None:
    ours = _newer()
    ours.cells[3].metadata.nbgrader.grade_id = "power_todo"
    made, notes = renewed(_edited(_handed_out(), todo=SOLVED), ours)
    assert made.cells[3].source == SOLVED and cell_name(made.cells[3]) == "power_todo" and notes == []


def test_an_answer_whose_task_is_gone_stays_as_a_cell_of_ones_own() -> None:
    ours = _handed_out()
    del ours.cells[3:5]
    mark(ours)
    made, notes = renewed(_edited(_handed_out(), todo=SOLVED), ours)
    assert SOLVED in _sources(made) and "nbgrader" not in made.cells[3].metadata
    assert "assert square(2) == 4" not in _sources(made), "the course's own check is gone with its task"
    assert len(notes) == 1 and "square_todo" in notes[0]


def test_of_an_answer_that_was_split_both_halves_stay_and_the_last_is_graded() -> None:
    theirs = _edited(_handed_out(), todo=SOLVED)
    first = deepcopy(theirs.cells[3])
    first.source, first.id = "import numpy as np", "half"
    theirs.cells.insert(3, first)
    made, _ = renewed(theirs, _newer())
    assert _sources(made)[3:5] == ["import numpy as np", SOLVED]
    assert [cell_name(cell) for cell in made.cells[3:5]] == ["", "square_todo"]


def test_a_deleted_cell_comes_back_and_a_changed_given_cell_is_said() -> None:
    theirs = _edited(_handed_out(), imports="import cmath")
    del theirs.cells[4]
    made, notes = renewed(theirs, _newer())
    assert _sources(made) == _sources(_handed_out())
    assert len(notes) == 1 and "import math" in notes[0] and "kept notebook" in notes[0]


def test_a_notebook_without_ids_and_mark_keeps_its_answers_too() -> None:
    theirs = _edited(_handed_out(), todo=SOLVED)
    theirs.cells.append(new_code_cell("mine"))
    for cell in theirs.cells:
        del cell["id"]
    del theirs.metadata["trt_lab"]
    theirs.nbformat_minor = 0
    made, _ = renewed(theirs, _newer(task="Anew"))
    assert SOLVED in _sources(made) and "mine" in _sources(made) and "Anew" in _sources(made)
    assert _sources(made).count("# Squares") == 1


WORK = st.lists(st.tuples(st.sampled_from(["add", "answer", "delete", "move"]), st.integers(0, 20)), max_size=8)


@settings(max_examples=200)
@given(WORK, WORK)
def test_whatever_a_student_and_the_course_did_nothing_is_lost(theirs: list, ours: list) -> None:
    worked, newer = _handed_out(), _handed_out()
    mine = [source for source in (_do(worked, *step, f"mine {number}") for number, step in enumerate(theirs)) if source]
    mine = [source for source in mine if source in [cell.source for cell in worked.cells]]
    for number, step in enumerate(ours):
        _do(newer, *step, f"the course's {number}")
    mark(newer)
    made, _ = renewed(worked, newer)
    sources = _sources(made)
    assert all(sources.count(source) == 1 for source in mine)
    given_now = [cell.id for cell in newer.cells]
    assert [cell.id for cell in made.cells if cell.id in given_now] == given_now
    again, notes = renewed(made, newer)
    assert _sources(again) == sources


def _do(notebook: NotebookNode, what: str, where: int, text: str) -> str | None:
    """Do one thing to a notebook; return the text that is a student's own after it."""
    cells = notebook.cells
    at = where % (len(cells) + 1)
    if what == "add":
        cells.insert(at, new_code_cell(text))
        return text
    if what == "answer":
        answers = [cell for cell in cells if cell.metadata.get("nbgrader", {}).get("solution")]
        if answers:
            answers[where % len(answers)].source = text
            return text
    elif cells and at < len(cells):
        cell = cells.pop(at)
        if what == "move":
            cells.insert(where * 7 % (len(cells) + 1), cell)
    return None


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A folder with a handed-out notebook."""
    (tmp_path / HANDOUT / STEP).mkdir(parents=True)
    (tmp_path / HANDOUT / STEP / "square.svg").write_text("<svg/>")
    nbformat.write(_handed_out(), tmp_path / HANDOUT / STEP / f"{STEP}.ipynb")
    return tmp_path


def _place(bundle: Path) -> Path:
    return bundle / "labs" / STEP / f"{STEP}.ipynb"


def _kept(bundle: Path) -> list[Path]:
    return sorted((bundle / "labs" / ".kept").rglob("*.ipynb"))


def _lay_out(bundle: Path) -> list[str]:
    return lay_out(bundle / HANDOUT, bundle / "labs")


def test_the_first_time_lays_out_and_the_second_changes_nothing(bundle: Path) -> None:
    assert _lay_out(bundle) == [f"{STEP}: new"] and (_place(bundle).parent / "square.svg").read_text() == "<svg/>"
    nbformat.write(_edited(_handed_out(), todo=SOLVED), _place(bundle))
    before = _place(bundle).read_bytes()
    assert _lay_out(bundle) == [] and _place(bundle).read_bytes() == before and _kept(bundle) == []


def test_what_an_editor_saved_with_other_line_ends_is_not_taken_for_work(bundle: Path) -> None:
    _lay_out(bundle)
    saved = nbformat.writes(_edited(_handed_out(), todo=SOLVED)).replace("\\n", "\\r\\n")
    _place(bundle).write_text(f"\ufeff{saved}", encoding="utf-8")
    nbformat.write(
        _newer(todo=f"# anew\n{STUB}", check="assert square(3) == 9\n"), bundle / HANDOUT / STEP / f"{STEP}.ipynb"
    )
    said = _lay_out(bundle)
    assert said[:2] == [
        f"{STEP}: brought up to date",
        f"  cell square_todo: your answer stays; what its cell was handed out with has changed, see {HANDOUT}/",
    ]
    assert len(said) == 3 and SOLVED in _sources(read_notebook(_place(bundle)))


def test_the_old_notebook_is_kept_to_the_byte(bundle: Path) -> None:
    _lay_out(bundle)
    nbformat.write(_edited(_handed_out(), todo=SOLVED), _place(bundle))
    before = _place(bundle).read_bytes()
    nbformat.write(_newer(task="Anew"), bundle / HANDOUT / STEP / f"{STEP}.ipynb")
    said = _lay_out(bundle)
    assert said == [f"{STEP}: brought up to date", f"as they were: {_kept(bundle)[0].parent}/"]
    assert [path.read_bytes() for path in _kept(bundle)] == [before]
    assert _sources(read_notebook(_place(bundle)))[2:4] == ["Anew", SOLVED]


@pytest.mark.parametrize("broken", ["{", "[]", '{"cells": [{}], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}'])
def test_one_that_cannot_be_read_stops_before_anything_is_written(bundle: Path, broken: str) -> None:
    second = NOTEBOOKS[1]
    _place(bundle).parent.mkdir(parents=True)
    _place(bundle).write_text(broken)
    (bundle / HANDOUT / second).mkdir()
    nbformat.write(_handed_out(), bundle / HANDOUT / second / f"{second}.ipynb")
    with pytest.raises(InputError, match=STEP):
        _lay_out(bundle)
    assert _place(bundle).read_text() == broken and not (bundle / "labs" / second).exists()


@pytest.mark.slow
def test_a_newer_release_is_unpacked_first(bundle: Path) -> None:
    _run(bundle)
    nbformat.write(_edited(_handed_out(), todo=SOLVED), _place(bundle))
    release = bundle / "newer.zip"
    with zipfile.ZipFile(release, "w") as archive:
        archive.writestr(f"lab/{HANDOUT}/{STEP}/{STEP}.ipynb", nbformat.writes(_newer(task="Anew")))
        archive.writestr("lab/labs/README.md", "newer")
        archive.writestr("lab/helpers/course/notes.py", "")
    for name in ("helpers/lab.py", "mine.py"):
        (bundle / name).parent.mkdir(exist_ok=True)
        (bundle / name).touch()
    said = _run(bundle, str(release))
    assert "brought up to date" in said and (bundle / "labs" / "README.md").read_text() == "newer"
    assert _sources(read_notebook(_place(bundle)))[2:4] == ["Anew", SOLVED]
    assert sorted(bundle.rglob("*.py")) == [bundle / "helpers/course/notes.py", bundle / "mine.py"]
    assert "up to date" in _run(bundle)


def _run(bundle: Path, *words: str) -> str:
    command = [sys.executable, "-m", "helpers.course.handout", *words]
    root = str(Path(__file__).parents[3])
    done = subprocess.run(command, cwd=bundle, env={"PYTHONPATH": root}, capture_output=True, text=True)
    return done.stdout + done.stderr


@pytest.mark.parametrize("content", [None, b"no archive", "stranger", "outside"])
def test_what_is_no_release_changes_nothing(bundle: Path, content: bytes | str | None) -> None:
    release = bundle / "newer.zip"
    if isinstance(content, bytes):
        release.write_bytes(content)
    elif content:
        with zipfile.ZipFile(release, "w") as archive:
            archive.writestr("lab/other.txt" if content == "stranger" else f"lab/{HANDOUT}/../../x.ipynb", "")
    said = _run(bundle, str(release))
    assert said.startswith("error: ") and "newer.zip" in said and "Traceback" not in said
    assert not (bundle / "labs").exists()


def test_the_mark_survives_a_save_by_jupyter(bundle: Path) -> None:
    saved = json.loads(nbformat.writes(_handed_out()))
    saved["metadata"]["language_info"] = {"name": "python", "version": "3.12"}
    saved["cells"][1]["execution_count"] = 7
    (bundle / "saved.ipynb").write_text(json.dumps(saved))
    assert as_handed_out(bundle / "saved.ipynb")
