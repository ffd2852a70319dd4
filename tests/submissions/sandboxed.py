"""Runs one entry as a class is graded: in a sandboxed kernel, decided by a judge."""

import os
from pathlib import Path
from typing import Any

from nbformat.v4 import new_notebook

from solutions.grading.execute import GradeExecute
from solutions.grading.layout import course_config, records_of
from tests.submissions.bank import ROOT


def grade(step: str, cells: list[Any], folder: Path, timed: bool) -> tuple[Path, list[str]]:
    """Grade a notebook of these cells; return where its records are, and what its cells raised."""
    home = folder / "student" / step
    home.mkdir(parents=True)
    if not timed:
        os.environ["OMP_NUM_THREADS"] = "1"  # another runs beside it
    notebook = new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    about = {"metadata": {"path": str(home)}, "nbgrader": {"assignment": step}}
    executed, _ = GradeExecute(config=course_config(ROOT)).preprocess(notebook, about)
    outputs = [output for cell in executed.cells for output in cell.get("outputs", [])]
    return records_of(home.parent), [
        f"{output.ename}: {output.evalue}" for output in outputs if output.output_type == "error"
    ]
