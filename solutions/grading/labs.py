"""`python -m solutions.grading.labs`: makes the students' notebooks in labs/ from those in solutions/.

The same sources give the same bytes. Answers, hidden tests, marking schemes and outputs are gone, or nothing is
written.
"""

import re
import shutil
import sys
import tempfile
from pathlib import Path

import nbformat
import typer

from helpers.errors import InputError, LabError
from helpers.lab import STEPS
from solutions.grading.course import Course

__all__ = ["make_labs"]

_SECRET = re.compile(r"(BEGIN|END) (SOLUTION|HIDDEN TESTS|MARK SCHEME)|solutions\.(checks|pipeline|grading)")


def make_labs(course: Course, target: Path) -> list[str]:
    """Write every step that is present to `target`/<step>/ and remove steps that are gone; return the steps.

    Raises:
        InputError: a step could not be made, or would show what students must not see.
    """
    target.mkdir(parents=True, exist_ok=True)
    steps = course.present
    with tempfile.TemporaryDirectory(dir=target, prefix=".making-") as temporary:
        made = Path(temporary)
        for step in steps:
            course.generate(step, made)
            _check(made / step / f"{step}.ipynb")
        for step in STEPS:
            shutil.rmtree(target / step, ignore_errors=True)
            if step in steps:
                (made / step).rename(target / step)
    return steps


def _check(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    for number, cell in enumerate(notebook.cells, 1):
        if found := _SECRET.search(cell.source):
            raise InputError(f"{path.name}, cell {number}, would hand out {found[0]!r}; mark it as solution or hidden")
        if cell.get("outputs"):
            raise InputError(f"{path.name}, cell {number}, would hand out its outputs")


def main() -> None:
    """Make labs/ of the course in the current folder."""
    try:
        steps = make_labs(Course.at("."), Path("labs"))
    except LabError as error:
        sys.exit(f"error: {error}")
    print(f"labs/: {', '.join(steps)}")


if __name__ == "__main__":
    typer.run(main)
