"""A submission that never ends, or talks without end, costs itself its points and nobody else's."""

from copy import deepcopy

import nbformat
import pytest
from nbformat import NotebookNode

from solutions.grading.course import Course
from solutions.grading.execute import GradeExecute
from solutions.grading.step_record import StepRecord
from tests.grading.conftest import hand_in
from tests.grading.tiny import STEP, code_of, index_of, solved

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # nbgrader's own

LOOPS = "def cube(x):\n    while True:\n        pass"
STUBBORN = """def cube(x):
    import time
    while True:
        try:
            time.sleep(1)
        except KeyboardInterrupt:
            pass"""
FLOOD = "def cube(x):\n    return x ** 3\nfor _ in range(300):\n    print('y' * 100_000)"


@pytest.fixture()
def strict(course: Course) -> Course:
    """The course with limits of seconds."""
    limited = deepcopy(course)
    limited.config.Execute.timeout = 15
    limited.config.GradeExecute.grace = 3
    limited.config.GradeExecute.output_limit = 250_000
    return limited


def _graded(course: Course, student: str, notebook: NotebookNode) -> tuple[float, NotebookNode]:
    hand_in(course, student, notebook)
    course.autograde(student, STEP)
    points = sum(StepRecord.read(course.autograded(student), student, STEP).given.values())
    return points, nbformat.read(course.autograded(student) / STEP / f"{STEP}.ipynb", as_version=4)


@pytest.mark.parametrize("code", [LOOPS, STUBBORN], ids=["interruptible", "stubborn"])
def test_an_endless_loop_loses_what_was_not_decided(strict: Course, lab: NotebookNode, code: str) -> None:
    strict.config.Execute.iopub_timeout = 5  # for what never comes
    points, notebook = _graded(strict, f"endless {len(code)}", code_of(solved(lab), "cube", code))
    assert points == 3
    text = notebook.cells[index_of(notebook, "simplify_model")].outputs[1].text
    assert text.startswith("No points for what could not be asked or is not listed above: it was stopped by the time")


def test_a_notebook_has_a_limit_of_its_own(strict: Course, lab: NotebookNode) -> None:
    strict.config.GradeExecute.notebook_timeout = 0
    points, notebook = _graded(strict, "late", solved(lab))
    assert points == 0
    assert "time limit of 0 s was used up" in notebook.cells[index_of(notebook, "export_model")].outputs[0].text


def test_a_flood_of_output_is_cut_and_costs_nothing(strict: Course, lab: NotebookNode) -> None:
    points, notebook = _graded(strict, "flood", code_of(solved(lab), "cube", FLOOD))
    assert points == 5
    said = "".join(output.text for output in notebook.cells[index_of(notebook, "cube_todo")].outputs)
    assert len(said) < 300_000 and "the rest was dropped" in said


def test_an_error_that_had_no_room_comes_back_short_from_the_kernels_reply() -> None:
    cell = NotebookNode(outputs=[])
    content = {"status": "error", "ename": "Long", "evalue": "y" * 3_000_000, "traceback": ["y" * 3_000_000]}
    GradeExecute().on_cell_executed(cell=cell, cell_index=0, execute_reply={"content": content})
    assert cell.outputs[0].ename == "Long" and len(str(cell.outputs)) < 5000
