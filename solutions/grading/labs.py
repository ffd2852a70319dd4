"""`python -m solutions.grading.labs`: makes the students' notebooks in labs/ from those in solutions/.

The same sources give the same bytes. Answers, hidden tests, marking schemes and outputs are gone, or nothing is
written. A notebook that somebody worked in is kept in labs/.kept/, and files that are none of ours stay where they are.
"""

import re
import sys
import tempfile
from pathlib import Path

import nbformat
import typer
from nbformat import NotebookNode

from helpers.errors import InputError, LabError
from helpers.files import atomic_write
from helpers.handout import as_handed_out, keep, mark, read_notebook
from helpers.lab import STEPS
from solutions.grading.course import Course

__all__ = ["make_labs"]

_SECRET = re.compile(r"(BEGIN|END) (SOLUTION|HIDDEN TESTS|MARK SCHEME)|solutions\.(checks|pipeline|grading)")


def make_labs(course: Course, target: Path) -> tuple[list[str], list[Path]]:
    """Write every step that is present to `target`/<step>/ and remove steps that are gone.

    Returns:
        The steps, and where notebooks were kept that somebody had worked in.

    Raises:
        InputError: a step could not be made, would show what students must not see, or what lies there is no notebook.
    """
    steps = course.present
    places = {step: target / step / f"{step}.ipynb" for step in STEPS}
    worked_in = [path for path in places.values() if path.is_file() and not as_handed_out(read_notebook(path))]
    with tempfile.TemporaryDirectory() as made:
        for step in steps:
            course.generate(step, Path(made))
        notebooks = {step: _marked(Path(made) / step / f"{step}.ipynb") for step in steps}
    kept = [keep(path, target) for path in worked_in]
    for step, path in places.items():
        if step in steps:
            atomic_write(path, notebooks[step])
        else:
            path.unlink(missing_ok=True)
    return steps, kept


def _marked(path: Path) -> str:
    """Return the generated notebook with its mark, as text."""
    notebook = nbformat.read(path, as_version=4)
    _check(notebook, path.name)
    mark(notebook)
    return nbformat.writes(notebook) + "\n"


def _check(notebook: NotebookNode, name: str) -> None:
    for number, cell in enumerate(notebook.cells, 1):
        if found := _SECRET.search(cell.source):
            raise InputError(f"{name}, cell {number}, would hand out {found[0]!r}; mark it as solution or hidden")
        if cell.get("outputs"):
            raise InputError(f"{name}, cell {number}, would hand out its outputs")


def main() -> None:
    """Make labs/ of the course in the current folder."""
    try:
        steps, kept = make_labs(Course.at("."), Path("labs"))
    except LabError as error:
        sys.exit(f"error: {error}")
    print(f"labs/: {', '.join(steps)}")
    for path in kept:
        print(f"somebody had worked in {path.name}; as it was: {path}")


if __name__ == "__main__":
    typer.run(main)
