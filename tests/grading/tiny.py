"""A course that is graded in seconds: one step, two test cells whose claims are a square and a cube.

Its `main` is a judge that stands in for solutions.grading.judge.lab: it writes records of the same form, without
engines, with the run's seed as what they saw. `grade_tiny` stands in for grade_cell, where our own notebooks are
executed. CONFIG names both.
"""

import json
from copy import deepcopy
from multiprocessing.connection import Connection
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from helpers.checks.missed import Missed
from helpers.checks.probes.student import Student
from solutions.checks.core.record import record_path
from solutions.checks.core.seed import fresh_seed
from solutions.grading.judge.process import Asked, judge

STEP, POINTS = "01_export", {"export_model": 3.0, "simplify_model": 2.0}
_CLAIMS = {
    "export_model": [("square.two", "square", 2, 4, 2.0), ("square.three", "square", 3, 9, 1.0)],
    "simplify_model": [("cube.two", "cube", 2, 8, 2.0)],
}
CONFIG = """
c.GradeExecute.judge = "tests.grading.tiny"
c.GradeExecute.imports = ""
c.GradeExecute.unsafe = True  # only where no sandbox works
c.Solve.claims = "from tests.grading.tiny import grade_tiny\\n\\ngrade_tiny({cell!r}, globals())"
"""
ANSWERS = {"square": "    return x * x", "cube": "    return x ** 3"}
WHY = "A square is never negative."
"""The answer to a question to think about, which students do not get."""


def main(line: Connection) -> None:
    """Decide what is asked over `line`."""
    judge(line, _prepare, _decide)


def _prepare(asked: Asked) -> dict[str, Any]:
    return {"notes": ["model.onnx: yours"], "environment": {}, "needs": [], "gpu": False}


def grade_tiny(cell: str, namespace: dict) -> float:
    """Decide a cell of a notebook of our own in its kernel; return the points."""
    return _decide(cell, Student.in_process(namespace), "none")


def _decide(cell: str, student: Student, sandbox: str) -> float:
    """Decide the cell's claims on the student's functions, write the record after each, and return the points."""
    record = {"cell": cell, "step": STEP, "criterion": "correctness", "engine": "none", "points": POINTS[cell]}
    record["sandbox"], results = sandbox, []
    for name, function, argument, expected, points in _CLAIMS[cell]:
        missed = Missed(str(expected), "something else", "multiply")
        try:
            kept = student.call("called", name=function, argument=argument).value == expected
        except Missed as found:
            kept, missed = False, found
        said = None if kept else {"expected": missed.expected, "found": missed.found, "try_this": missed.try_this}
        result = {"claim": name, "title": name, "points": points, "earned": points * kept, "missed": said}
        results.append({**result, "status": "kept" if kept else "lost", "seconds": 0.0})
        results[-1]["evidence"] = str(fresh_seed())
        earned = sum(done["earned"] for done in results)
        path = record_path(cell)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**record, "results": results, "earned": earned}))
    return earned


def source_notebook() -> NotebookNode:
    """Return the solution notebook: two TODOs, a test cell for each, an answer, a demonstration that nothing needs."""
    cells = [new_markdown_cell("# Two functions"), new_code_cell("import math")]
    for function, cell in zip(ANSWERS, POINTS, strict=True):
        code = f"def {function}(x):\n    ### BEGIN SOLUTION\n{ANSWERS[function]}\n    ### END SOLUTION"
        cells.append(new_code_cell(code, metadata=label(f"{function}_todo", solution=True)))
        visible = f"assert {function}(1) == 1" + " == square(1)" * (function != "square")
        cells.append(new_code_cell(visible, metadata=label(cell, points=POINTS[cell])))
    cells.append(new_markdown_cell(WHY, metadata={"tags": ["answers"]}))
    cells.append(new_code_cell('print("a demonstration")', metadata={"tags": ["explore"]}))
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel})


def label(name: str, *, points: float | None = None, solution: bool = False) -> dict:
    """Return the metadata of a cell that nbgrader knows."""
    about = {"grade_id": name, "grade": points is not None, "solution": solution, "locked": not solution}
    worth = {} if points is None else {"points": points}
    return {"nbgrader": {**about, **worth, "task": False, "schema_version": 3}}


def solved(lab: NotebookNode, *functions: str) -> NotebookNode:
    """Return a student's notebook with these functions written; all of them where none is named."""
    for function in functions or ANSWERS:
        lab = code_of(lab, function, f"def {function}(x):\n{ANSWERS[function]}")
    return lab


def index_of(notebook: NotebookNode, name: str) -> int:
    """Return the index of the cell labelled `name`."""
    return [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in notebook.cells].index(name)


def code_of(notebook: NotebookNode, function: str, code: str) -> NotebookNode:
    """Return the notebook with `code` in the TODO cell of `function`."""
    notebook = deepcopy(notebook)
    notebook.cells[index_of(notebook, f"{function}_todo")].source = code
    return notebook
