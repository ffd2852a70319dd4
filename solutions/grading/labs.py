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

import jinja2
import nbformat
import typer
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from helpers.course.handout import as_handed_out, copy_pictures, keep, mark, notebooks, read_notebook
from helpers.course.steps import START, TABLE
from helpers.tools.files import atomic_write
from solutions.grading.addresses import BUNDLE, bundle_address, in_colab, repository_address
from solutions.grading.course import Course
from solutions.grading.executed import ABOUT
from solutions.grading.grades import check_worth
from solutions.grading.layout import ROOT
from trtcpu.errors import InputError, LabError

# The tag of a cell that readers of the solutions see and students do not.
ANSWERS = "answers"

# The first code cell of each handed-out notebook; `bundle` is the students' archive's address, `folder` its top.
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

# The pages with tables of steps: what stands above the rows, and jinja2's template of a row.
PAGES = {
    "README.md": (
        "| step | about | executed solution |\n|---|---|---|\n",
        "| {{ name[:2]|int }} | {{ about }} | [{{ name }}](solutions/{{ name }}/{{ name }}.ipynb) |",
    ),
    "labs/README.md": (
        "| step | you write | makes | time | points |\n|---|---|---|---|---|\n",
        "| {{ name[:2]|int }} [{{ title }}]({{ name }}/{{ name }}.ipynb)"
        "{{ ', a chapter to read and run' if not points }} | {{ '`' ~ writes|join('`, `') ~ '`' if writes }} "
        "| {{ '`' ~ makes|join('`, `') ~ '`' if makes }} | {{ minutes }} min | {{ points }} |",
    ),
}

_SECRET = re.compile(
    r"(BEGIN|END) (SOLUTION|HIDDEN TESTS|MARK SCHEME)|(solutions|trtlab)\.\w|(import|from) (solutions|trtlab)\b"
)


def make_labs(course: Course, target: Path) -> Path | None:
    """Write every step that is present to `target`/<step>/ and remove the notebooks of steps that are gone.

    Returns:
        The folder where notebooks are that somebody had worked in; None where there were none.

    Raises:
        InputError: a step could not be made, would show what students must not see, or what lies there is no notebook.
    """
    places = [target / name for name in notebooks()]
    worked_in = [path for path in places if path.is_file() and not as_handed_out(path)]
    with tempfile.TemporaryDirectory() as folder:
        hand_out(course, Path(folder))
        kept = keep(worked_in, target)
        for place in places:
            new = Path(folder) / place.relative_to(target)
            if new.is_file():
                copy_pictures(new.parent, place.parent)
                atomic_write(place, new.read_bytes())
            else:
                place.unlink(missing_ok=True)
    return kept


def hand_out(course: Course, folder: Path) -> None:
    """Write the start page and every step that is present to the new folder `folder`, marked as handed out.

    Raises:
        InputError: a step could not be made, would show what students must not see, or a cell has other points than its
            claims.
    """
    check_worth(course)
    made = {START: read_notebook(Path(__file__).parent / START)}
    for step in course.present:
        course.generate(step, folder)
        made[f"{step}/{step}.ipynb"] = read_notebook(folder / step / f"{step}.ipynb")
    for name, notebook in made.items():
        _take_out(notebook, Path(name).name)
        _open_elsewhere(notebook, f"labs/{name}")
        mark(notebook)
        nbformat.write(notebook, folder / name)


def _take_out(notebook: NotebookNode, name: str) -> None:
    """Remove the answers and what was noted of their execution; InputError where students could see more of ours."""
    notebook.cells = [cell for cell in notebook.cells if ANSWERS not in cell.metadata.get("tags", [])]
    for number, cell in enumerate(notebook.cells, 1):
        cell.metadata.pop(ABOUT, None)
        if found := _SECRET.search(cell.source):
            raise InputError(f"{name}, cell {number}, would hand out {found[0]!r}; mark it as solution or hidden")


def _open_elsewhere(notebook: NotebookNode, path: str) -> None:
    """Below the title, link the notebook in Colab; behind it, put the cell that fetches the lab where there is none."""
    title, *rest = notebook.cells[0].source.split("\n", 1)
    link = f"[Open in Colab]({in_colab(repository_address(ROOT), path)})"
    notebook.cells[0].source = "\n".join([title, "", link, *rest])
    folded = {"jupyter": {"source_hidden": True}, "cellView": "form"}  # JupyterLab's word for it, and Colab's
    code = FIRST_CELL.format(bundle=bundle_address(ROOT), folder=BUNDLE)
    notebook.cells.insert(1, new_code_cell(code, id="elsewhere", metadata=folded))


def with_tables(page: str, text: str) -> str:
    """Return the text of one of PAGES with its two tables made anew: the steps of the 100 points, and the others.

    Raises:
        InputError: it does not have the two tables.
    """
    head, row = PAGES[page]
    before, *tables = text.split(head)
    if len(tables) != 2:
        wanted = f"the head {head.splitlines()[0]!r}"
        raise InputError(f"{page} has {len(tables)} tables of steps, not two: {wanted} must stand in it twice")
    for number, optional in enumerate((False, True)):
        rows = [jinja2.Template(row).render(vars(step)) for step in TABLE if step.optional == optional]
        tables[number] = "\n".join(rows) + tables[number][tables[number].index("\n\n") :]
    return head.join([before, *tables])


def main() -> None:
    """Make labs/ of the course in the current folder."""
    try:
        course = Course.at(".")
        pages = {page: with_tables(page, Path(page).read_text()) for page in PAGES if Path(page).is_file()}
        for page, text in pages.items():
            atomic_write(page, text)
        kept = make_labs(course, Path("labs"))
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    print(f"labs/: {', '.join(course.present)}")
    if kept:
        print(
            f"somebody had worked in {', '.join(path.stem for path in sorted(kept.iterdir()))}; as they were: {kept}/"
        )


if __name__ == "__main__":
    typer.run(main)
