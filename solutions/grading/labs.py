"""`python -m solutions.grading.labs`: makes the students' notebooks in labs/ from those in solutions/.

The same sources give the same bytes. Answers, hidden tests, marking schemes and outputs are gone, or nothing is
written; so are the cells tagged "answers", which answer the questions to think about. A notebook that somebody worked
in is kept in labs/.kept/, and files that are none of ours stay where they are.
"""

import re
import sys
import tempfile
from pathlib import Path

import nbformat
import typer
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from helpers.errors import InputError, LabError
from helpers.files import atomic_write
from helpers.handout import as_handed_out, copy_pictures, keep, mark, notebooks, read_notebook
from helpers.lab import START
from solutions.grading.addresses import in_colab, release_address, repository_address
from solutions.grading.course import Course
from solutions.grading.executed import ABOUT
from solutions.grading.layout import ROOT

__all__ = ["ANSWERS", "FIRST_CELL", "hand_out", "make_labs"]

ANSWERS = "answers"
"""The tag of a cell that readers of the solutions see and students do not."""

FIRST_CELL = (
    "# Colab, Kaggle: fetches the lab. Where it is installed this does nothing.\n"
    """if not __import__("importlib.util").util.find_spec("helpers"): lab_release = "{release}"; """
    """exec(__import__("urllib.request").request.urlopen(f"{{lab_release}}/elsewhere.py").read(), """
    """{{"release": lab_release}})"""
)
"""The first code cell of each handed-out notebook; `release` is the address of a release's files."""

_START = Path(__file__).parent / START
_SECRET = re.compile(r"(BEGIN|END) (SOLUTION|HIDDEN TESTS|MARK SCHEME)|solutions\.(checks|pipeline|grading)")


def make_labs(course: Course, target: Path) -> tuple[list[str], Path | None]:
    """Write every step that is present to `target`/<step>/ and remove the notebooks of steps that are gone.

    Returns:
        The steps, and the folder where notebooks are that somebody had worked in; None where there were none.

    Raises:
        InputError: a step could not be made, would show what students must not see, or what lies there is no notebook.
    """
    places = [target / name for name in notebooks()]
    worked_in = [path for path in places if path.is_file() and not as_handed_out(path)]
    with tempfile.TemporaryDirectory() as folder:
        steps = hand_out(course, made := Path(folder))
        kept = keep(worked_in, target)
        for place in places:
            if (new := made / place.relative_to(target)).is_file():
                copy_pictures(new.parent, place.parent)
                atomic_write(place, new.read_bytes())
            else:
                place.unlink(missing_ok=True)
    return steps, kept


def hand_out(course: Course, folder: Path, release: str = release_address(ROOT)) -> list[str]:
    """Write every step that is present to the new folder `folder`/<step>/, marked as handed out; return the steps.

    `release` is the address that a notebook opened alone, as in Colab, gets the lab from.

    Raises:
        InputError: a step could not be made, or would show what students must not see.
    """
    for step in course.present:
        course.generate(step, folder)
        path = folder / step / f"{step}.ipynb"
        notebook = nbformat.read(path, as_version=4)
        notebook.cells = [cell for cell in notebook.cells if ANSWERS not in cell.metadata.get("tags", [])]
        _check(notebook, path.name)
        for cell in notebook.cells:
            cell.metadata.pop(ABOUT, None)
        _open_elsewhere(notebook, f"labs/{step}/{step}.ipynb", release)
        mark(notebook)
        nbformat.write(notebook, path)
    start = read_notebook(_START)
    _open_elsewhere(start, f"labs/{_START.name}", release)
    mark(start)
    nbformat.write(start, folder / _START.name)
    return course.present


def _open_elsewhere(notebook: NotebookNode, path: str, release: str) -> None:
    """Below the title, link the notebook in Colab; behind it, put the cell that fetches the lab where there is none."""
    title, *rest = notebook.cells[0].source.split("\n", 1)
    link = f"[Open in Colab]({in_colab(repository_address(ROOT), path)})"
    notebook.cells[0].source = "\n".join([title, "", link, *rest])
    folded = {"jupyter": {"source_hidden": True}}
    notebook.cells.insert(1, new_code_cell(FIRST_CELL.format(release=release), id="elsewhere", metadata=folded))


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
    if kept:
        print(
            f"somebody had worked in {', '.join(path.stem for path in sorted(kept.iterdir()))}; as they were: {kept}/"
        )


if __name__ == "__main__":
    typer.run(main)
