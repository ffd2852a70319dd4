"""Only the record of a test cell gives points, nbgrader reads exactly those, and the student's page says so."""

import json
import re
from pathlib import Path

import nbformat
import pytest
from matplotlib.figure import Figure
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from nbgrader.utils import determine_grade

from solutions.grading.course import Course
from solutions.grading.feedback import links_as_paths, marking_guide, without_guide
from solutions.grading.outcome import decided_outputs, is_test_cell
from tests.grading.conftest import feedback_of, graded_class, hand_in
from tests.grading.tiny import POINTS, STEP, code_of, label, solved

pytestmark = pytest.mark.filterwarnings("ignore")  # nbgrader's and nbformat's own

CELL = "export_model"


def _claim(earned: float | str, name: str = "a") -> dict:
    missed = None if earned else {"expected": "<b>4</b>", "found": "5", "try_this": "add"}
    status = "kept" if earned == 1.5 else "lost"
    return {"claim": name, "title": "It adds", "points": 1.5, "earned": earned, "status": status, "missed": missed}


def _record(*results: dict) -> str:
    record = {"cell": CELL, "step": STEP, "criterion": "correctness", "engine": "none", "points": 3.0, "earned": 0}
    return json.dumps({**record, "results": results})


def _decided(folder: Path, record: str | None, fault: str = "") -> tuple[list[NotebookNode], float]:
    """Return a test cell's outputs and the points that nbgrader reads in them."""
    path = folder / f"{CELL}.json"
    if record is not None:
        path.write_text(record)
    outputs = decided_outputs(path, 3.0, fault or None)
    cell = new_code_cell("", outputs=outputs, metadata=label(CELL, points=POINTS[CELL]))
    return outputs, determine_grade(cell)[0]


HALF = _record(_claim(1.5), _claim(0, "b"))
REFUSED = f"No points: the grading record {CELL}.json is "


@pytest.mark.parametrize(
    ("record", "fault", "points", "said"),
    [
        (HALF, "", 1.5, "'text/plain': '✗ Export to ONNX: 1.5 of 3 points"),
        (HALF, "", 1.5, "&lt;b&gt;4&lt;/b&gt;"),
        (None, "the kernel died in cell 4", 0, r"'No points: the kernel died in cell 4.\n'"),
        (_record(_claim(1.5)), "it was stopped after 9 s", 1.5, "is not listed above: it was stopped"),
        (_record(_claim(1.5, "b"), _claim("lots")), "", 0, f"{REFUSED}refused: results.1.earned: 'lots' is not"),
        *((text, "", 0, REFUSED) for text in ("", "{", "[]", "3", '{"results": 4}', '{"cell": "a", "results": [3]}')),
    ],
)
def test_the_points_are_those_of_the_record_and_what_has_none_says_why(
    tmp_path: Path, record: str | None, fault: str, points: float, said: str
) -> None:
    outputs, given = _decided(tmp_path, record, fault)
    assert given == points and said in str(outputs).replace('"', "'")


@pytest.mark.parametrize("earned", [99.0, -5.0, float("nan"), float("inf")])
def test_no_record_gives_more_than_the_cell_is_worth_or_less_than_nothing(tmp_path: Path, earned: float) -> None:
    assert 0 <= _decided(tmp_path, _record(_claim(earned)))[1] <= 3.0


def test_answers_that_a_person_reads_are_no_test_cells() -> None:
    answer = label("analysis", points=6, solution=True)
    cells = [new_markdown_cell("", metadata=answer), new_code_cell("", metadata=answer)]
    assert not any(map(is_test_cell, cells)) and is_test_cell(new_code_cell("", metadata=label("analysis", points=6)))


@pytest.fixture(scope="module")
def half(course: Course, lab: NotebookNode) -> str:
    return feedback_of(course, "half", code_of(solved(lab, "cube"), "square", "def square(x):\n    return 2 * x"))


def _summary(page: str) -> str:
    """Return the text of a feedback page's summary, in one line."""
    top = page.split('<div class="panel-heading">')[1].split('<div class="panel-body">')[0]
    return " ".join(re.sub("<[^>]*>", " ", top).split())


@pytest.mark.slow
def test_the_summary_has_the_points_by_criterion_and_what_was_lost_and_why(half: str) -> None:
    lost = "✗ square.three: lost 1 expected 9 found something else try multiply"
    expected = "Two functions: 4 of 5 points half criterion points of correctness 4 5 "
    causes = f"Usual causes: labs/messages/{STEP}.md in the lab."
    assert _summary(half) == f"{expected}Export to ONNX 2 of 3 {lost} Simplify the graph 2 of 2 {causes}"


def test_the_page_of_a_refused_step_gives_the_reason_and_not_the_points_of_earlier_work(bare: Course) -> None:
    bare.register(STEP)
    earlier = bare.feedback_page("again", STEP)
    earlier.parent.mkdir(parents=True)
    earlier.write_text("Two functions: 5 of 5 points")
    hand_in(bare, "again", "no notebook")
    hand_in(bare, "first", "{}").with_name("<b>.txt").symlink_to("nowhere")
    graded_class(bare)
    again, first = (bare.feedback_page(student, STEP).read_text() for student in ("again", "first"))
    assert f"{STEP}: 0 points" in again and "5 of 5" not in again
    assert f"refused: {STEP}.ipynb is not a notebook (it is not JSON)" in again
    assert "refused: &lt;b&gt;.txt is a link" in first
    assert all("default-src 'none'" in page for page in (again, first))


def test_a_link_into_the_lab_is_a_path_on_the_page() -> None:
    text = "[Messages](../messages/01_export.md) · [ONNX](https://onnx.ai) · [tasks](#tasks)"
    said = "Messages (`labs/messages/01_export.md`) · [ONNX](https://onnx.ai) · [tasks](#tasks)"
    assert links_as_paths(text) == said
    for bracket in ("[", "[a](../"):
        assert links_as_paths(bracket * 200_000) == bracket * 200_000


@pytest.mark.slow
def test_a_cell_that_was_not_decided_says_what_kept_it(course: Course, lab: NotebookNode) -> None:
    dying = code_of(solved(lab), "cube", "def cube(x):\n    import os\n    os._exit(1)")
    said = r"Simplify the graph 0 of 2 No points for what could not be asked .*: the kernel died in cell \d+"
    assert re.search(said, _summary(feedback_of(course, "dies", dying)))


@pytest.mark.slow
def test_a_page_says_what_a_person_changed_and_shows_no_markup_and_no_hidden_tests(course: Course, half: str) -> None:
    with course.gradebook() as gradebook:
        gradebook.find_grade("simplify_model", STEP, STEP, "half").manual_score = 1.5
        gradebook.db.commit()
    hidden = r"### BEGIN HIDDEN TESTS\nassert secret\n### END HIDDEN TESTS"
    replaced = {
        f"{STEP}/{STEP}.ipynb": ("assert square(1) == 1", hidden),
        "records/export_model.json": ("something else", "<script>alert(1)</script>"),
    }
    for name, (old, new) in replaced.items():
        path = course.autograded("half") / name
        path.write_text(path.read_text().replace(old, new))
    course.feedback("half", STEP)
    page = course.feedback_page("half", STEP).read_text()
    assert "1.5 of 2 The checks gave 2; a person changed that to 1.5." in _summary(page)
    assert "&lt;script&gt;alert(1)" in page and "<script>alert(1)" not in page
    assert "secret" not in page and "HIDDEN" not in page


@pytest.mark.slow
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
