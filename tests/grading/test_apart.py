"""What a stranger's text can make endless is given up at a limit: the page is a plain one, with points and reasons."""

import operator
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode, write
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from nbgrader.server_extensions.formgrader import handlers
from traitlets.config import Config

from solutions.grading.course import Course
from solutions.grading.grade import grade_class
from solutions.grading.layout import ROOT, course_config
from solutions.grading.submissions import Submission
from solutions.grading.untrusted import apart as child
from solutions.grading.untrusted.apart import apart
from solutions.grading.untrusted.pages import PageExporter, graded_page
from solutions.grading.untrusted.sanitise import safe_notebook
from tests.grading.conftest import hand_in
from tests.grading.tiny import STEP, code_of, solved
from trtcpu.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore")  # nbgrader's and nbformat's own

ENDLESS = "```ipython\n" + " \n" * 9_000 + "```"
"""The lexer's time grows with the third power of the lines: two minutes of a processor."""

GROWING = "".join(f"<b title={number}><p>" for number in range(20_000))
"""Each paragraph opens again what is open: of 400 kB more than 2 GiB are made."""


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Limits that an attack passes soon."""
    monkeypatch.setattr(child, "SECONDS", 2)
    yield


def _exporter() -> Config:
    return Config({"HTMLExporter": course_config(ROOT).HTMLExporter})


def _labelled(**label: object) -> dict:
    return {"nbgrader": {"grade_id": "export_model", "grade": False, "solution": True, "locked": False, **label}}


def test_a_page_is_what_nbconvert_makes_of_the_notebook() -> None:
    table = new_output("display_data", {"text/html": "<table><tr><td onclick=x>1</td></tr></table>"})
    cells = [new_markdown_cell("# A *title* $x<y$"), new_code_cell("x = 1  # why", outputs=[table])]
    notebook = new_notebook(cells=cells)
    expected, _ = HTMLExporter(config=_exporter()).from_notebook_node(notebook)
    page, resources = PageExporter(config=_exporter()).from_notebook_node(notebook)
    assert page == expected and "<em>title</em>" in page and resources["output_extension"] == ".html"


def test_a_page_that_takes_too_long_shows_the_named_cells_as_text_and_says_why(hurried: None) -> None:
    answer = new_markdown_cell(f"my *answer*\n{ENDLESS}", metadata=_labelled())
    said = new_output("stream", text="No points: of a test")
    tested = new_code_cell("check()", metadata=_labelled(grade=True, solution=False), outputs=[said])
    notebook = new_notebook(cells=[answer, new_markdown_cell("nobody's"), tested])
    page, _ = PageExporter(config=_exporter()).from_notebook_node(notebook)
    assert "could not be rendered: it took more than 2 s of a processor" in page
    assert "my *answer*" in page and "No points: of a test" in page and "nobody's" not in page


@pytest.mark.slow
def test_html_that_grows_without_end_is_not_kept_and_the_rest_is() -> None:
    shown = new_output("display_data", {"text/html": GROWING, "text/plain": "in short"})
    notebook = new_notebook(cells=[new_code_cell("x", outputs=[shown]), new_markdown_cell("*mine*")])
    safe_notebook(notebook, {})
    note, code, text = notebook.cells
    assert "could not be cleaned: it took more than" in note.source
    assert code.outputs[0].data == {"text/plain": "in short"} and text.source == "*mine*"


def test_html_that_is_many_times_what_was_written_is_not_kept() -> None:
    shown = new_output("display_data", {"text/html": GROWING[:8000], "text/plain": "in short"})
    notebook = new_notebook(cells=[new_code_cell("x", outputs=[shown])])
    safe_notebook(notebook, {})
    assert notebook.cells[0].outputs[0].data == {"text/plain": "in short"}


def test_a_limit_is_named_and_the_next_request_is_answered() -> None:
    for function, given, why in (
        (operator.mul, ("x", child.MEMORY_BYTES), "it took more than 2 GiB of memory"),
        (os._exit, (3,), r"it took more than 2 GiB of memory, or crashed \(3\)"),
        (operator.truediv, (1, 0), "it ended with ZeroDivisionError"),
    ):
        with pytest.raises(InputError, match=f"^{why}$"):
            apart(function, *given)
        assert apart(str.upper, "é") == "É"


def test_a_child_that_somebody_killed_is_replaced() -> None:
    assert apart(str.upper, "a") == "A"
    process, _ = child._WARM[-1]
    process.kill()
    process.wait()
    assert apart(str.upper, "b") == "B"


def test_a_new_child_that_somebody_kills_is_replaced_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "_WARM", [])
    assert apart(_killed_once, str(tmp_path / "seen")) == "done"
    with pytest.raises(InputError, match="killed from outside"):
        apart(signal.raise_signal, signal.SIGKILL)


def _killed_once(path: str) -> str:
    if not os.path.exists(path):
        os.mkdir(path)
        signal.raise_signal(signal.SIGKILL)
    return "done"


def test_formgrader_shows_a_plain_page_of_a_notebook_that_cannot_be_rendered(hurried: None, tmp_path: Path) -> None:
    config = _exporter()
    config.HTMLExporter.update(template_name="formgrade", extra_template_basedirs=[handlers.template_path])
    headers: dict[str, str] = {}
    handler = SimpleNamespace(
        settings={"nbgrader_exporter": HTMLExporter(config=config)},
        set_header=headers.__setitem__,
        request=SimpleNamespace(host="localhost"),
        base_url="",
    )
    label = _labelled(grade=True, points=6, task=False, schema_version=3)
    cells = [new_markdown_cell(ENDLESS), new_code_cell("def write_analysis(): ...", metadata=label)]
    write(new_notebook(cells=cells), tmp_path / "08_report.ipynb")
    names = ("assignment_id", "notebook_id", "submission_id", "base_url", "student", "last_name", "first_name")
    resources = {**dict.fromkeys((*names, "notebook_path"), "x"), "index": 0, "total": 1}
    page, _ = graded_page(handler, str(tmp_path / "08_report.ipynb"), resources)
    assert "could not be rendered: it took more than 2 s of a processor" in page
    assert "write_analysis" in page and 'class="score' in page and "Content-Security-Policy" in headers


@pytest.mark.slow
def test_feedback_of_a_notebook_that_cannot_be_rendered_has_points_and_what_was_lost(
    course: Course, lab: NotebookNode, hurried: None
) -> None:
    notebook = code_of(solved(lab, "cube"), "square", "def square(x):\n    return 2 * x")
    notebook.cells.append(new_markdown_cell(ENDLESS))
    hand_in(course, "endless", notebook)
    grade_class(course, [Submission("endless", [STEP])], [STEP], lambda *line: None)
    page = (course.root / "feedback" / "endless" / STEP / f"{STEP}.html").read_text()
    assert "could not be rendered: it took more than 2 s of a processor" in page
    assert "Two functions: 4 of 5 points" in page and "square.three: lost 1" in page and "<i>expected</i> 9" in page
    assert "return 2 * x" in page.replace("&#39;", "'")
