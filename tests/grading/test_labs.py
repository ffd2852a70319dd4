"""The students' notebooks are what the solutions make, equal outside the blanks, and helpful from the first run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from helpers.course.steps import BONUS, BY_NAME, CELLS, COLUMNS, GRADED, NOTEBOOKS, OPTIONAL, START
from solutions.grading.course import Course
from solutions.grading.labs import make_labs
from solutions.grading.layout import ROOT
from tests.grading.tiny import STEP
from trtcpu.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore")  # nbgrader's own

PRESENT = Course.at(ROOT).present
STUB = ["# YOUR CODE HERE", 'raise NotImplementedError("fill in this TODO, then remove this line")']


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The students' notebooks, made anew from the solutions."""
    folder = tmp_path_factory.mktemp("labs")
    make_labs(Course.at(ROOT), folder)
    return folder


def _read(folder: Path, step: str) -> NotebookNode:
    return nbformat.read(folder / step / f"{step}.ipynb", as_version=4)


def _files(folder: Path) -> dict[str, bytes]:
    places = [folder / START, *(path for step in PRESENT for path in (folder / step).rglob("*"))]
    found = [path for path in places if path.is_file() and ".ipynb_checkpoints" not in path.parts]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_labs_holds_what_the_solutions_make(made: Path) -> None:
    ours, theirs = _files(ROOT / "labs"), _files(made)
    assert sorted(ours) == sorted(theirs)
    assert [name for name in theirs if ours[name] != theirs[name]] == [], "run make labs"


@pytest.mark.parametrize("step", PRESENT)
def test_a_skeleton_equals_its_solution_outside_the_blanks(made: Path, step: str) -> None:
    title, fetch, *given = _read(made, step).cells
    assert fetch.id == "elsewhere"
    title.source = re.sub(r"\n\n\[Open in Colab\].*", "", title.source)
    shown = [cell for cell in _read(ROOT / "solutions", step).cells if "answers" not in _tags(cell)]
    for skeleton, solution in zip([title, *given], shown, strict=True):
        assert skeleton.source == _blanked(solution.source)
        assert skeleton.metadata.get("jupyter") == solution.metadata.get("jupyter"), "what is folded stays folded"
        assert not skeleton.get("outputs")


def _blanked(source: str) -> str:
    """Return a solution cell's text without answers, hidden tests and marking schemes, written independently."""
    shown = re.sub(r"\n[^\n]*BEGIN (HIDDEN TESTS|MARK SCHEME).*?END \1", "", source, flags=re.S)
    answer = r"^( *)[^\n]*BEGIN SOLUTION.*?END SOLUTION"
    return re.sub(answer, "\n".join(rf"\1{line}" for line in STUB), shown, flags=re.S | re.M)


# Runs the code in each folder, in a process that has imported what all of them import.
RUNNER = """
import os, runpy, sys, traceback
import matplotlib.pyplot, onnx, torch, torchvision
import helpers.engine.backend, helpers.checks.feedback
for folder in sys.argv[1:]:
    if not os.fork():
        os.chdir(folder)
        said = os.open("said.txt", os.O_WRONLY | os.O_CREAT)
        os.dup2(said, 1), os.dup2(said, 2)
        try:
            runpy.run_path("cells.py", run_name="__main__")
            print("nothing was left to do")
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(0)
    os.wait()
"""


