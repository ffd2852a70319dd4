"""The overview: what passed here, what it is worth, and links to the notebooks that are there."""

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from helpers.checks.feedback.progress import progress, remember
from helpers.checks.points.rooms import CHECKS


@pytest.fixture
def labs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A labs/ with the notebook of step 2, which is the current folder's; step 1 was not handed out."""
    for step, points in (("02_fp16", (6, 5)), ("03_dynamic", (4,))):
        cells = [new_markdown_cell(f"# Step {step[1]} · About\n\nText")]
        cells += [new_code_cell("", metadata={"nbgrader": {"grade": True, "points": worth}}) for worth in points]
        (tmp_path / step).mkdir()
        nbformat.write(new_notebook(cells=cells), tmp_path / step / f"{step}.ipynb")
    monkeypatch.chdir(tmp_path / "02_fp16")
    return tmp_path


def test_a_check_counts_until_it_fails_again(labs: Path) -> None:
    (name,) = [name for name, check in CHECKS.items() if check.step == "02_fp16"]
    remember("02_fp16", name, True)
    assert progress().lines[1].ok and "✓ Step 2 · About: 1 of 1 checks passed" in str(progress())
    remember("02_fp16", name, False)
    assert progress().lines[1].ok is None and "○ Step 2 · About" in str(progress())


def test_a_note_of_progress_that_cannot_be_read_counts_as_none(labs: Path) -> None:
    (labs / "artifacts").mkdir()
    (labs / "artifacts" / ".progress.json").write_text("[garbage")
    assert not any(line.ok for line in progress().lines)


def test_points_titles_and_links_are_those_of_the_notebooks_that_are_here(labs: Path) -> None:
    found = progress()
    assert [line.points for line in found.lines[:3]] == ["", "11 points", "4 points"]
    page = found._repr_html_()
    assert '<a href="../03_dynamic/03_dynamic.ipynb">Step 3 · About</a>' in page
    assert "01_export" in page and "01_export.ipynb" not in page


def test_the_first_step_that_is_not_done_comes_next(labs: Path) -> None:
    assert str(progress()).endswith("Next: 01_export")
    for name, check in CHECKS.items():
        remember(check.step, name, check.step != "02_fp16")
    assert str(progress()).endswith("Next: Step 2 · About")
    for name, check in CHECKS.items():
        remember(check.step, name, True)
    assert str(progress()).endswith("All steps are done: hand in your notebooks")
