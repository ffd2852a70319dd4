"""`python -m solutions.grading.solve`: executes the solution notebooks in order, from clean, into results/solutions/.

With --keep the executed notebooks replace those of solutions/, whose outputs readers see. Of one that fails or is
stopped, what ran lies in the step's folder there.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable, Collection
from copy import deepcopy
from pathlib import Path
from subprocess import DEVNULL
from typing import Annotated, Any

import nbformat
import typer
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, DeadKernelError
from nbclient.util import run_sync
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from helpers.course.settings import LAB_MODEL, MODEL, QUICK
from helpers.course.steps import ARTIFACTS
from helpers.engine.backend import API, trt
from helpers.tools.files import atomic_write
from solutions.checks.trusted.reference import offered_environment
from solutions.checks.trusted.workspace import prepare
from solutions.grading.course import Course
from solutions.grading.executed import stamp
from solutions.grading.layout import ROOT
from solutions.grading.outcome import CLAIMS, is_test_cell
from trtcpu.errors import EngineError, LabError

RESULTS = Path("results/solutions")
UNFINISHED = "unfinished.ipynb"
"""What ran of a notebook, in the step's folder while it runs; it stays where the notebook did not reach its end."""

CELL_SECONDS = 900
_KEPT_NOTEBOOK = ("kernelspec", "language_info")
_CLAIMS_OF = "claims_of"
_WIDGET = "application/vnd.jupyter.widget-view+json"
_KEPT_CELL = ("nbgrader", "tags", "deletable", "editable", "collapsed", "scrolled", "jupyter")


class _Client(NotebookClient):
    """A kernel whose terminal output goes nowhere: its warnings are not the lab's."""

    async def async_start_new_kernel(self, **kwargs: Any) -> None:
        await super().async_start_new_kernel(stdout=DEVNULL, stderr=DEVNULL, **kwargs)

    start_new_kernel = run_sync(async_start_new_kernel)


def solve(course: Course, steps: list[str], target: Path, say: Callable[[str], None]) -> float:
    """Execute `steps` in order, write each to `target`/<step>/ and return the seconds it took.

    The steps share `target`/artifacts; where these are all steps, it is removed first, so that every file is made anew.
    What a step needs of one that is not executed before it may lie there; where it does not, the reference's is lent.

    Raises:
        EngineError: a cell failed, or a solution did not get its points; the message names step and cell.
    """
    started, short = time.perf_counter(), []
    if steps == course.present:
        shutil.rmtree(target, ignore_errors=True)
    made: set[str] = set()
    for step in steps:
        artifacts = _artifacts(step, target, made, say)
        begun = time.perf_counter()
        unfinished = target / step / UNFINISHED
        offered = offered_environment([step])
        notebook, earned, worth = execute(course.source(step), artifacts, offered, course.claims, unfinished)
        atomic_write(target / step / f"{step}.ipynb", nbformat.writes(notebook) + "\n")
        unfinished.unlink(missing_ok=True)
        made |= {name for name, maker in ARTIFACTS.items() if maker == step}
        say(f"{step:<13} {time.perf_counter() - begun:6.1f} s   {earned:g} of {worth:g} points")
        if earned < worth:
            short.append(f"{step} got {earned:g} of {worth:g} points")
    if short:
        raise EngineError(f"the solutions must get all points: {'; '.join(short)}; see {target}/records/")
    return time.perf_counter() - started


def _artifacts(step: str, target: Path, made: Collection[str], say: Callable[[str], None]) -> Path:
    """Put the artifacts that `step` needs in place, say which are lent, and return their folder.

    `made` are those of the steps that were executed before.
    """
    artifacts = target / "artifacts"
    for note in prepare(step, artifacts, given=made):
        if not note.endswith(": yours"):
            say(f"{step:<13} {note}")
    return artifacts


def execute(
    path: Path,
    artifacts: Path,
    environment: dict[str, str],
    claims: str = CLAIMS,
    unfinished: Path | None = None,
) -> tuple[NotebookNode, float, float]:
    """Execute a notebook from the start in a kernel of its own, in its own folder; records go beside `artifacts`.

    What decides points runs after each test cell, and is not in the result. What differs from run to run without
    meaning (times of execution) is left out. After each cell what ran so far is written to `unfinished`.

    Returns:
        The executed notebook, the points that it got, and what they could have been.

    Raises:
        EngineError: a cell raised, ran too long or ended the kernel; the message names the cell, and `unfinished`.
    """
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    _add_claims(notebook, claims, artifacts)
    client = _Client(
        notebook,
        timeout=CELL_SECONDS,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(path.parent)}},
    )
    at = [0]
    client.on_cell_start = lambda cell, cell_index: at.__setitem__(0, cell_index)
    client.on_cell_executed = lambda **_: _keep(notebook, unfinished)
    search = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    try:
        client.execute(env={**os.environ, "PYTHONPATH": search, **environment})
    except (CellControlSignal, DeadKernelError) as error:
        _keep(notebook, unfinished)  # a cell that ran too long has outputs too
        kept = f"; what ran is in {unfinished}" if unfinished else ""
        raise EngineError(f"{path.name}, {_reason(notebook.cells[: at[0] + 1], error)}{kept}") from error
    earned, worth = _take_claims(notebook)
    _tidy(notebook)
    stamp(notebook)
    return notebook, earned, worth


