"""A class with every kind of submission: each is graded or refused with a line, and none harms another.

What being late costs is settled at each run, whatever became known after the step was graded.
"""

import datetime
import json
import os
import shutil
from concurrent.futures import Future
from copy import deepcopy
from pathlib import Path
from unittest.mock import Mock

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_output
from nbgrader.plugins import LateSubmissionPlugin

from solutions.grading.course import Course
from solutions.grading.faults import CourseError
from solutions.grading.grade import grade_class
from solutions.grading.gradebook import Journal
from solutions.grading.grades import ClassGrades, StudentGrades, worth_of
from solutions.grading.layout import ROOT
from solutions.grading.step_record import StepRecord
from solutions.grading.submissions import Submission
from solutions.grading.work.place import Done, Piece
from tests.grading.conftest import graded_class, hand_in, make_course
from tests.grading.tiny import STEP, code_of, index_of, solved

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # nbgrader's and nbformat's own

RIGHT = "    return x * x\n"
TRICKS = """import sys, warnings
class Silent:
    def write(self, text): pass
    def flush(self): pass
sys.stderr = Silent()
sys.displayhook(3)
def square(x):
    warnings.warn("3")
    print("3")
    sys.displayhook(3)
    return 3
3"""
NOISY = f"""import sys, warnings
def square(x):
    warnings.warn("careful")
    print("no", file=sys.stderr)
    sys.displayhook(0)
{RIGHT}"""

FORGERY = """import json, os, pathlib
claim = {"claim": "a", "title": "a", "points": 3, "earned": 3, "status": "kept"}
record = {"step": "01_export", "criterion": "correctness", "engine": "none", "points": 3, "results": [claim]}
for cell in ("export_model", "simplify_model"):
    path = pathlib.Path("records") / f"{cell}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**record, "cell": cell}))
os._exit(0)"""


def _class(lab: NotebookNode) -> dict[str, tuple[NotebookNode | str | bytes, float]]:
    """Return each student's notebook and the points it must get, by the student's name."""
    whole = solved(lab)
    deleted, edited, old = (deepcopy(whole) for _ in range(3))
    deleted.cells = [cell for cell in whole.cells if not cell.metadata.get("nbgrader", {}).get("grade")]
    edited.cells.insert(0, deepcopy(whole.cells[index_of(whole, "simplify_model")]))
    test = edited.cells[index_of(edited, "export_model")]
    test.metadata.nbgrader.points, test.source = 500, "500"
    old.nbformat_minor = 2
    for cell in old.cells:
        cell.pop("id")
    old.cells[1].outputs = [new_output("stream", name="stdout", text="x" * 50_000_000)]
    windows = json.dumps(whole).replace("\\n", "\\r\\n")
    pasted = code_of(whole, "cube", "def cube(x):\n    text = 'a\u2028b' # \x85\n    return x ** 3")
    raising = deepcopy(lab)
    raising.cells[1].source = "raise ValueError('at the first cell')"
    return {
        "complete": (whole, 5),
        "empty": (lab, 0),
        "unfinished": (code_of(whole, "square", "def square(x):\n    return x *"), 2),  # the cube's check calls it too
        "half done": (code_of(solved(lab, "cube"), "square", "def square(x):\n    return 2 * x"), 2 + 2),
        "deleted tests": (deleted, 5),
        "edited and doubled tests": (edited, 5),
        "Zoë Ångström": (whole, 5),
        "raises": (raising, 0),
        "old format, big output": (json.dumps(old), 5),
        "tricks": (code_of(lab, "square", TRICKS), 0),
        "noisy": (code_of(whole, "square", NOISY), 5),
        "dies": (code_of(whole, "cube", "def cube(x):\n    import os\n    os._exit(1)"), 3),
        "forges": (code_of(lab, "square", FORGERY), 0),
        "on Windows": (b"\xef\xbb\xbf" + windows.encode(), 5),
        "pasted": (pasted, 5),
        "not JSON": ("this is no notebook", 0),
    }


