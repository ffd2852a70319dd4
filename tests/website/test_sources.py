"""What readers get of a notebook, and which pages are laid out for the site."""

import dataclasses
import json
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from website.notebook import for_readers, lead, title
from website.repository import Repository
from website.sources import lay_out

STEP = "solutions/01_export/01_export.ipynb"
OPTIONAL = "solutions/10_streams/10_streams.ipynb"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A small repository with one step, its hand-out and some documents."""
    folded = new_code_cell("draw()", metadata={"jupyter": {"source_hidden": True}})
    html = "<a href='../02_fp16/02_fp16.ipynb'>2</a> <a href='https://example.org/x.ipynb'>elsewhere</a>"
    task = new_code_cell(
        "def add(a, b):\n    ### BEGIN SOLUTION\n    return a + b\n    ### END SOLUTION",
        outputs=[new_output("display_data", {"text/html": html})],
    )
    first = new_markdown_cell("# Step 1 · Export\n\n**You will** export a\nmodel. **Time** 5 minutes.")
    files = {
        STEP: nbformat.writes(new_notebook(cells=[first, task, folded, new_code_cell("add(1, 2)")])),
        OPTIONAL: nbformat.writes(new_notebook(cells=[new_markdown_cell("# Step 10 · Streams\n")])),
        "labs/01_export/01_export.ipynb": nbformat.writes(new_notebook()),
        "labs/README.md": "# Labs",
        "README.md": "# Read me",
        "docs/later.md": "# Came later",
        "docs/instructor.md": "# Instructor",
        "docs/results/h200/report.md": "# Report",
        "docs/images/a.svg": "<svg/>",
        "labs/messages/01_export.md": "# Messages",
        "trtcpu/api/manifest.json": json.dumps({"surface": {}}),
        "pyproject.toml": '[project.urls]\nRepository = "https://github.com/someone/lab"\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return Repository.at(tmp_path)


def test_a_solution_and_drawing_code_are_folded_and_outputs_stay(repository: Repository) -> None:
    _, task, drawing, plain = for_readers(repository.root / STEP, repository).cells
    assert task.source == "def add(a, b):\n    return a + b"
    assert task.metadata.tags == ["hide-input", "solution"] and len(task.outputs) == 1
    assert task.metadata.mystnb["code_prompt_show"] == "Try first, then look"
    assert drawing.metadata.tags == ["hide-input"] and "mystnb" not in drawing.metadata
    assert plain.metadata == {}


def test_links_to_notebooks_in_outputs_lead_to_their_pages(repository: Repository) -> None:
    (output,) = for_readers(repository.root / STEP, repository).cells[1].outputs
    page = output.data["text/html"]
    assert "../02_fp16/02_fp16.html'" in page and "https://example.org/x.ipynb" in page


def test_a_page_opens_the_student_s_notebook_in_colab(repository: Repository) -> None:
    first = for_readers(repository.root / STEP, repository).cells[0].source
    assert first.startswith("# Step 1 · Export\n")
    assert "https://colab.research.google.com/github/someone/lab/blob/main/labs/01_export/01_export.ipynb" in first


def test_a_page_has_no_links_to_a_repository_that_is_not_published_yet(repository: Repository) -> None:
    placeholder = dataclasses.replace(repository, url="https://github.com/OWNER/lab")
    assert repository.published and not placeholder.published
    first = for_readers(repository.root / STEP, placeholder).cells[0].source
    assert "OWNER" not in first and "[Messages of the checks](../../labs/messages/01_export.md)" in first


def test_title_and_lead_come_from_the_first_cell(repository: Repository) -> None:
    notebook = for_readers(repository.root / STEP, repository)
    assert title(notebook) == "Step 1 · Export" and lead(notebook) == "Export a model."
    notebook.cells[0].source = "no heading"
    with pytest.raises(ValueError, match="'no heading'.*# Title"):
        title(notebook)


def test_every_document_is_laid_out_and_a_new_one_is_in_the_contents(repository: Repository, tmp_path: Path) -> None:
    target = tmp_path / "sources"
    target.mkdir()
    lay_out(repository, target)
    start = (target / "index.md").read_text()
    laid_out = {path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()}
    assert laid_out >= {STEP, "labs/README.md", "docs/later.md", "docs/instructor.md", "docs/images/a.svg", "names.md"}
    assert "\n/docs/later\n" in start and "[Step 1 · Export](solutions/01_export/01_export.ipynb)" in start
    further = start.index("## Further on")
    assert start.index(f"({STEP})") < further < start.index(f"({OPTIONAL})")
    assert start.count("/docs/instructor") == 1, "a page with a place of its own is not listed again"
    assert "\n  30 minutes · 5 points\n" in start, "as helpers.course.steps has them"
    for reached_by_links in ("docs/results/h200/report.md", "labs/messages/01_export.md"):
        assert (target / reached_by_links).read_text().startswith("---\norphan: true\n---\n")


def test_a_link_to_a_file_that_is_no_page_has_an_address_in_the_repository(repository: Repository) -> None:
    assert repository.linked("docs/later.md", "../pyproject.toml") == "pyproject.toml"
    assert repository.linked("docs/later.md", "../gone.py") is None
    assert repository.linked("docs/later.md", "../../outside") is None
    assert repository.address("pyproject.toml") == "https://github.com/someone/lab/blob/main/pyproject.toml"
    assert repository.address("docs") == "https://github.com/someone/lab/tree/main/docs"


def test_a_project_without_an_address_says_what_to_add(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    with pytest.raises(ValueError, match="Repository ="):
        Repository.at(tmp_path)