def _reason(ran: list[NotebookNode], error: Exception) -> str:
    """Return the last of the cells that ran, counted as readers see them, and why it ended."""
    said = [line for line in str(error).strip().splitlines() if line.strip()]
    number = sum(_CLAIMS_OF not in cell.metadata for cell in ran)
    return f"cell {number} ({ran[-1].source.splitlines()[0][:60]!r}): {said[-1] if said else type(error).__name__}"


def _keep(notebook: NotebookNode, unfinished: Path | None) -> None:
    """Write what readers would see of a notebook that still runs; a run that is killed then loses one cell."""
    if unfinished is not None:
        seen = deepcopy(notebook)
        _take_claims(seen)
        _tidy(seen)
        atomic_write(unfinished, nbformat.writes(seen) + "\n")


def _tidy(notebook: NotebookNode) -> None:
    notebook.metadata = NotebookNode(
        {key: notebook.metadata[key] for key in _KEPT_NOTEBOOK if key in notebook.metadata}
    )
    notebook.metadata["language_info"] = {"name": "python", "pygments_lexer": "ipython3"}
    for cell in notebook.cells:
        cell.metadata = NotebookNode({key: value for key, value in cell.metadata.items() if key in _KEPT_CELL})
        if cell.cell_type == "code":  # a widget is nothing without its kernel
            cell.outputs = [output for output in cell.outputs if _WIDGET not in output.get("data", {})]


def _add_claims(notebook: NotebookNode, claims: str, artifacts: Path) -> None:
    """Insert a cell that decides its points behind each test cell, and one that says where the artifacts are."""
    place = f"from helpers.course.artifacts import use_artifacts\n\nuse_artifacts({str(artifacts.resolve())!r})"
    cells: list[NotebookNode] = [new_code_cell(place, metadata={_CLAIMS_OF: 0.0})]
    for cell in notebook.cells:
        cells.append(cell)
        if is_test_cell(cell):
            name, points = cell.metadata.nbgrader.grade_id, cell.metadata.nbgrader.points
            cells.append(new_code_cell(claims.format(cell=name), metadata={_CLAIMS_OF: float(points)}))
    notebook.cells = cells


def _take_claims(notebook: NotebookNode) -> tuple[float, float]:
    """Remove the inserted cells; return the points that they gave, and what they could have given."""
    claims = [cell for cell in notebook.cells if _CLAIMS_OF in cell.metadata]
    notebook.cells = [cell for cell in notebook.cells if _CLAIMS_OF not in cell.metadata]
    for number, cell in enumerate((cell for cell in notebook.cells if cell.get("execution_count")), 1):
        cell.execution_count = number
    given = [output for cell in claims for output in cell.outputs if output.output_type == "execute_result"]
    earned = sum(float(output.data["text/plain"]) for output in given)
    return round(earned, 2), sum(cell.metadata[_CLAIMS_OF] for cell in claims)


def main(
    step: Annotated[
        list[str] | None, typer.Option(help="Only this step; what earlier ones did not make is lent.")
    ] = None,
    keep: Annotated[bool, typer.Option(help="Replace the notebooks of solutions/ by those that ran.")] = False,
) -> None:
    """Execute the solution notebooks of the course in the current folder into results/solutions/."""
    if API != 10:
        found = f"TensorRT {trt.__version__} is here"
        sys.exit(f"error: readers get what TensorRT 10 says, and {found}; unset TRT_LAB_API, or install TensorRT 10")
    if keep and (MODEL != LAB_MODEL or QUICK):
        sys.exit(f"error: readers get the lab's {LAB_MODEL} at full settings; unset TRT_LAB_MODEL and TRT_LAB_QUICK")
    course = Course.at(".")
    steps = [name for name in course.present if not step or name in step]
    try:
        seconds = solve(course, steps, RESULTS, lambda line: print(line, flush=True))
    except LabError as error:
        sys.exit(f"error: {error}")
    if keep:
        for name in steps:
            atomic_write(course.source(name), (RESULTS / name / f"{name}.ipynb").read_bytes())
    print(f"{len(steps)} notebooks in {seconds / 60:.1f} minutes → {'solutions' if keep else RESULTS}/")


if __name__ == "__main__":
    typer.run(main)
