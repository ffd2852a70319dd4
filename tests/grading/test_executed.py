"""Executed solutions: the points they get, what readers see of them, and which outputs are of other code."""

from functools import partial
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from helpers.course.settings import ONNX_FILE
from helpers.course.steps import BY_NAME
from solutions.checks.trusted import workspace
from solutions.checks.trusted.stages import Reference, Stage
from solutions.grading import solve as solving
from solutions.grading.course import Course
from solutions.grading.executed import outdated
from solutions.grading.solve import UNFINISHED, execute, solve
from tests.grading.tiny import STEP, code_of, solved, source_notebook
from trtcpu.errors import EngineError

pytestmark = pytest.mark.filterwarnings("ignore")  # nbclient's


@pytest.fixture(scope="module")
def executed(course: Course, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The executed notebook of the course's step, and what was said meanwhile."""
    said: list[str] = []
    target = tmp_path_factory.mktemp("solutions")
    before = course.source(STEP).read_bytes()
    solve(course, [STEP], target, said.append)
    assert course.source(STEP).read_bytes() == before
    assert not (target / STEP / UNFINISHED).exists()
    return target / STEP / f"{STEP}.ipynb", said


def course_with(course: Course, root: Path, notebook: nbformat.NotebookNode) -> Course:
    """Return a course in `root` whose step is `notebook`."""
    made = Course(root, course.config, course.steps)
    made.source(STEP).parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, made.source(STEP))
    return made


@pytest.mark.slow
def test_the_solutions_get_their_points(executed: tuple[Path, list[str]]) -> None:
    assert executed[1][0].endswith("5 of 5 points")


def test_readers_get_what_tensorrt_10_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solving, "API", 11)
    with pytest.raises(SystemExit, match="error: readers get what TensorRT 10 says, and TensorRT .* unset TRT_LAB_API"):
        solving.main()


def test_readers_see_the_source_and_nothing_of_what_decides_points(executed: tuple[Path, list[str]]) -> None:
    cells = nbformat.read(executed[0], as_version=4).cells
    assert [cell.source for cell in cells] == [cell.source for cell in source_notebook().cells]
    assert cells[-1].outputs[0].text == "a demonstration\n"
    counts = [cell.execution_count for cell in cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))


def test_readers_get_no_widget_whose_kernel_is_gone(tmp_path: Path) -> None:
    widget = {"text/plain": "moves", "application/vnd.jupyter.widget-view+json": {"model_id": "gone"}}
    source = f"from IPython.display import display\nprint('stays')\ndisplay({widget}, raw=True)"
    nbformat.write(new_notebook(cells=[new_code_cell(source)]), tmp_path / "moving.ipynb")
    outputs = execute(tmp_path / "moving.ipynb", tmp_path / "artifacts", {})[0].cells[0].outputs
    assert [output.output_type for output in outputs] == ["stream"] and outputs[0].text == "stays\n"


def test_an_output_of_other_code_is_found_by_its_cell(
    course: Course, executed: tuple[Path, list[str]], tmp_path
) -> None:
    notebook = nbformat.read(executed[0], as_version=4)
    assert outdated(course_with(course, tmp_path, notebook)) == []
    notebook.cells[0].source += " and their texts"
    notebook.cells[1].source += "\nimport json"
    assert outdated(course_with(course, tmp_path, notebook)) == [f"{STEP}: other code ran in cells 2"]


def test_a_solution_without_all_its_points_is_an_error(course: Course, tmp_path: Path) -> None:
    wrong = code_of(solved(source_notebook()), "cube", "def cube(x):\n    return 1")
    with pytest.raises(EngineError, match=f"{STEP} got 3 of 5 points"):
        solve(course_with(course, tmp_path, wrong), [STEP], tmp_path / "results", lambda line: None)


def test_what_ran_of_a_notebook_that_fails_is_kept(course: Course, tmp_path: Path) -> None:
    notebook = source_notebook()
    notebook.cells[-1].source = "print('before')\nraise ZeroDivisionError('at the end')"
    failing = course_with(course, tmp_path, notebook)
    where = tmp_path / "results" / STEP / UNFINISHED
    with pytest.raises(EngineError, match=f"cell {len(notebook.cells)} .*at the end; what ran is in {where}"):
        solve(failing, [STEP], tmp_path / "results", lambda line: None)
    kept = nbformat.read(where, as_version=4).cells
    assert [cell.source for cell in kept] == [cell.source for cell in notebook.cells]
    assert [output.output_type for output in kept[-1].outputs] == ["stream", "error"]


@pytest.mark.slow
def test_what_ran_is_written_after_each_cell(tmp_path: Path) -> None:
    where = tmp_path / UNFINISHED
    look = f"import nbformat\nfor cell in nbformat.read({str(where)!r}, 4).cells:\n    print(cell.execution_count)"
    nbformat.write(new_notebook(cells=[new_code_cell("first = 1"), new_code_cell(look)]), tmp_path / "long.ipynb")
    executed = execute(tmp_path / "long.ipynb", tmp_path / "artifacts", {}, unfinished=where)[0]
    assert executed.cells[1].outputs[0].text == "1\nNone\n"


@pytest.mark.slow
def test_a_step_gets_what_this_run_made_and_is_lent_the_rest(
    course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lend(reference: Reference, folder: Path, *, name: str) -> None:
        (folder / name).write_text("lent")

    needed = BY_NAME["12_layer_profiling"].needs
    stages = [Stage((name,), (), partial(lend, name=name)) for name in needed]
    monkeypatch.setattr(workspace, "reference", lambda: Reference(tmp_path / "reference", stages, ""))
    given = "from helpers.course.artifacts import artifact_path\n"
    made = f"{given}artifact_path({ONNX_FILE!r}).write_text('made here')"
    look = f"{given}for name in {needed}:\n    print(artifact_path(name).read_text())"
    sources = {STEP: made, "12_layer_profiling": look, "15_llm": "1"}
    several = Course(tmp_path, course.config, (STEP, "12_layer_profiling", "15_llm"))
    for step, source in sources.items():
        several.source(step).parent.mkdir(parents=True)
        nbformat.write(new_notebook(cells=[new_code_cell(source)]), several.source(step))
    said: list[str] = []
    solve(several, list(sources), tmp_path / "results", said.append)
    seen = nbformat.read(tmp_path / "results" / "12_layer_profiling" / "12_layer_profiling.ipynb", as_version=4)
    assert seen.cells[0].outputs[0].text == "made here\n" + "lent\n" * (len(needed) - 1)
    lent = [line for line in said if "the reference's, since" in line]
    assert [line.split()[1] for line in lent] == [f"{name}:" for name in needed if name != ONNX_FILE]
    assert lent[0].startswith("12_layer_profiling") and lent[0].endswith("03_dynamic's is missing")
