"""`python -m solutions.grading.labs`: makes the students' notebooks in labs/ from those in solutions/.

It also writes the tables of steps in README.md and labs/README.md.

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

from helpers.course.handout import as_handed_out, copy_pictures, keep, mark, notebooks, read_notebook
from helpers.course.steps import START
from helpers.tools.files import atomic_write
from solutions.grading.addresses import BUNDLE, bundle_address, in_colab, repository_address
from solutions.grading.course import Course
from solutions.grading.executed import ABOUT
from solutions.grading.layout import ROOT
from solutions.grading.step_tables import update_tables
from solutions.grading.worth import check_worth
from trtcpu.errors import InputError, LabError

ANSWERS = "answers"
"""The tag of a cell that readers of the solutions see and students do not."""

FIRST_CELL = """\
# @title Colab, Kaggle: fetches the lab. Where it is installed this does nothing.
try:
    import helpers
except ModuleNotFoundError:
    import os, shutil, sys, urllib.request

    lab_bundle = os.environ.get("TRT_LAB_BUNDLE", "{bundle}")
    try:
        shutil.unpack_archive(urllib.request.urlretrieve(lab_bundle)[0], format="zip")
    except OSError as error:
        raise RuntimeError(
            f"the lab could not be fetched from {{lab_bundle}} ({{error}}); "
            "let this place use the internet (Kaggle: Settings, Internet on) and run this cell again"
        ) from None
    sys.path.insert(0, os.path.abspath("{folder}"))
    from helpers.course import elsewhere

    elsewhere.set_up()"""
"""The first code cell of each handed-out notebook; `bundle` is the students' archive's address, `folder` its top."""

_START = Path(__file__).parent / START
_SECRET = re.compile(
    r"(BEGIN|END) (SOLUTION|HIDDEN TESTS|MARK SCHEME)|(solutions|trtlab)\.\w|(import|from) (solutions|trtlab)\b"
)


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


def hand_out(course: Course, folder: Path) -> list[str]:
    """Write every step that is present to the new folder `folder`/<step>/, marked as handed out; return the steps.

    Raises:
        InputError: a step could not be made, would show what students must not see, or a cell has other points than its
            claims.
    """
    check_worth(course)
    for step in course.present:
        course.generate(step, folder)
        path = folder / step / f"{step}.ipynb"
        notebook = nbformat.read(path, as_version=4)
        notebook.cells = [cell for cell in notebook.cells if ANSWERS not in cell.metadata.get("tags", [])]
        _check(notebook, path.name)
        for cell in notebook.cells:
            cell.metadata.pop(ABOUT, None)
        _open_elsewhere(notebook, f"labs/{step}/{step}.ipynb")
        mark(notebook)
        nbformat.write(notebook, path)
    start = read_notebook(_START)
    _open_elsewhere(start, f"labs/{_START.name}")
    mark(start)
    nbformat.write(start, folder / _START.name)
    return course.present


def _open_elsewhere(notebook: NotebookNode, path: str) -> None:
    """Below the title, link the notebook in Colab; behind it, put the cell that fetches the lab where there is none."""
    title, *rest = notebook.cells[0].source.split("\n", 1)
    link = f"[Open in Colab]({in_colab(repository_address(ROOT), path)})"
    notebook.cells[0].source = "\n".join([title, "", link, *rest])
    folded = {"jupyter": {"source_hidden": True}, "cellView": "form"}  # JupyterLab's word for it, and Colab's
    code = FIRST_CELL.format(bundle=bundle_address(ROOT), folder=BUNDLE)
    notebook.cells.insert(1, new_code_cell(code, id="elsewhere", metadata=folded))


def _check(notebook: NotebookNode, name: str) -> None:
    for number, cell in enumerate(notebook.cells, 1):
        if found := _SECRET.search(cell.source):
            raise InputError(f"{name}, cell {number}, would hand out {found[0]!r}; mark it as solution or hidden")
        if cell.get("outputs"):
            raise InputError(f"{name}, cell {number}, would hand out its outputs")


def main() -> None:
    """Make labs/ of the course in the current folder."""
    try:
        update_tables(Path("."))
        steps, kept = make_labs(Course.at("."), Path("labs"))
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    print(f"labs/: {', '.join(steps)}")
    if kept:
        print(
            f"somebody had worked in {', '.join(path.stem for path in sorted(kept.iterdir()))}; as they were: {kept}/"
        )


if __name__ == "__main__":
    typer.run(main)
