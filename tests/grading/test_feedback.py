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
from solutions.grading.grade import grade_class
from solutions.grading.submissions import Submission
from tests.grading.conftest import hand_in
from tests.grading.tiny import STEP, code_of, solved

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # nbgrader's and nbformat's own


def _summary(course: Course, student: str) -> str:
    """Return the text of a feedback page's summary, in one line."""
    page = (course.root / "feedback" / student / STEP / f"{STEP}.html").read_text()
    top = page.split('<div class="panel-heading">')[1].split('<div class="panel-body">')[0]
    return " ".join(re.sub("<[^>]*>", " ", top).split())


def _graded(course: Course, student: str, notebook: NotebookNode) -> str:
    hand_in(course, student, notebook)
    grade_class(course, [Submission(student, [STEP])], [STEP], lambda *line: None)
    return _summary(course, student)


def test_the_summary_has_the_points_by_criterion_and_what_was_lost_and_why(course: Course, lab: NotebookNode) -> None:
    half = code_of(solved(lab, "cube"), "square", "def square(x):\n    return 2 * x")
    said = _graded(course, "half", half)
    assert said.startswith("Two functions: 4 of 5 points half criterion points of correctness 4 5 ")
    lost = "✗ square.three: lost 1 expected 9 found something else try multiply"
    page = (course.root / "feedback" / "half" / STEP / f"{STEP}.html").read_text()
    assert "HIDDEN TESTS" not in page
    assert said.endswith(f"Export to ONNX 2 of 3 {lost} Simplify the graph 2 of 2")


def test_a_cell_that_was_not_decided_says_what_kept_it(course: Course, lab: NotebookNode) -> None:
    dying = code_of(solved(lab), "cube", "def cube(x):\n    import os\n    os._exit(1)")
    said = _graded(course, "dies", dying)
    assert re.search(
        r"Simplify the graph 0 of 2 No points for what could not be asked .*: the kernel died in cell \d+", said
    )


def test_points_that_a_person_changed_are_called_so(course: Course, lab: NotebookNode) -> None:
    _graded(course, "changed", lab)
    with course.gradebook() as gradebook:
        gradebook.find_grade("simplify_model", STEP, STEP, "changed").manual_score = 1.5
        gradebook.db.commit()
    course.feedback("changed", STEP)
    assert "1.5 of 2 The checks gave 0; a person changed that to 1.5." in _summary(course, "changed")


def test_what_a_submission_printed_into_a_record_stays_text(course: Course, lab: NotebookNode) -> None:
    _graded(course, "half", solved(lab, "cube"))
    record = course.autograded("half") / "records" / "export_model.json"
    record.write_text(record.read_text().replace("something else", "<script>alert(1)</script>"))
    course.feedback("half", STEP)
    page = (course.root / "feedback" / "half" / STEP / f"{STEP}.html").read_text()
    assert "&lt;script&gt;alert(1)" in page and "<script>alert(1)" not in page


def _labelled(*, points: float, solution: bool) -> dict:
    label = {"grade": True, "solution": solution, "locked": not solution, "grade_id": "a", "points": points}
    return {"nbgrader": {**label, "task": False, "schema_version": 3}}


def test_rubric_and_charts_stand_above_what_a_person_grades_and_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "artifacts").mkdir()
    Figure().savefig(tmp_path / "artifacts" / "latency.png", dpi=10)
    (tmp_path / "artifacts" / "speedup.png").write_text("<script>")
    written = new_code_cell("def write_analysis(report): ...", metadata=_labelled(points=6, solution=True))
    tested = new_code_cell("", metadata=_labelled(points=2, solution=False))
    notebook = new_notebook(cells=[new_markdown_cell("# The report"), tested, written])
    for _ in range(2):  # graded twice, it stands there once
        marking_guide(notebook, {"metadata": {"path": str(tmp_path / "08_report")}})
    assert [cell.cell_type for cell in notebook.cells] == ["markdown", "code", "markdown", "code"]
    guide = notebook.cells[2].source
    assert "docs/grading-samples.md" in guide and "| 2 | **Reasons**" in guide
    assert guide.count("<details><summary ") == guide.count("</details>") == 3 and "](" not in guide
    assert guide.count("<img ") == 1 and "speedup.png is no picture" in guide and "<script>" not in guide
    nbformat.validate(notebook)
    without_guide(notebook)
    assert notebook.cells[2] is written
