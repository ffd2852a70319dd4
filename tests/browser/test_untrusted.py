"""A submission that carries scripts, in a real browser: none runs, and what is ours looks as it should."""

from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_markdown_cell
from playwright.sync_api import Page, expect

from solutions.grading.course import Course
from solutions.grading.grade import grade_class
from solutions.grading.layout import ROOT
from solutions.grading.submissions import Submission
from tests.browser.jupyter_server import JupyterServer
from tests.grading.conftest import hand_in, make_course
from tests.grading.test_untrusted import EVERYWHERE, WRITTEN
from tests.grading.tiny import STEP, code_of, solved

pytestmark = pytest.mark.filterwarnings("ignore")  # nbgrader's and nbformat's own

SVG = "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIG9ubG9hZD0iYWxlcnQoMSkiLz4="  # <svg onload="alert(1)"/>


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """The made-up course of tests/grading, with one graded submission that tries everything."""
    course = make_course(tmp_path_factory.mktemp("hostile"))
    lab = nbformat.read(course.root / "labs" / STEP / f"{STEP}.ipynb", as_version=4)
    notebook = code_of(solved(lab), "cube", EVERYWHERE)
    attached = new_markdown_cell("![x](attachment:a.svg)", attachments={"a.svg": {"image/svg+xml": SVG}})
    notebook.cells += [new_markdown_cell(WRITTEN), attached]
    path = hand_in(course, "eve", notebook)
    (path.parent / "evil.html").write_text("<script>alert('file'); fetch('/api/status')</script><p>a page</p>")
    grade_class(course, [Submission("eve", [STEP])], [STEP], lambda *line: None)
    return course


@pytest.fixture(scope="module")
def served(hostile: Course, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterServer]:
    environment = {"PYTHONPATH": str(ROOT), "TRT_LAB_ENGINE": "cpu"}
    with JupyterServer(hostile.root, tmp_path_factory.mktemp("home"), environment) as running:
        yield running


@pytest.fixture
def said(page: Page) -> list[str]:
    """What a page says in dialogs and of its policy: nothing if no stranger's script ran and none of ours failed."""
    lines: list[str] = []
    page.on("dialog", lambda dialog: (lines.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on("pageerror", lambda error: lines.append(f"error: {error}"))
    page.on("console", lambda line: lines.append(line.text) if line.type == "error" else None)
    return lines


def _feedback(course: Course) -> Path:
    return course.root / "feedback" / "eve" / STEP / f"{STEP}.html"


def test_a_feedback_page_runs_nothing_and_our_card_looks_as_it_should(
    hostile: Course, page: Page, said: list[str], picture: Callable[[str], None]
) -> None:
    page.goto(_feedback(hostile).as_uri())
    expect(page.get_by_text("bold", exact=True)).to_be_visible()
    card = page.locator("div", has=page.get_by_text("Export to ONNX: 3 of 3 points")).last
    expect(card).to_have_css("border-left", "4px solid rgb(56, 142, 60)")
    expect(card).to_have_css("padding-left", "12px")
    picture("feedback-untrusted")
    assert said == []


def test_the_policy_alone_stops_a_script_that_stands_in_a_page(
    hostile: Course, page: Page, said: list[str], tmp_path: Path
) -> None:
    text = _feedback(hostile).read_text()
    script = "<body><script>alert('passed')</script><img src=x.png onerror=\"alert('passed')\">"
    (tmp_path / "with.html").write_text(text.replace("<body>", script, 1))
    head, _, body = text.partition("</head>")
    without = head.replace("default-src 'none'", "default-src * 'unsafe-inline'")
    (tmp_path / "without.html").write_text(f"{without}</head>{body.replace('<body>', script, 1)}")
    page.goto((tmp_path / "with.html").as_uri())
    assert not [line for line in said if line.startswith("dialog")] and "Content Security Policy" in said[0]
    page.goto((tmp_path / "without.html").as_uri())
    assert "dialog: passed" in said


def test_formgrader_shows_a_submission_and_works_and_runs_nothing_of_it(
    hostile: Course, served: JupyterServer, page: Page, said: list[str], picture: Callable[[str], None]
) -> None:
    for path in ("manage_assignments", f"manage_submissions/{STEP}", "gradebook", f"gradebook/{STEP}/{STEP}"):
        page.goto(served.url(f"formgrader/{path}"))
        expect(page.locator("#main-table tr").first).to_be_visible()
    page.get_by_role("link", name="Submission #1").click()
    expect(page.get_by_text("bold", exact=True)).to_be_visible()
    score = page.locator("#export_model")
    expect(score).to_have_attribute("placeholder", "3")
    cell = page.locator(".nbgrader_cell", has=score)
    cell.get_by_role("button", name="No credit").click()
    expect(score).to_have_value("0")
    picture("formgrader-untrusted")
    page.locator(".name-hidden .glyphicon-eye-open, .glyphicon-eye-open.name-hidden").click()
    expect(page.locator(".glyphicon-eye-close")).to_be_visible()
    assert said == []


def test_a_page_that_was_handed_in_is_no_page_of_the_server(
    hostile: Course, served: JupyterServer, page: Page, said: list[str]
) -> None:
    with hostile.gradebook() as gradebook:
        number = gradebook.find_submission_notebook(STEP, STEP, "eve").id
    page.goto(served.url(f"formgrader/submissions/{number}/evil.html"))
    expect(page.get_by_text("a page")).to_be_visible()
    assert said and not [line for line in said if line.startswith("dialog")]
