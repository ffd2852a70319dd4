"""`python -m solutions.grading.solve`: executes the solution notebooks in order, from clean, into results/solutions/.

With --keep the executed notebooks replace those of solutions/, whose outputs readers see. If a notebook fails or is
stopped, its partial output is in the step's folder under results/solutions/.
"""

import datetime
import os
import platform
import shutil
import time
from collections.abc import Callable
from copy import deepcopy
from importlib.metadata import version
from pathlib import Path
from subprocess import DEVNULL
from typing import Annotated

import nbformat
import typer
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, DeadKernelError
from nbconvert.preprocessors import ClearOutputPreprocessor
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from helpers.course.settings import COURSE_MODEL, MODEL, QUICK
from helpers.course.steps import ARTIFACTS
from helpers.engine.backend import API, DEVICE, ENGINE, trt
from helpers.tools.files import atomic_write
from solutions.checks.trusted.reference import offered_environment
from solutions.checks.trusted.workspace import prepare
from solutions.grading.course import Course, with_points
from solutions.grading.labs import ABOUT, digest
from solutions.grading.layout import ROOT
from solutions.grading.outcome import CLAIMS, is_test_cell
from solutions.grading.run import one_line_a_fault
from trtcpu.errors import EngineError, InputError

RESULTS = Path("results/solutions")

# What ran of a notebook, in the step's folder while it runs; it stays if the notebook did not reach its end.
UNFINISHED = "unfinished.ipynb"

CELL_SECONDS = 900
_KEPT = ("nbgrader", "tags", "deletable", "editable", "jupyter")
_PACKAGES = ("torch", "torchvision", "onnx", "onnxruntime", "numpy")
_WIDGET = "application/vnd.jupyter.widget-view+json"


def solve(course: Course, steps: list[str], target: Path, say: Callable[[str], None]) -> None:
    """Execute `steps` in order and write each to `target`/<step>/.

    The steps share `target`/artifacts; if these are all steps, it is removed first, so that every file is made anew.
    What a step needs of one that is not executed before it may lie there; if it does not, the reference's is lent.

    Raises:
        EngineError: a cell failed, or a solution did not get its points; the message names step and cell.
    """
    artifacts, short = target / "artifacts", []
    if steps == course.present:
        shutil.rmtree(target, ignore_errors=True)
    for number, step in enumerate(steps):
        made = [name for name, maker in ARTIFACTS.items() if maker in steps[:number]]
        for note in prepare(step, artifacts, given=made):
            if not note.endswith(": yours"):
                say(f"{step:<13} {note}")
        begun = time.perf_counter()
        notebook, earned, worth = execute(course.source(step), artifacts, offered_environment([step]), course.claims)
        atomic_write(target / step / f"{step}.ipynb", nbformat.writes(notebook) + "\n")
        (target / step / UNFINISHED).unlink()
        say(f"{step:<13} {time.perf_counter() - begun:6.1f} s   {earned:g} of {worth:g} points")
        if earned < worth:
            short.append(f"{step} got {earned:g} of {worth:g} points")
    if short:
        raise EngineError(f"the solutions must get all points: {'; '.join(short)}; see {target}/records/")


def execute(
    path: Path, artifacts: Path, environment: dict[str, str], claims: str = CLAIMS
) -> tuple[NotebookNode, float, float]:
    """Execute a notebook from the start in a kernel of its own, in its own folder; records go beside `artifacts`.

    What decides points runs after each test cell, and is not in the result. What differs from run to run without
    meaning (times of execution) is left out. After each cell what ran so far is written to <step>/unfinished.ipynb
    beside `artifacts`.

    Returns:
        The executed notebook, the points that it got, and what they could have been.

    Raises:
        EngineError: a cell raised, ran too long or ended the kernel; the message names the cell, and that file.
    """
    notebook, unfinished = nbformat.read(path, as_version=4), artifacts.parent / path.stem / UNFINISHED
    ClearOutputPreprocessor().preprocess(notebook, {})
    client = _client(notebook, path.parent)
    place = f"from helpers.course.artifacts import use_artifacts\n\nuse_artifacts({str(artifacts.resolve())!r})"
    search = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    earned, environment = 0.0, {**os.environ, "PYTHONPATH": search, **environment}
    with client.setup_kernel(env=environment, stdout=DEVNULL, stderr=DEVNULL):  # its warnings are not the lab's
        client.execute_cell(new_code_cell(place), -1, store_history=False)
        for number, cell in enumerate(notebook.cells, 1):
            try:
                client.execute_cell(cell, number - 1)
                earned += _decided(client, cell, claims) if is_test_cell(cell) else 0.0
            except (CellControlSignal, DeadKernelError) as error:
                where = f"{path.name}, cell {number} ({cell.source.splitlines()[0][:60]!r})"
                said = str(error).strip().splitlines()[-1]
                raise EngineError(f"{where}: {said}; what ran is in {unfinished}") from error
            finally:  # a run that is killed then loses one cell
                atomic_write(unfinished, nbformat.writes(notebook) + "\n")
    _tidy(notebook)
    cells = with_points(deepcopy(notebook)).cells
    worth = sum(cell.metadata.nbgrader.points for cell in cells if is_test_cell(cell))
    return notebook, round(earned, 2), round(worth, 2)