@pytest.fixture(scope="module")
def graded(course: Course, lab: NotebookNode) -> ClassGrades:
    for student, (notebook, _) in _class(lab).items():
        hand_in(course, student, notebook)
    (course.submitted("complete", STEP).parent / os.fsdecode(b"data\xff\x1b.txt")).touch()
    (course.root / "submitted" / "no notebook").mkdir()
    (course.root / "submitted" / "odd [name]" / STEP).mkdir(parents=True)
    return graded_class(course)


def test_everyone_gets_the_points_that_the_claims_gave(graded: ClassGrades, lab: NotebookNode) -> None:
    expected = {student: points for student, (_, points) in _class(lab).items()} | {"no notebook": 0, "odd [name]": 0}
    assert {row.student: row.total for row in graded.students} == expected
    assert graded.worth["correctness"] == 5
    assert "NBGRADER_EXECUTION" not in os.environ, "the grader's environment is as before"


@pytest.mark.parametrize(
    ("student", "said"),
    [
        *((student, []) for student in ("complete", "on Windows", "pasted")),
        ("not JSON", [f"{STEP}: refused: {STEP}.ipynb is not a notebook (it is not JSON)"]),
        ("no notebook", [f"not handed in: {STEP}"]),
        ("odd [name]", ["rename the folder"]),
        ("deleted tests", ["", ""]),
        ("edited and doubled tests", ["more than once", "the course's", ""]),
    ],
)
def test_what_was_refused_or_mended_has_a_line_that_says_why(
    graded: ClassGrades, student: str, said: list[str]
) -> None:
    notes = next(row.notes for row in graded.students if row.student == student)
    assert [text in note for text, note in zip(said, notes, strict=True)] == [True] * len(said)


def test_a_file_whose_name_is_no_text_is_escaped_in_the_log(course: Course, graded: ClassGrades) -> None:
    log = (course.autograded("complete") / f"{STEP}.log").read_text()
    assert r"data\udcff\x1b.txt" in log and "\x1b" not in log


def test_a_dead_kernel_costs_only_what_was_not_decided_yet(course: Course, graded: ClassGrades) -> None:
    notebook = nbformat.read(course.autograded("dies") / STEP / f"{STEP}.ipynb", as_version=4)
    outputs = notebook.cells[index_of(notebook, "simplify_model")].outputs
    assert "No points for what could not be asked" in outputs[1].text and "the kernel died" in outputs[1].text


def test_feedback_shows_the_card_and_whose_artifacts_were_used(course: Course, graded: ClassGrades) -> None:
    page = course.feedback_page("half done", STEP).read_text()
    assert "Export to ONNX: 2 of 3 points" in page and "model.onnx: yours" in page


def test_only_a_changed_submission_is_graded_again(course: Course, graded: ClassGrades, lab: NotebookNode) -> None:
    hand_in(course, "empty", solved(lab, "square"))
    lines: dict[str, str] = {}
    again = graded_class(course, lambda student, step, line: lines.update({student: line}))
    assert {line.partition(":")[0] for line in lines.values()} == {"unchanged", "refused", "graded"}
    assert [student for student, line in lines.items() if line == "graded"] == ["empty"]
    totals = {row.student: row.total for row in graded.students}
    assert {row.student: row.total for row in again.students} == {**totals, "empty": 3}


