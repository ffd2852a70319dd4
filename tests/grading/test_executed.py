"""Executed solutions: the points they get, what readers see of them, and which outputs are of other code."""

import re
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

from helpers.course.settings import ONNX_FILE
from helpers.course.steps import BY_NAME
from helpers.tools.files import atomic_write
from helpers.tools.term import Term
from solutions.checks.trusted import workspace
from solutions.checks.trusted.stages import Reference, Stage
from solutions.grading import solve as solving
from solutions.grading.course import Course
from solutions.grading.labs import outdated
from solutions.grading.solve import UNFINISHED, execute, solve
from tests.grading.tiny import STEP, code_of, solved, source_notebook
from tests.submissions import classroom
from trtcpu.errors import EngineError, InputError

pytestmark = pytest.mark.filterwarnings("ignore")  # nbclient's


def _course_with(course: Course, root: Path, **notebooks: NotebookNode) -> Course:
    """Return a course in `root` with these steps."""
    made = Course(root, course.config, tuple(notebooks))
    for step, notebook in notebooks.items():
        atomic_write(made.source(step), nbformat.writes(notebook))
    return made


def _of(*sources: str) -> NotebookNode:
    return new_notebook(cells=[new_code_cell(source) for source in sources])


@pytest.fixture(scope="module")
def executed(course: Course, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The executed notebook of the course's step, which got its points."""
    said, target = [], tmp_path_factory.mktemp("solutions")
    before = course.source(STEP).read_bytes()
    solve(course, [STEP], target, said.append)
    assert said[0].endswith("5 of 5 points") and course.source(STEP).read_bytes() == before
    assert not (target / STEP / UNFINISHED).exists()
    return target / STEP / f"{STEP}.ipynb"


def _refused(capsys: pytest.CaptureFixture[str], **options: Any) -> str:
    """Return the line that the command says."""
    with pytest.raises(SystemExit, match="2"):
        solving.main(**options)
    out, line = capsys.readouterr()
    assert out == "" and line.startswith("error: ") and line.count("\n") == 1
    return line


def test_readers_get_what_tensorrt_10_says(
    bare: Course, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(bare.root)
    monkeypatch.setattr(solving, "API", 11)
    assert re.search("readers get what TensorRT 10 says, and TensorRT .* unset TRT_LAB_API", _refused(capsys))


def test_a_step_that_is_not_there_is_named_with_those_that_are(
    bare: Course, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(bare.root)
    assert f"there is no step '4'; the steps are {STEP}" in _refused(capsys, step=["4"])


@pytest.mark.parametrize(
    "command", [partial(solving.main, step=[STEP]), partial(classroom.main, out=Path("results", "submitted"))]
)
def test_where_nothing_can_be_written_one_line_says_so(
    bare: Course, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: Callable[[], None]
) -> None:
    monkeypatch.chdir(bare.root)
    Path("results").touch()
    with pytest.raises(SystemExit, match="2"):
        command()
    assert re.fullmatch("error: .*results.*\n", capsys.readouterr().err)


@pytest.mark.parametrize(("course_model", "refused"), [("resnet18", False), ("resnet50", True)])
def test_readers_get_the_model_of_the_course(
    bare: Course, monkeypatch: pytest.MonkeyPatch, course_model: str, refused: bool
) -> None:
    monkeypatch.setattr(solving, "MODEL", "resnet18")
    monkeypatch.setattr(solving, "COURSE_MODEL", course_model)
    with pytest.raises(InputError, match="readers get resnet50 at full settings") if refused else nullcontext():
        assert solving._chosen(bare, [STEP], keep=True) == [STEP]


def test_readers_see_the_source_and_nothing_of_what_decides_points(executed: Path) -> None:
    cells = nbformat.read(executed, as_version=4).cells
    assert [cell.source for cell in cells] == [cell.source for cell in source_notebook().cells]
    assert cells[-1].outputs[0].text == "a demonstration\n"
    counts = [cell.execution_count for cell in cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))


def test_readers_get_no_widget_whose_kernel_is_gone(tmp_path: Path) -> None:
    widget = {"text/plain": "moves", "application/vnd.jupyter.widget-view+json": {"model_id": "gone"}}
    source = f"from IPython.display import display\nprint('stays')\ndisplay({widget}, raw=True)"
    nbformat.write(_of(source), tmp_path / "moving.ipynb")
    outputs = execute(tmp_path / "moving.ipynb", tmp_path / "artifacts", {})[0].cells[0].outputs
    assert [output.output_type for output in outputs] == ["stream"] and outputs[0].text == "stays\n"


def test_an_output_of_other_code_is_found_by_its_cell(course: Course, executed: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(executed, as_version=4)
    assert outdated(_course_with(course, tmp_path, **{STEP: notebook})) == []
    notebook.cells[0].source += " and their texts"
    notebook.cells[1].source += "\nimport json"
    assert outdated(_course_with(course, tmp_path, **{STEP: notebook})) == [f"{STEP}: other code ran in cells 2"]


def test_a_solution_without_all_its_points_is_an_error(course: Course, tmp_path: Path) -> None:
    wrong = code_of(solved(source_notebook()), "cube", "def cube(x):\n    return 1")
    with pytest.raises(EngineError, match=f"{STEP} got 3 of 5 points"):
        solve(_course_with(course, tmp_path, **{STEP: wrong}), [STEP], tmp_path / "results", lambda line: None)


def test_what_a_solution_can_get_is_what_the_course_gives_and_readers_get_the_lab_s_points(
    course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("solutions.grading.course.TERM", Term(points={"export_model": 4.5}))
    notebook, earned, worth = execute(course.source(STEP), tmp_path / "artifacts", {}, course.claims)
    labels = [cell.metadata.nbgrader for cell in notebook.cells if "nbgrader" in cell.metadata]
    assert (earned, worth) == (5, 6.5)
    assert [label.points for label in labels if label.grade_id == "export_model"] == [3]


def test_what_ran_is_written_after_each_cell_and_kept_where_one_fails(tmp_path: Path) -> None:
    where = tmp_path / "failing" / UNFINISHED
    look = f"import nbformat\nprint([cell.execution_count for cell in nbformat.read({str(where)!r}, 4).cells])"
    notebook = _of("first = 1", f"{look}\nraise ZeroDivisionError('at the end')")
    nbformat.write(notebook, tmp_path / "failing.ipynb")
    with pytest.raises(EngineError, match=f"failing.ipynb, cell 2 .*at the end; what ran is in {where}"):
        execute(tmp_path / "failing.ipynb", tmp_path / "artifacts", {})
    kept = nbformat.read(where, as_version=4).cells
    assert [cell.source for cell in kept] == [cell.source for cell in notebook.cells]
    assert [output.output_type for output in kept[1].outputs] == ["stream", "error"]
    assert kept[1].outputs[0].text == "[1, None]\n"


@pytest.mark.slow
def test_a_step_gets_what_this_run_made_and_is_lent_the_rest(
    course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lend(reference: Reference, folder: Path, *, name: str) -> None:
        (folder / name).write_text("lent")

    later, given = "12_layer_profiling", "from helpers.course.artifacts import artifact_path\n"
    needed = BY_NAME[later].needs
    stages = [Stage((name,), (), partial(lend, name=name)) for name in needed]
    monkeypatch.setattr(workspace, "reference", lambda: Reference(tmp_path / "reference", stages, ""))
    several = _course_with(
        course,
        tmp_path,
        **{
            STEP: _of(f"{given}artifact_path({ONNX_FILE!r}).write_text('made here')"),
            later: _of(f"{given}for name in {needed}:\n    print(artifact_path(name).read_text())"),
            "15_llm": _of("1"),
        },
    )
    said: list[str] = []
    solve(several, list(several.steps), tmp_path / "results", said.append)
    seen = nbformat.read(tmp_path / "results" / later / f"{later}.ipynb", as_version=4)
    assert seen.cells[0].outputs[0].text == "made here\n" + "lent\n" * (len(needed) - 1)
    lent = [line for line in said if "the reference's, since" in line]
    assert [line.split()[1] for line in lent] == [f"{name}:" for name in needed if name != ONNX_FILE]
    assert lent[0].startswith(later) and lent[0].endswith("03_dynamic's is missing")