@pytest.fixture(scope="module")
def stopped(made: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each skeleton showed when its code cells ran in order in an empty folder, up to the first that raised."""
    folders = {step: tmp_path_factory.mktemp(step) for step in PRESENT if step in GRADED}
    for step, folder in folders.items():
        cells = [cell for cell in _read(made, step).cells if cell.cell_type == "code" and "explore" not in _tags(cell)]
        (folder / "cells.py").write_text("\n\n".join(cell.source for cell in cells))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TRT_LAB_ENGINE": "cpu", "MPLBACKEND": "Agg"}
    environment |= {"TRT_LAB_MODEL": "resnet18", "TRT_LAB_QUICK": "1"}
    subprocess.run([sys.executable, "-c", RUNNER, *map(str, folders.values())], env=environment, check=True)
    return {step: (folder / "said.txt").read_text() for step, folder in folders.items()}


@pytest.mark.slow
@pytest.mark.parametrize("step", [step for step in PRESENT if step in GRADED])
def test_a_skeleton_stops_at_its_first_todo_and_says_what_to_do(stopped: dict[str, str], step: str) -> None:
    said = stopped[step]
    todo = "NotImplementedError: fill in this TODO, then remove this line" in said
    check = "NotYet: " in said and "the TODO is still there" in said
    artifact = re.search(r"InputError: \S+ is missing: .* run step 0[1-8]_\w+, which makes it", said)
    assert todo or check or artifact, said


def _tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def test_the_points_are_forty_thirty_fifteen_fifteen_and_a_bonus() -> None:
    worth = dict.fromkeys(COLUMNS, 0.0)
    for cell in [cell for step in PRESENT for cell in _read(ROOT / "solutions", step).cells]:
        label = cell.metadata.get("nbgrader", {})
        if label.get("grade"):
            worth[CELLS[label.grade_id].criterion] += label.points
    assert worth.pop(BONUS) == sum(BY_NAME[step].points for step in OPTIONAL)
    assert worth == {"correctness": 40, "performance": 30, "accuracy": 15, "documentation": 15}


def test_a_notebook_that_would_show_a_hidden_check_is_not_made(course: Course, tmp_path: Path) -> None:
    path = course.source("01_export")
    before = path.read_text()
    notebook = nbformat.reads(before, as_version=4)
    notebook.cells[1].source = "from solutions.checks import grade_cell"
    try:
        nbformat.write(notebook, path)
        with pytest.raises(InputError, match="would hand out"):
            make_labs(course, tmp_path / "labs")
        assert not (tmp_path / "labs").exists()
    finally:
        path.write_text(before)


def test_what_somebody_wrote_is_kept_and_what_is_not_ours_stays(course: Course, tmp_path: Path) -> None:
    place, own = tmp_path / STEP / f"{STEP}.ipynb", tmp_path / STEP / "my_notes.txt"
    assert make_labs(course, tmp_path) is None
    handed_out = place.read_bytes()
    own.write_text("mine")
    notebook = nbformat.read(place, as_version=4)
    notebook.cells[2].source = "def square(x):\n    return x * x"
    nbformat.write(notebook, place)
    worked_in = place.read_bytes()
    kept = make_labs(course, tmp_path)
    assert [path.read_bytes() for path in kept.iterdir()] == [worked_in]
    assert place.read_bytes() == handed_out and own.read_text() == "mine"


def test_what_was_only_run_is_made_anew_without_a_word(course: Course, tmp_path: Path) -> None:
    place = tmp_path / STEP / f"{STEP}.ipynb"
    make_labs(course, tmp_path)
    notebook = nbformat.read(place, as_version=4)
    notebook.cells[1].execution_count = 3
    notebook.metadata.language_info = {"name": "python"}
    nbformat.write(notebook, place)
    assert make_labs(course, tmp_path) is None and not (tmp_path / ".kept").exists()


def test_the_notebook_of_a_step_that_is_gone_goes_and_work_in_it_is_kept(course: Course, tmp_path: Path) -> None:
    gone = tmp_path / NOTEBOOKS[1] / f"{NOTEBOOKS[1]}.ipynb"
    gone.parent.mkdir(parents=True)
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("mine")]), gone)
    kept = make_labs(course, tmp_path)
    assert [path.name for path in kept.iterdir()] == [gone.name] and not gone.exists()


@pytest.mark.parametrize("content", ["half a notebook", '{"cells": [{}], "metadata": {}, "nbformat": 4}'])
def test_a_file_that_is_no_notebook_is_not_overwritten(course: Course, tmp_path: Path, content: str) -> None:
    place = tmp_path / STEP / f"{STEP}.ipynb"
    place.parent.mkdir(parents=True)
    place.write_text(content)
    with pytest.raises(InputError, match="is not a"):
        make_labs(course, tmp_path)
    assert place.read_text() == content
