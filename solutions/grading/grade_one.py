"""`trtlab grade-one NOTEBOOK`: grades one notebook and prints its points and messages as JSON.

It exits with 0 if the notebook was graded, with 1 if that gave fewer points than --at-least, which is what a GitHub
Classroom test asks, and with 2 and a line on stderr if it could not be graded.
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from helpers.course.handout import cell_name, read_notebook
from helpers.course.steps import BY_NAME, CELLS, GRADED
from helpers.tools.signals import clean_ends
from solutions.grading.course import Course
from solutions.grading.grade import grade_class
from solutions.grading.gradebook import made_ready
from solutions.grading.layout import ROOT, records_of
from solutions.grading.outcome import usable_record
from solutions.grading.run import one_line_a_fault
from solutions.grading.step_record import StepRecord
from solutions.grading.submissions import find_submissions
from solutions.grading.untrusted.limits import check_notebook_file
from solutions.sandbox import chosen
from trtcpu.errors import InputError

_STUDENT = "student"


def step_of(path: Path) -> str:
    """Return the step of a notebook: the one that most of its graded cells belong to.

    Raises:
        InputError: it has no graded cell of the lab, or cannot be read.
    """
    check_notebook_file(path)
    names = map(cell_name, read_notebook(path).cells)
    found = [CELLS[name].step for name in names if name in CELLS and CELLS[name].step in GRADED]
    if not found:
        raise InputError(f"{path} has no graded cell of the lab: is it one of {', '.join(GRADED)}?")
    return max(dict.fromkeys(found), key=found.count)


def grade_one(path: Path, step: str, *, unsafe: bool = False, seed: int | None = None) -> dict[str, Any]:
    """Grade a notebook in a course of its own, which is removed afterwards.

    Returns:
        The step's points and maximum; each cell with its points and the claims that lost some; notes.

    Raises:
        InputError: the notebook was refused; the message says why.
    """
    with _course(path, step) as course:
        made_ready(course)
        chosen(unsafe)
        course.config.GradeExecute.unsafe = unsafe
        result = grade_class(course, find_submissions(course, [step]), [step], lambda *_: None, seed=seed)
        [row] = result.students
        record = StepRecord.known(course.autograded(_STUDENT), _STUDENT, step)
        if not record.cells:
            raise InputError("; ".join(row.notes))
        cells = [_cell(course, name, record) for name in record.cells if name in CELLS]
        return {
            "step": step,
            "points": row.steps[step],
            "maximum": BY_NAME[step].points,
            "cells": cells,
            "notes": row.notes,
        }


@contextmanager
def _course(path: Path, step: str) -> Iterator[Course]:
    with tempfile.TemporaryDirectory(prefix="trt-lab-") as folder:
        root = Path(folder)
        submitted = root / "submitted" / _STUDENT / step / f"{step}.ipynb"
        submitted.parent.mkdir(parents=True)
        shutil.copyfile(path, submitted)
        (root / "solutions").symlink_to(ROOT / "solutions")
        course = Course.at(root, ROOT)
        course.config.CourseDirectory.db_url = f"sqlite:///{root}/gradebook.db"
        course.steps = (step,)
        yield course


def _cell(course: Course, name: str, record: StepRecord) -> dict[str, Any]:
    """Return what is said of a graded cell; its points are None while a person still has to give them."""
    grade = record.cells[name]
    found, _ = usable_record(records_of(course.autograded(_STUDENT)) / f"{name}.json")
    lost = [one for one in found.results if one.earned < one.points] if found else []
    return {
        "cell": name,
        "title": CELLS[name].title,
        "points": None if grade.pending else grade.score,
        "maximum": grade.points,
        "lost": [
            {"claim": one.title, "points": round(one.points - one.earned, 2), **(one.missed or {"found": one.evidence})}
            for one in lost
        ],
    }


def main(
    notebook: Annotated[Path, typer.Argument(help="The submitted notebook.")],
    step: Annotated[str, typer.Option(help="Its step, such as 02_fp16. Default: the notebook's own.")] = "",
    at_least: Annotated[float, typer.Option(help="Exit with code 1 below this many points.")] = 0.0,
    seed: Annotated[int | None, typer.Option(help="Use the inputs of this seed.")] = None,
    unsafe: Annotated[bool, typer.Option("--unsafe-no-sandbox", help="Without a sandbox if none works here.")] = False,
) -> None:
    """Grade one notebook; print its points and messages as JSON."""
    with one_line_a_fault():
        if not notebook.is_file():
            raise InputError(f"there is no notebook {notebook}")
        if step and step not in GRADED:
            raise InputError(f"there is no step {step!r}; the steps are {', '.join(GRADED)}")
        graded = grade_one(notebook, step or step_of(notebook), unsafe=unsafe, seed=seed)
    print(json.dumps(graded, indent=2, ensure_ascii=False))
    if graded["points"] < at_least:
        sys.exit(1)


if __name__ == "__main__":
    with clean_ends():
        typer.run(main)
