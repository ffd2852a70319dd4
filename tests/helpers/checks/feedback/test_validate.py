"""`feedback.validate()`: how each test cell ends, and the notebook to hand in. Colab's modules are made up."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from helpers.checks import feedback
from trtcpu.errors import InputError


def _test_cell(name: str, code: str) -> nbformat.NotebookNode:
    return new_code_cell(code, metadata={"nbgrader": {"grade_id": name, "grade": True, "points": 1}})


def _notebook() -> nbformat.NotebookNode:
    cells = [
        new_markdown_cell("# Step 1 · Made up"),
        new_code_cell("import helpers.course\nnumber = 2"),
        _test_cell("is_two", "assert number == 2"),
        new_code_cell("from helpers.checks import feedback\nfeedback.validate()"),
        _test_cell("is_three", "assert number == 3, 'two is not three'"),
    ]
    return new_notebook(cells=cells)


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("JPY_SESSION_NAME", "NBGRADER_EXECUTION"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.slow
def test_it_says_which_test_cells_pass_and_leaves_the_file_alone(capsys: pytest.CaptureFixture[str]) -> None:
    nbformat.write(_notebook(), "01_export.ipynb")
    before = Path("01_export.ipynb").read_bytes()
    feedback.validate()
    said = capsys.readouterr().out
    assert "✗ Validate 01_export" in said and "✓ is_two" in said and "✗ is_three" in said
    assert "AssertionError: two is not three" in said
    assert f"To hand in: {Path('01_export.ipynb').resolve()}" in said
    assert Path("01_export.ipynb").read_bytes() == before


def test_cells_that_a_dead_kernel_did_not_reach_are_not_passed(capsys: pytest.CaptureFixture[str]) -> None:
    notebook = _notebook()
    notebook.cells.insert(3, new_code_cell("import os\nos._exit(1)"))
    notebook.cells[-1].source = "assert number == 2"
    nbformat.write(notebook, "01_export.ipynb")
    feedback.validate()
    said = capsys.readouterr().out
    assert "✓ is_two" in said and "✗ is_three" in said and "the kernel died" in said


def test_which_notebook_it_is_must_be_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="which notebook\\? This folder has no step's notebook; name one"):
        feedback.validate()
    for name in ("01_export.ipynb", "02_fp16.ipynb"):
        nbformat.write(_notebook(), name)
    with pytest.raises(InputError, match="This folder has 01_export.ipynb, 02_fp16.ipynb; name one"):
        feedback.validate()
    with pytest.raises(InputError, match="cannot read 03_dynamic.ipynb"):
        feedback.validate("03_dynamic.ipynb")
    monkeypatch.setenv("JPY_SESSION_NAME", str(Path("nowhere.ipynb").resolve()))
    with pytest.raises(InputError, match="cannot read nowhere.ipynb"):
        feedback.validate()


@pytest.mark.slow
def test_in_colab_it_takes_the_notebook_of_the_browser_and_downloads_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    downloaded: list[str] = []
    colab, message = ModuleType("google.colab"), ModuleType("google.colab._message")
    colab.files = SimpleNamespace(download=downloaded.append)
    older = _notebook()
    older.nbformat_minor = 0  # without ids for the cells, as before 4.5
    for cell in older.cells:
        del cell["id"]
    message.blocking_request = lambda what, timeout_sec: {"ipynb": older} if what == "get_ipynb" else None
    for module in (ModuleType("google"), colab, message):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    feedback.validate()
    assert "✓ is_two" in capsys.readouterr().out
    assert downloaded == ["01_export.ipynb"]
    assert nbformat.read("01_export.ipynb", as_version=4).cells[0].source == "# Step 1 · Made up"


def test_left_in_a_notebook_it_costs_no_grading_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    feedback.validate("nowhere.ipynb")
