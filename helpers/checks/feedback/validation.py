"""`feedback.validate()`: runs the notebook in a new kernel, as nbgrader's Validate button does."""

import importlib
import json
import os
import sys
import tempfile
from contextlib import suppress
from copy import deepcopy
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from helpers.checks.card import Card, Line, show
from helpers.checks.missed import Missed
from helpers.course.handout import cell_name, read_notebook
from helpers.course.labels import progress
from helpers.course.steps import NOTEBOOKS
from helpers.tools.files import atomic_write
from trtcpu.errors import InputError

_CELL_SECONDS = 1800


def validated(notebook: str | None) -> None:
    """Implement `feedback.validate`."""
    colab = importlib.import_module("google.colab") if notebook is None and "google.colab" in sys.modules else None
    path = None if colab else _found(notebook)
    content = _open_in_colab() if path is None else read_notebook(path)
    step = _step_of(content)
    show(_judged(content, f"Validate {step or 'this notebook'}", path.parent if path else Path()))
    if path is None:
        name = f"{step or 'notebook'}.ipynb"
        atomic_write(name, nbformat.writes(content))
        colab.files.download(name)
    else:
        print(f"To hand in: {path.resolve()}")


def _judged(content: NotebookNode, title: str, folder: Path) -> Card:
    executed, ended = deepcopy(content), set[int]()
    code = {index: cell for index, cell in enumerate(executed.cells) if cell.cell_type == "code"}
    for cell in code.values():
        cell.outputs, cell.execution_count = [], None
    shown = iter(progress(code, "validating", unit="cell"))

    def _next(cell_index: int, **_: object) -> None:
        ended.add(cell_index)
        next(shown, None)

    client = NotebookClient(
        executed,
        timeout=_CELL_SECONDS,
        kernel_name="python3",
        allow_errors=True,
        resources={"metadata": {"path": folder}},
        on_cell_executed=_next,
    )
    search = os.pathsep.join([str(Path(__file__).resolve().parents[3]), os.environ.get("PYTHONPATH", "")])
    with suppress(DeadKernelError, CellTimeoutError):  # unfinished cells say so in their lines
        client.execute(env={**os.environ, "PYTHONPATH": search.rstrip(os.pathsep), "NBGRADER_EXECUTION": "validate"})
    list(shown)
    tests = {index: cell for index, cell in code.items() if cell.metadata.get("nbgrader", {}).get("grade")}
    return Card(title, [_line(cell, index in ended) for index, cell in tests.items()])


def _line(cell: NotebookNode, ended: bool) -> Line:
    name = cell_name(cell)
    failed = next((output for output in cell.outputs if output.output_type == "error"), None)
    if ended and failed is None:
        return Line(True, name)
    if not ended:
        found = f"the kernel died, or a cell took more than {_CELL_SECONDS // 60} minutes"
        advice = "restart the kernel and run the cells one by one to find the one that does not finish"
        return Line(False, name, missed=Missed(f"the cell {name} to finish", found, advice))
    first, *rest = (failed.evalue or failed.ename).strip().splitlines()
    missed = Missed(f"the cell {name} to run without an error", f"{failed.ename}: {first}", "\n".join(rest[:12]))
    return Line(False, name, missed=missed)


def _found(notebook: str | None) -> Path:
    if notebook is not None:
        return Path(notebook)
    if named := os.environ.get("JPY_SESSION_NAME"):
        return Path(named)
    steps = [path for name in NOTEBOOKS if (path := Path(f"{name}.ipynb")).is_file()]
    if len(steps) != 1:
        there = ", ".join(path.name for path in steps) or "no step's notebook"
        raise InputError(f"which notebook? This folder has {there}; name one: feedback.validate('01_export.ipynb')")
    return steps[0]


def _open_in_colab() -> NotebookNode:
    message = importlib.import_module("google.colab._message")
    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder) / "notebook.ipynb").write_text(
            json.dumps(message.blocking_request("get_ipynb", timeout_sec=60)["ipynb"])
        )
        return read_notebook(path)


def _step_of(content: NotebookNode) -> str:
    """Return the step whose number is in the notebook's title."""
    title = content.cells[0].source.splitlines()[0] if content.cells else ""
    return next((step for step in NOTEBOOKS if title.startswith(f"# Step {int(step[:2])} ")), "")
