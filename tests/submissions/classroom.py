"""Writes three submissions as students hand them in: complete, empty, and half-done with two known mistakes.

    python -m tests.submissions.classroom --out submitted

They are the labs' notebooks with TODO cells filled from the solutions, so `make labs` must have been run.
"""

from pathlib import Path
from typing import Annotated

import nbformat
import typer

from helpers.course.steps import GRADED, STEPS
from helpers.tools.files import atomic_write
from solutions.grading.run import one_line_a_fault
from tests.submissions.bank import ROOT, Entry, load_bank, patched_cells

HALF_DONE = {"02_fp16": "flag_forgotten", "04_int8": "no_normalisation"}
"""The half-done student's mistakes, as the bank names them; steps 1 to 4 are filled, 5 to 8 are not."""

STUDENTS = ("complete", "empty", "half_done")


def write_classroom(folder: str | Path) -> None:
    """Write `folder`/STUDENT/STEP/STEP.ipynb for each student and step; optional steps for the complete one alone."""
    bank = {entry.title: entry for entry in load_bank(extremes=False)}
    for index, step in enumerate(GRADED):
        solution = Entry(step, "solution", "solution")
        mistake = bank[f"{step}/{HALF_DONE[step]}"] if step in HALF_DONE else solution
        for student, entry in (
            ("complete", solution),
            ("empty", None),
            ("half_done", mistake if index < len(STEPS) // 2 else None),
        ):
            if step not in STEPS and student != "complete":
                continue
            target = Path(folder) / student / step / f"{step}.ipynb"
            atomic_write(target, nbformat.writes(handed_in(step, entry)) + "\n")


def handed_in(step: str, entry: Entry | None) -> nbformat.NotebookNode:
    """Return the student's notebook of a step, its TODO cells filled as in the entry (None: left as they are)."""
    notebook = nbformat.read(ROOT / "labs" / step / f"{step}.ipynb", as_version=4)
    if entry is None:
        return notebook
    source = nbformat.read(ROOT / "solutions" / step / f"{step}.ipynb", as_version=4)
    filled = {_grade_id(cell): cell.source for cell in source.cells if _grade_id(cell)}
    filled |= {_grade_id(cell): cell.source for cell in patched_cells(entry) if _grade_id(cell)}
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = filled[_grade_id(cell)]
    return notebook


def _grade_id(cell: nbformat.NotebookNode) -> str | None:
    return cell.metadata.get("nbgrader", {}).get("grade_id")


def main(
    out: Annotated[Path, typer.Option(help="Where the folders are written.")] = Path("submitted"),
) -> None:
    """Write the three submissions."""
    with one_line_a_fault() as (_, say):
        write_classroom(out)
        say(f"{', '.join(STUDENTS)} in {out}")


if __name__ == "__main__":
    typer.run(main)
