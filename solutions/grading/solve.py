"""`python -m solutions.grading.solve`: executes the solution notebooks in order, from clean."""

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import DEVNULL
from typing import Annotated, Any

import nbformat
import typer
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, DeadKernelError
from nbclient.util import run_sync
from nbformat import NotebookNode

from helpers.errors import EngineError, LabError
from helpers.files import atomic_write
from solutions.checks.trusted.reference import offered_environment
from solutions.grading.course import Course
from solutions.grading.layout import ROOT
from solutions.grading.outcome import is_test_cell

__all__ = ["execute", "points_of", "solve"]

CELL_SECONDS = 900
_KEPT_NOTEBOOK = ("kernelspec", "language_info")
_KEPT_CELL = ("nbgrader", "tags", "deletable", "editable", "collapsed", "scrolled", "jupyter")


class _Client(NotebookClient):
    """A kernel whose terminal output goes nowhere: its warnings are not the lab's."""

    async def async_start_new_kernel(self, **kwargs: Any) -> None:
        await super().async_start_new_kernel(stdout=DEVNULL, stderr=DEVNULL, **kwargs)

    start_new_kernel = run_sync(async_start_new_kernel)


def solve(course: Course, steps: list[str], say: Callable[[str], None]) -> float:
    """Execute `steps` in order and replace each notebook by its executed self; return the seconds it took.

    Where these are all steps, the artifacts are removed first, so that every one is made anew.

    Raises:
        EngineError: a cell failed, or a solution did not get its points; the message names step and cell.
    """
    started, short = time.perf_counter(), []
    folder = course.root / course.config.CourseDirectory.source_directory / "artifacts"
    if steps == course.present:
        shutil.rmtree(folder, ignore_errors=True)
    for step in steps:
        begun = time.perf_counter()
        notebook = execute(course.source(step), {"TRT_LAB_RECORDS": str(folder / ".records"), **offered_environment()})
        atomic_write(course.source(step), nbformat.writes(notebook) + "\n")
        earned, worth = points_of(notebook)
        say(f"{step:<13} {time.perf_counter() - begun:6.1f} s   {earned:g} of {worth:g} points")
        if earned < worth:
            short.append(f"{step} got {earned:g} of {worth:g} points")
    if short:
        raise EngineError(f"the solutions must get all points: {'; '.join(short)}; see their test cells' outputs")
    return time.perf_counter() - started


def execute(path: Path, environment: dict[str, str]) -> NotebookNode:
    """Return the notebook executed from the start in a kernel of its own, in its own folder.

    What differs from run to run without meaning (times of execution, versions of Python) is left out.

    Raises:
        EngineError: a cell raised, ran too long or ended the kernel.
    """
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    client = _Client(
        notebook,
        timeout=CELL_SECONDS,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(path.parent)}},
    )
    at = [0]
    client.on_cell_start = lambda cell, cell_index: at.__setitem__(0, cell_index)
    search = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    try:
        client.execute(env={**os.environ, "PYTHONPATH": search, **environment})
    except (CellControlSignal, DeadKernelError) as error:
        said = [line for line in str(error).strip().splitlines() if line.strip()]
        first = notebook.cells[at[0]].source.splitlines()[0][:60]
        reason = said[-1] if said else type(error).__name__
        raise EngineError(f"{path.name}, cell {at[0] + 1} ({first!r}): {reason}") from error
    _tidy(notebook)
    return notebook


def _tidy(notebook: NotebookNode) -> None:
    notebook.metadata = NotebookNode(
        {key: notebook.metadata[key] for key in _KEPT_NOTEBOOK if key in notebook.metadata}
    )
    notebook.metadata["language_info"] = {"name": "python", "pygments_lexer": "ipython3"}
    for cell in notebook.cells:
        cell.metadata = NotebookNode({key: value for key, value in cell.metadata.items() if key in _KEPT_CELL})


def points_of(notebook: NotebookNode) -> tuple[float, float]:
    """Return the points that an executed notebook's test cells show, and what they are worth."""
    earned = worth = 0.0
    for cell in filter(is_test_cell, notebook.cells):
        worth += float(cell.metadata.nbgrader.points)
        results = [output for output in cell.outputs if output.output_type == "execute_result"]
        earned += float(results[-1].data["text/plain"]) if results else 0.0
    return round(earned, 2), worth


def main(
    step: Annotated[list[str] | None, typer.Option(help="Only this step, on the artifacts that are there.")] = None,
) -> None:
    """Execute the solution notebooks of the course in the current folder."""
    course = Course.at(".")
    steps = [name for name in course.present if not step or name in step]
    try:
        seconds = solve(course, steps, lambda line: print(line, flush=True))
    except LabError as error:
        sys.exit(f"error: {error}")
    print(f"{len(steps)} notebooks in {seconds / 60:.1f} minutes")


if __name__ == "__main__":
    typer.run(main)