def test_on_a_full_machine_nobody_is_graded_and_the_same_run_goes_on_later(
    tmp_path: Path, lab: NotebookNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    course = make_course(tmp_path)
    hand_in(course, "ada", solved(lab))
    with monkeypatch.context() as full:
        full.setattr("solutions.sandbox.watch._FREE_BYTES", 1 << 62)
        with pytest.raises(CourseError, match=rf"ada {STEP} was not graded: .* the machine's memory is full"):
            graded_class(course)
    assert not Journal(course, "ada").done(STEP) and not list(course.autograded("ada").glob("records/*"))
    assert [row.total for row in graded_class(course).students] == [5]


def test_a_chapter_has_no_points_and_is_no_part_of_the_class(bare: Course) -> None:
    shutil.copytree(ROOT / "solutions" / "15_llm", bare.root / "solutions" / "15_llm")
    assert bare.present == [STEP, "15_llm"]
    assert bare.graded == [STEP] and sum(worth_of(bare, [STEP]).values()) == 5


def _refused(piece: Piece) -> "Future[Done]":
    done: Future[Done] = Future()
    done.set_result(Done(piece.record, "not wanted"))
    return done


@pytest.mark.parametrize(("at_once", "begun"), [(1, ["a", "b", "c"]), (2, ["b", "a", "c"])])
def test_where_several_are_graded_at_a_time_who_handed_in_most_is_first_and_the_grades_keep_their_order(
    tmp_path: Path, lab: NotebookNode, at_once: int, begun: list[str]
) -> None:
    course, pool = make_course(tmp_path), Mock(at_once=at_once, **{"submit.side_effect": _refused})
    for student in "abc":
        hand_in(course, student, lab)
    second = course.submitted("b", "02_fp16")
    second.parent.mkdir()
    second.write_text("no notebook")
    submissions = [Submission("a", [STEP]), Submission("b", [STEP, "02_fp16"]), Submission("c", [STEP])]
    result = grade_class(course, submissions, [STEP], lambda *line: None, pool=pool)
    assert [call.args[0].record.student for call in pool.submit.call_args_list] == begun
    assert [grades.student for grades in result.students] == ["a", "b", "c"]


class PointADay(LateSubmissionPlugin):
    """A course's plugin."""

    def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float:
        """Return a point for each day."""
        return total_seconds_late / 86400


def _of_ada(course: Course) -> tuple[StudentGrades, str]:
    """Grade; return ada's grades, and what was said of her step."""
    said: list[str] = []
    return graded_class(course, lambda *line: said.append(line[-1])).students[0], said[0]


def test_deadline_extension_timestamp_and_plugin_count_whenever_they_come(
    tmp_path: Path, lab: NotebookNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    course = make_course(tmp_path)
    course.config.AssignLatePenalties.plugin_class = PointADay
    when = hand_in(course, "ada", solved(lab)).with_name("timestamp.txt")
    when.write_text("yesterday, nearly")
    row, _ = _of_ada(course)
    assert row.total == 5.0 and "timestamp.txt holds 'yesterday, nearly', expected such as 2026-11-01" in row.notes[0]
    when.write_text("2026-11-03 12:00:00 UTC")
    assert _of_ada(course)[0].late == 0
    with course.gradebook() as gradebook:
        gradebook.find_assignment(STEP).duedate = datetime.datetime(2026, 11, 1, 12)
        gradebook.db.commit()
    row, said = _of_ada(course)
    assert (row.late, row.total, said) == (2.0, 3.0, "unchanged")
    assert "late -2" in " ".join(course.feedback_page("ada", STEP).read_text().replace("</td><td>", " ").split())
    with course.gradebook() as gradebook:
        gradebook.grant_extension(STEP, "ada", days=1)
        gradebook.db.commit()
    assert _of_ada(course)[0].late == 1.0
    hand_in(course, "ada", f"{when.with_name(f'{STEP}.ipynb').read_text()} ")
    assert _of_ada(course)[1] == "graded"
    assert StepRecord.read(course.autograded("ada"), "ada", STEP).penalty == 1.0  # a piece knows of no extension

    monkeypatch.setattr(PointADay, "late_submission_penalty", lambda *given: 1 / 0)
    row, _ = _of_ada(course)
    fault = "ZeroDivisionError: division by zero"
    assert row.late == 1.0 and row.notes == [f"{STEP}: what being late costs is not known: {fault}"]
    when.unlink()
    row, _ = _of_ada(course)
    assert (row.late, row.notes) == (0.0, [])