def _client(notebook: NotebookNode, folder: Path) -> NotebookClient:
    """Return what executes the notebook's cells in `folder`, and as its last one what is none of theirs."""
    return NotebookClient(
        NotebookNode(notebook, cells=[*notebook.cells, new_code_cell()]),
        timeout=CELL_SECONDS,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    )


def _decided(client: NotebookClient, cell: NotebookNode, claims: str) -> float:
    """Return the points of a test cell that has just run."""
    asked = new_code_cell(claims.format(cell=cell.metadata.nbgrader.grade_id))
    outputs = client.execute_cell(asked, -1, store_history=False).outputs
    return sum(float(output.data["text/plain"]) for output in outputs if output.output_type == "execute_result")


def _tidy(notebook: NotebookNode) -> None:
    """Leave the metadata that readers need, and no widgets: they are nothing without their kernel.

    New in it: which code the outputs are of, where and when it ran.
    """
    for cell in notebook.cells:
        cell.metadata = NotebookNode({key: value for key, value in cell.metadata.items() if key in _KEPT})
        if cell.cell_type == "code":
            cell.metadata[ABOUT] = {"executed": digest(cell)}
            cell.outputs = [output for output in cell.outputs if _WIDGET not in output.get("data", {})]
    engine = {"tensorrt": trt.__version__} if ENGINE == "tensorrt" else {"openvino": version("openvino")}
    versions = {"python": platform.python_version(), **engine, **{name: version(name) for name in _PACKAGES}}
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    kept = {key: value for key, value in notebook.metadata.items() if key == "kernelspec"}
    kept[ABOUT] = {"device": DEVICE, "date": today, "versions": versions}
    notebook.metadata = NotebookNode(kept, language_info={"name": "python", "pygments_lexer": "ipython3"})


def main(
    step: Annotated[
        list[str] | None, typer.Option(help="Only this step, with the artifacts of earlier steps provided.")
    ] = None,
    keep: Annotated[bool, typer.Option(help="Replace the notebooks in solutions/ with the executed ones.")] = False,
) -> None:
    """Execute the solution notebooks of the course in the current folder into results/solutions/."""
    started = time.perf_counter()
    with one_line_a_fault() as (_, say):
        course = Course.at(".")
        steps = _chosen(course, step or course.present, keep)
        solve(course, steps, RESULTS, say)
        for name in steps if keep else []:
            atomic_write(course.source(name), (RESULTS / name / f"{name}.ipynb").read_bytes())
        minutes = (time.perf_counter() - started) / 60
        say(f"{len(steps)} notebooks in {minutes:.1f} minutes → {'solutions' if keep else RESULTS}/")


def _chosen(course: Course, asked: list[str], keep: bool) -> list[str]:
    """Return the steps that were asked for in order.

    Raises:
        InputError: there is no such step, or readers get other outputs than they would have here.
    """
    if API != 10:
        found = f"TensorRT {trt.__version__} is here; unset TRT_LAB_API, or install TensorRT 10"
        raise InputError(f"readers get what TensorRT 10 says, and {found}")
    if keep and (MODEL != COURSE_MODEL or QUICK):
        raise InputError(f"readers get {COURSE_MODEL} at full settings; unset TRT_LAB_MODEL and TRT_LAB_QUICK")
    if unknown := [name for name in asked if name not in course.present]:
        raise InputError(f"there is no step {unknown[0]!r}; the steps are {', '.join(course.present)}")
    return [name for name in course.present if name in asked]


if __name__ == "__main__":
    typer.run(main)
