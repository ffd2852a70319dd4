"""The page that a student gets: the summary says what the records and the gradebook say."""

import re
from pathlib import Path

import nbformat
import pytest
from matplotlib.figure import Figure
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from solutions.grading.course import Course
from solutions.grading.feedback import marking_guide, without_guide
from tests.grading.conftest import feedback_of
from tests.grading.tiny import STEP, code_of, label, solved

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # nbgrader's and nbformat's own


@pytest.fixture(scope="module")
def half(course: Course, lab: NotebookNode) -> str:
    """The page of "half", whose square doubles."""
    return feedback_of(course, "half", code_of(solved(lab, "cube"), "square", "def square(x):\n    return 2 * x"))


def _summary(page: str) -> str:
    """Return the text of a feedback page's summary, in one line."""
    top = page.split('<div class="panel-heading">')[1].split('<div class="panel-body">')[0]
    return " ".join(re.sub("<[^>]*>", " ", top).split())


def _again(course: Course, student: str) -> str:
    course.feedback(student, STEP)
    return course.feedback_page(student, STEP).read_text()


def test_the_summary_has_the_points_by_criterion_and_what_was_lost_and_why(half: str) -> None:
    lost = "✗ square.three: lost 1 expected 9 found something else try multiply"
    expected = "Two functions: 4 of 5 points half criterion points of correctness 4 5 "
    assert _summary(half) == f"{expected}Export to ONNX 2 of 3 {lost} Simplify the graph 2 of 2"


def test_a_cell_that_was_not_decided_says_what_kept_it(course: Course, lab: NotebookNode) -> None:
    dying = code_of(solved(lab), "cube", "def cube(x):\n    import os\n    os._exit(1)")
    said = r"Simplify the graph 0 of 2 No points for what could not be asked .*: the kernel died in cell \d+"
    assert re.search(said, _summary(feedback_of(course, "dies", dying)))


def test_points_that_a_person_changed_are_called_so(course: Course, half: str) -> None:
    with course.gradebook() as gradebook:
        gradebook.find_grade("simplify_model", STEP, STEP, "half").manual_score = 1.5
        gradebook.db.commit()
    assert "1.5 of 2 The checks gave 2; a person changed that to 1.5." in _summary(_again(course, "half"))


def test_what_a_submission_printed_into_a_record_stays_text(course: Course, half: str) -> None:
    record = course.autograded("half") / "records" / "export_model.json"
    record.write_text(record.read_text().replace("something else", "<script>alert(1)</script>"))
    page = _again(course, "half")
    assert "&lt;script&gt;alert(1)" in page and "<script>alert(1)" not in page


def test_hidden_tests_stay_hidden(course: Course, half: str) -> None:
    path = course.autograded("half") / STEP / f"{STEP}.ipynb"
    hidden = r"### BEGIN HIDDEN TESTS\nassert secret\n### END HIDDEN TESTS"
    path.write_text(path.read_text().replace("assert square(1) == 1", hidden))
    page = _again(course, "half")
    assert "secret" not in page and "HIDDEN" not in page


def test_rubric_and_charts_stand_above_what_a_person_grades_and_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "artifacts").mkdir()
    Figure().savefig(tmp_path / "artifacts" / "latency.png", dpi=10)
    (tmp_path / "artifacts" / "speedup.png").write_text("<script>")
    written = new_code_cell("def write_analysis(report): ...", metadata=label("a", points=6, solution=True))
    tested = new_code_cell("", metadata=label("b", points=2))
    before = [new_markdown_cell("# The report"), tested, written]
    notebook = new_notebook(cells=before)
    for _ in range(2):  # graded twice, it stands there once
        marking_guide(notebook, {"metadata": {"path": str(tmp_path / "08_report")}})
    guide = notebook.cells[2].source
    assert "docs/grading-samples.md" in guide and "| 2 | **Reasons**" in guide
    assert guide.count("<details><summary ") == guide.count("</details>") == 3 and "](" not in guide
    assert guide.count("<img ") == 1 and "speedup.png is no picture" in guide and "<script>" not in guide
    nbformat.validate(notebook)
    without_guide(notebook)
    assert notebook.cells == before
