"""What students get: what the solutions make, equal outside the blanks, helpful from the first run, and no answers."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

from helpers.course.handout import HANDOUT
from helpers.course.steps import GRADED, NOTEBOOKS
from helpers.tools.files import atomic_write
from solutions.grading.addresses import BUNDLE
from solutions.grading.course import Course
from solutions.grading.labs import make_labs, make_release, pack
from solutions.grading.layout import ROOT
from tests.grading.tiny import STEP
from trtcpu.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore")  # nbgrader's own

PRESENT = Course.at(ROOT).present
STUB = ["# YOUR CODE HERE", 'raise NotImplementedError("fill in this TODO, then remove this line")']

SET_UP = ("install.py", "environment.yml", "constraints.txt", "LICENSE")


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The students' archive, its notebooks made anew from the solutions."""
    folder = tmp_path_factory.mktemp("release")
    make_release(ROOT, folder / "student.zip")
    shutil.unpack_archive(folder / "student.zip", folder)
    return folder / BUNDLE


def _read(folder: Path, step: str) -> NotebookNode:
    return nbformat.read(folder / step / f"{step}.ipynb", as_version=4)


def _tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def _files(folder: Path) -> dict[str, bytes]:
    found = [path for path in (*folder.glob("00_start.ipynb"), *folder.glob("[0-9][0-9]_*/*.*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_labs_and_the_archive_hold_what_the_solutions_make(unpacked: Path) -> None:
    ours, theirs = _files(ROOT / "labs"), _files(unpacked / HANDOUT)
    assert sorted(ours) == sorted(theirs) and len(theirs) > len(PRESENT) == len(NOTEBOOKS)
    assert [name for name in theirs if ours[name] != theirs[name]] == [], "run make labs"


@pytest.mark.parametrize("step", PRESENT)
def test_a_skeleton_equals_its_solution_outside_the_blanks(unpacked: Path, step: str) -> None:
    title, fetch, *given = _read(unpacked / HANDOUT, step).cells
    assert fetch.id == "elsewhere"
    title.source = re.sub(r"\n\n\[(Open in Colab|What the checks).*", "", title.source)
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

# What the first cell that raises may say.
HELPFUL = (
    "NotImplementedError: fill in this TODO, then remove this line",
    r"(?s)the TODO is still there.*NotYet: ",
    r"InputError: \S+ is missing: .* run step 0[1-8]_\w+, which makes it",
)


@pytest.mark.slow
def test_each_skeleton_stops_at_its_first_todo_and_says_what_to_do(unpacked: Path, tmp_path: Path) -> None:
    steps = [step for step in PRESENT if step in GRADED]
    for step in steps:
        cells = [cell for cell in _read(unpacked / HANDOUT, step).cells if cell.cell_type == "code"]
        code = "\n\n".join(cell.source for cell in cells if "explore" not in _tags(cell))
        atomic_write(tmp_path / step / "cells.py", code)
    settings = {"TRT_LAB_ENGINE": "cpu", "TRT_LAB_MODEL": "resnet18", "TRT_LAB_QUICK": "1", "MPLBACKEND": "Agg"}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **settings}
    command = [sys.executable, "-c", RUNNER, *(str(tmp_path / step) for step in steps)]
    subprocess.run(command, env=environment, check=True)
    said = {step: (tmp_path / step / "said.txt").read_text() for step in steps}
    assert {step: text for step, text in said.items() if not any(re.search(each, text) for each in HELPFUL)} == {}


def test_a_notebook_that_would_show_a_hidden_check_is_not_made(bare: Course, tmp_path: Path) -> None:
    notebook = nbformat.read(bare.source(STEP), as_version=4)
    notebook.cells[1].source = "from solutions.checks import grade_cell"
    nbformat.write(notebook, bare.source(STEP))
    with pytest.raises(InputError, match="would hand out"):
        make_labs(bare, tmp_path / "labs")
    assert not (tmp_path / "labs").exists()


def test_what_somebody_wrote_is_kept_and_what_was_only_run_is_made_anew(course: Course, tmp_path: Path) -> None:
    place, own = tmp_path / STEP / f"{STEP}.ipynb", tmp_path / STEP / "my_notes.txt"
    assert make_labs(course, tmp_path) is None
    handed_out = place.read_bytes()
    own.write_text("mine")
    notebook = nbformat.read(place, as_version=4)
    notebook.cells[1].execution_count = 3
    notebook.metadata.language_info = {"name": "python"}
    nbformat.write(notebook, place)
    assert make_labs(course, tmp_path) is None and place.read_bytes() == handed_out
    notebook.cells[2].source = "def square(x):\n    return x * x"
    nbformat.write(notebook, place)
    worked_in = place.read_bytes()
    kept = make_labs(course, tmp_path)
    assert [path.read_bytes() for path in kept.iterdir()] == [worked_in]
    assert place.read_bytes() == handed_out and own.read_text() == "mine"


def test_the_notebook_of_a_step_that_is_gone_goes_and_work_in_it_is_kept(course: Course, tmp_path: Path) -> None:
    gone = tmp_path / NOTEBOOKS[1] / f"{NOTEBOOKS[1]}.ipynb"
    gone.parent.mkdir(parents=True)
    nbformat.write(new_notebook(cells=[new_code_cell("mine")]), gone)
    kept = make_labs(course, tmp_path)
    assert [path.name for path in kept.iterdir()] == [gone.name] and not gone.exists()


@pytest.mark.parametrize("content", ["half a notebook", '{"cells": [{}], "metadata": {}, "nbformat": 4}'])
def test_a_file_that_is_no_notebook_is_not_overwritten(course: Course, tmp_path: Path, content: str) -> None:
    place = tmp_path / STEP / f"{STEP}.ipynb"
    atomic_write(place, content)
    with pytest.raises(InputError, match="is not a"):
        make_labs(course, tmp_path)
    assert place.read_text() == content


def test_the_archive_holds_no_answers_and_no_checks(unpacked: Path) -> None:
    names = {path.relative_to(unpacked).parts[0] for path in unpacked.rglob("*")}
    assert names.isdisjoint(("solutions", "trtlab", "tests"))
    for path in [*unpacked.rglob("*.py"), *unpacked.rglob("*.ipynb"), *unpacked.rglob("*.toml")]:
        text = path.read_text()
        assert "BEGIN SOLUTION" not in text and "BEGIN HIDDEN" not in text, path
        assert not re.search(r"^\s*(import|from) (solutions|trtlab)\b", text, re.M), path


def test_the_archive_holds_what_its_readme_names(unpacked: Path) -> None:
    for name in ("README.md", "Makefile", "nbgrader_config.py", *SET_UP):
        assert (unpacked / name).is_file(), name
    assert (unpacked / "AGENTS.md").read_text() == (ROOT / "labs" / "AGENTS.md").read_text()
    assert not list((unpacked / "labs").rglob("*.ipynb")), "unpacked over an older release, it would overwrite work"
    assert (unpacked / "datasets" / "weights" / "resnet50.npz").is_file()


@pytest.mark.slow
def test_the_archive_s_helpers_run_on_their_own(unpacked: Path) -> None:
    code = "import helpers, sys; helpers.feedback; assert 'solutions' not in sys.modules; print(helpers.__file__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=unpacked, capture_output=True, text=True, check=True)
    assert str(unpacked) in done.stdout


def test_the_same_files_give_the_same_archive(unpacked: Path, tmp_path: Path) -> None:
    make_release(ROOT, tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == (unpacked.parent / "student.zip").read_bytes()


def test_the_students_project_has_the_same_dependencies_and_no_solutions(unpacked: Path) -> None:
    ours, theirs = ((folder / "pyproject.toml").read_text() for folder in (ROOT, unpacked))
    assert re.search(r"^dependencies = \[.*?^\]", ours, re.S | re.M)[0] in theirs
    assert "solutions" not in theirs and "trtlab" not in theirs


def test_without_notebooks_there_is_nothing_to_pack(tmp_path: Path) -> None:
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    with pytest.raises(InputError, match="no notebooks"):
        make_release(tmp_path, tmp_path / "student.zip")


def test_an_output_of_other_code_is_named_and_only_a_strict_release_refuses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    step = Path("solutions", NOTEBOOKS[0], f"{NOTEBOOKS[0]}.ipynb")
    notebook = nbformat.read(ROOT / step, as_version=4)
    [cell for cell in notebook.cells if cell.cell_type == "code"][-1].source += "\nedited = True"
    monkeypatch.chdir(tmp_path)
    step.parent.mkdir(parents=True)
    nbformat.write(notebook, step)
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    for name in ("helpers", "trtcpu", "datasets", "labs", "course.toml", "pyproject.toml", *SET_UP):
        Path(name).symlink_to(ROOT / name)
    with pytest.raises(SystemExit, match="2"):
        pack(strict=True)
    assert not Path("dist").exists()
    pack()
    out, err = capsys.readouterr()
    other = rf"{NOTEBOOKS[0]}: other code ran in cells [\d, ]+"
    assert re.match(rf"error: .*{other}\); .*STRICT=1", err) and re.search(rf"^warning: .*\n  {other}\n", out)
    with zipfile.ZipFile(f"dist/{BUNDLE}.zip") as archive:
        assert f"{BUNDLE}/{HANDOUT}/{NOTEBOOKS[0]}/{NOTEBOOKS[0]}.ipynb" in archive.namelist()


@pytest.mark.slow
def test_labs_and_archive_follow_course_toml(tmp_path: Path) -> None:
    for name in ("helpers", "trtcpu", "solutions", "labs"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("datasets", "README.md", "nbgrader_config.py", "pyproject.toml", *SET_UP):
        (tmp_path / name).symlink_to(ROOT / name)
    term = ["03_dynamic", "01_export"]
    (tmp_path / "course.toml").write_text(f"steps = {term}\n[points]\nexport_model = 7\n")
    for command in ("pack", "write"):  # the archive follows it also where `make labs` has not run since
        argv = [sys.executable, "-m", "solutions.grading.labs", command]
        subprocess.run(argv, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}, check=True)
    shutil.unpack_archive(tmp_path / "dist" / f"{BUNDLE}.zip", tmp_path)
    handed_out = tmp_path / BUNDLE / HANDOUT
    for folder in (tmp_path / "labs", handed_out):
        assert {path.stem for path in folder.rglob("[0-9]*.ipynb")} == {"00_start", *term}
    points = {cell.metadata.nbgrader.grade_id: cell.metadata.nbgrader.points for cell in _graded(handed_out, term[1])}
    assert points["export_model"] == 7
    assert (tmp_path / BUNDLE / "course.toml").read_bytes() == (tmp_path / "course.toml").read_bytes()
    for folder in (tmp_path, tmp_path / BUNDLE):
        tables = (folder / "labs" / "README.md").read_text()
        assert re.findall(r"\]\((\d\d_\w+)/.*\| (\S+) \|", tables) == [("01_export", "8.75"), ("03_dynamic", "10")]


def _graded(folder: Path, step: str) -> list[NotebookNode]:
    return [cell for cell in _read(folder, step).cells if cell.metadata.get("nbgrader", {}).get("grade")]
