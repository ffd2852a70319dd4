"""A class with every kind of submission: each is graded or refused with a line, and none harms another."""

import csv
import json
import os
import shutil
from concurrent.futures import Future
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_output

from solutions.grading.course import Course
from solutions.grading.faults import CourseError
from solutions.grading.grade import grade_class
from solutions.grading.gradebook import Journal
from solutions.grading.grades import ClassGrades, worth_of, write_grades
from solutions.grading.layout import ROOT
from solutions.grading.submissions import Submission, find_submissions
from solutions.grading.work.place import Done, Piece
from tests.grading.conftest import hand_in, make_course
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
    return _grade(course)


def _grade(course: Course, lines: list[str] | None = None) -> ClassGrades:
    def report(student: str, step: str, line: str) -> None:
        (lines if lines is not None else []).append(f"{student}: {line}")

    return grade_class(course, find_submissions(course, [STEP]), [STEP], report)


def _notes(graded: ClassGrades, student: str) -> list[str]:
    return next(row.notes for row in graded.students if row.student == student)


def test_everyone_gets_the_points_that_the_claims_gave(graded: ClassGrades, lab: NotebookNode) -> None:
    expected = {student: points for student, (_, points) in _class(lab).items()} | {"no notebook": 0, "odd [name]": 0}
    assert {row.student: row.total for row in graded.students} == expected
    assert graded.worth["correctness"] == 5


def test_what_could_not_be_graded_has_a_line_that_says_why(graded: ClassGrades) -> None:
    assert _notes(graded, "not JSON") == [f"{STEP}: refused: {STEP}.ipynb is not a notebook (it is not JSON)"]
    assert _notes(graded, "no notebook") == [f"not handed in: {STEP}"]
    assert "rename the folder" in _notes(graded, "odd [name]")[0]
    assert [_notes(graded, student) for student in ("complete", "on Windows", "pasted")] == [[], [], []]


def test_a_file_whose_name_is_no_text_is_escaped_in_the_log(course: Course, graded: ClassGrades) -> None:
    log = (course.autograded("complete") / f"{STEP}.log").read_text()
    assert r"data\udcff\x1b.txt" in log and "\x1b" not in log


def test_what_was_mended_has_a_line_too(graded: ClassGrades) -> None:
    assert len(_notes(graded, "deleted tests")) == 2
    assert "more than once" in _notes(graded, "edited and doubled tests")[0]
    assert "the course's" in _notes(graded, "edited and doubled tests")[1]


def test_a_dead_kernel_costs_only_what_was_not_decided_yet(course: Course, graded: ClassGrades) -> None:
    notebook = nbformat.read(course.autograded("dies") / STEP / f"{STEP}.ipynb", as_version=4)
    outputs = notebook.cells[index_of(notebook, "simplify_model")].outputs
    assert "No points for what could not be asked" in outputs[1].text and "the kernel died" in outputs[1].text


def test_feedback_shows_the_card_and_whose_artifacts_were_used(course: Course, graded: ClassGrades) -> None:
    page = (course.root / "feedback" / "half done" / STEP / f"{STEP}.html").read_text()
    assert "Export to ONNX: 2 of 3 points" in page
    assert "model.onnx: yours" in page


def test_the_same_submissions_are_not_graded_again(course: Course, graded: ClassGrades) -> None:
    lines: list[str] = []
    again = _grade(course, lines)
    assert [row.total for row in again.students] == [row.total for row in graded.students]
    assert {line.split(": ")[1] for line in lines} == {"unchanged", "refused"}


def test_a_changed_submission_is_graded_again(course: Course, graded: ClassGrades, lab: NotebookNode) -> None:
    path = course.submitted("empty", STEP)
    before = path.read_bytes()
    try:
        hand_in(course, "empty", solved(lab, "square"))
        lines: list[str] = []
        again = _grade(course, lines)
        assert [line for line in lines if line.endswith(": graded")] == ["empty: graded"]
        assert {row.student: row.total for row in again.students}["empty"] == 3
    finally:
        path.write_bytes(before)


def test_the_class_is_written_as_csv_with_one_line_a_student(course: Course, graded: ClassGrades) -> None:
    write_grades(course.root, graded.students, graded.worth, graded.steps)
    with (course.root / "grades.csv").open(newline="") as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    assert len(rows) == len(graded.students)
    assert (rows["half done"]["correctness"], rows["half done"]["total"], rows["half done"][STEP]) == ("4", "4", "4")


def test_the_environment_of_the_grader_is_as_before(course: Course, graded: ClassGrades) -> None:
    import os

    assert "NBGRADER_EXECUTION" not in os.environ


def test_on_a_full_machine_nobody_is_graded_and_the_same_run_goes_on_later(
    tmp_path: Path, lab: NotebookNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    course = make_course(tmp_path)
    hand_in(course, "ada", solved(lab))
    with monkeypatch.context() as full:
        full.setattr("solutions.sandbox.watch._FREE_BYTES", 1 << 62)
        with pytest.raises(CourseError, match=rf"ada {STEP} was not graded: .* the machine's memory is full"):
            _grade(course)
    assert not Journal(course, "ada").done(STEP) and not list(course.autograded("ada").glob("records/*"))
    assert [row.total for row in _grade(course).students] == [5]


def test_a_chapter_has_no_points_and_is_no_part_of_the_class(tmp_path: Path) -> None:
    course = make_course(tmp_path)
    shutil.copytree(ROOT / "solutions" / "15_llm", course.root / "solutions" / "15_llm")
    assert course.present == [STEP, "15_llm"]
    assert course.graded == [STEP] and sum(worth_of(course, [STEP]).values()) == 5


@dataclass
class _Refusing:
    """A pool that refuses all that it is given, and knows of whom that was."""

    at_once: int
    begun: list[str] = field(default_factory=list)

    def submit(self, piece: Piece) -> "Future[Done]":
        self.begun.append(piece.record.student)
        done: Future[Done] = Future()
        done.set_result(Done(piece.record, "not wanted"))
        return done


@pytest.mark.parametrize(("at_once", "begun"), [(1, ["a", "b", "c"]), (2, ["b", "a", "c"])])
def test_where_several_are_graded_at_a_time_who_handed_in_most_is_first_and_the_grades_keep_their_order(
    tmp_path: Path, lab: NotebookNode, at_once: int, begun: list[str]
) -> None:
    course, pool = make_course(tmp_path), _Refusing(at_once)
    for student in "abc":
        hand_in(course, student, lab)
    second = course.submitted("b", "02_fp16")
    second.parent.mkdir()
    second.write_text("no notebook")
    submissions = [Submission("a", [STEP]), Submission("b", [STEP, "02_fp16"]), Submission("c", [STEP])]
    result = grade_class(course, submissions, [STEP], lambda *line: None, pool=pool)
    assert pool.begun == begun
    assert [grades.student for grades in result.students] == ["a", "b", "c"]
