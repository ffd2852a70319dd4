"""The notebooks that were handed out: which cells are whose, and a newer version that keeps a student's work.

`python -m helpers.course.handout [RELEASE.zip]`, in the unpacked bundle, brings labs/ up to .handout/, or to a newer
release. A notebook's metadata says which cells it was handed out with, so no older version is needed.
"""

import datetime
import hashlib
import shutil
import subprocess
import sys
import uuid
import zipfile
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path, PurePosixPath
from typing import Annotated

import nbformat
import typer
from nbformat import NotebookNode

from helpers.course.steps import NOTEBOOKS, START
from helpers.tools.cells import with_newlines
from helpers.tools.files import atomic_path, atomic_write
from trtcpu.errors import InputError, LabError

HANDOUT = ".handout"
# The id of the cell that fetches the lab in Colab and Kaggle.
ELSEWHERE = "elsewhere"
_MARK = "trt_lab"


def notebooks(steps: Sequence[str] = NOTEBOOKS) -> list[Path]:
    """Return where the notebooks lie in labs/: the start page, then those of the steps."""
    return [Path(START), *(Path(step, f"{step}.ipynb") for step in steps)]


def mark(notebook: NotebookNode) -> None:
    """Write into the notebook's metadata which cells it is handed out with, in place."""
    notebook.metadata[_MARK] = {"cells": " ".join(f"{cell.id}:{_digest(cell)}" for cell in notebook.cells)}


def as_handed_out(path: Path) -> bool:
    """Return whether a file's cells are those that were handed out, unchanged and in order; outputs do not count.

    Raises:
        InputError: it is no valid notebook.
    """
    notebook = _valid(path)
    return [(cell.get("id"), _digest(cell)) for cell in notebook.cells] == list(_marked(notebook).items())


def lay_out(handout: Path, labs: Path) -> list[str]:
    """Bring the notebooks of `labs` up to those of `handout`; return what was done, a line each.

    One that was worked in is kept as it was in labs/.kept/ first. All are made before any is written.

    Raises:
        InputError: `handout` has no notebooks, or one of `labs` cannot be read.
    """
    given = [path for name in notebooks() if (path := handout / name).is_file()]
    if not given:
        raise InputError(f"{handout}/ has no notebooks; unpack the release over this folder again")
    made: list[tuple[Path, NotebookNode, list[str]]] = []
    for path in given:
        place, ours = labs / path.relative_to(handout), read_notebook(path)
        if not place.is_file():
            made.append((place, ours, ["new"]))
        elif _marked(theirs := _valid(place)) != _marked(ours):
            merged, notes = renewed(theirs, ours)
            made.append((place, merged, ["brought up to date", *notes]))
    kept = keep([place for place, _, _ in made if place.is_file()], labs)
    for path in given:
        copy_pictures(path.parent, labs / path.parent.relative_to(handout))
    for place, notebook, _ in made:
        atomic_write(place, nbformat.writes(notebook) + "\n")
    lines = [
        line for place, _, said in made for line in (f"{place.stem}: {said[0]}", *(f"  {note}" for note in said[1:]))
    ]
    return [*lines, f"as they were: {kept}/"] if kept else lines


def copy_pictures(step: Path, target: Path) -> None:
    """Copy what lies beside the notebook in a step's folder to `target`, over older versions."""
    for path in sorted(step.iterdir()):
        if path.is_file() and path.suffix != ".ipynb":
            atomic_write(target / path.name, path.read_bytes())


def keep(notebooks: list[Path], labs: Path) -> Path | None:
    """Copy notebooks to labs/.kept/<now>/ and return that folder; None if there is nothing to copy."""
    folder = labs / ".kept" / f"{datetime.datetime.now():%Y-%m-%d_%H-%M-%S_%f}"
    for path in notebooks:
        with atomic_path(folder / path.name) as temporary:
            shutil.copyfile(path, temporary)
    return folder if notebooks else None


def renewed(theirs: NotebookNode, ours: NotebookNode) -> tuple[NotebookNode, list[str]]:
    """Return `ours`, a notebook as it is handed out now, with the work in `theirs`, and what its student has to know.

    An answer stays, in its cell; a cell of one's own stays behind the cell that it is behind. Texts, checks and their
    order are those of `ours`. A cell is the same by its nbgrader name, else by its id.
    """
    given = [deepcopy(cell) for cell in ours.cells]
    places = _places(theirs, ours)
    own: dict[int, list[NotebookNode]] = {}
    notes, last = [], -1
    for number, cell in enumerate(theirs.cells):
        worked_in = _digest(cell) not in _marked(theirs).values()
        if (place := places.get(number)) is not None:
            last = place
            notes += _merge(cell, given, place, worked_in, _marked(theirs))
        elif worked_in:
            if cell_name(cell):
                notes.append(f"{_title(cell)} stays as a cell of your own, which is not graded")
            own.setdefault(last, []).append(_unlabelled(cell))
    _tell_apart([cell for cells in own.values() for cell in cells], {cell.id for cell in given})
    made = deepcopy(ours)
    made.cells = own.get(-1, []) + [each for at, cell in enumerate(given) for each in (cell, *own.get(at, []))]
    made.metadata = NotebookNode(deepcopy({**theirs.metadata, _MARK: ours.metadata[_MARK]}))
    return made, notes


def read_notebook(path: str | Path) -> NotebookNode:
    """Return a notebook in the newest format 4, whichever it was written in, with \\n at the end of its cells' lines.

    Raises:
        InputError: there is no such file, it is not JSON, or not a notebook.
    """
    path = Path(path)
    try:
        notebook = nbformat.reads(path.read_text(encoding="utf-8-sig"), as_version=4)
    except OSError as error:
        raise InputError(f"cannot read {path.name}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path.name} is not text in UTF-8; save it as UTF-8") from error
    except Exception as error:  # nbformat raises whatever the content leads it into
        said = str(error).strip().splitlines() or ["without a message"]
        reason = "it is not JSON" if "JSON" in type(error).__name__ else f"{type(error).__name__}: {said[0][:100]}"
        raise InputError(f"{path.name} is not a notebook ({reason})") from error
    if not isinstance(notebook.get("cells"), list):
        raise InputError(f"{path.name} is not a notebook (it has no list of cells)")
    for cell in notebook.cells:
        if isinstance(cell.get("source"), str):
            cell.source = with_newlines(cell.source)
    return notebook


def cell_name(cell: NotebookNode) -> str:
    """Return the cell's nbgrader name, "" where it has none that can be used."""
    about = cell.metadata.get("nbgrader")
    name = about.get("grade_id") if isinstance(about, dict) else None
    return name if isinstance(name, str) else ""


def _marked(notebook: NotebookNode) -> dict[str, str]:
    """Return the digest of each cell that the notebook was handed out with, by id and in order."""
    about = notebook.metadata.get(_MARK)
    cells = str(about.get("cells", "")) if isinstance(about, dict) else ""
    return dict(pair.split(":", 1) for pair in cells.split() if ":" in pair)


def _digest(cell: NotebookNode) -> str:
    return hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:16]


def _valid(path: Path) -> NotebookNode:
    notebook = read_notebook(path)
    try:
        nbformat.validate(notebook)
    except nbformat.ValidationError as error:
        reason = str(error.message).splitlines()[0][:100]
        raise InputError(f"{path} is not a valid notebook ({reason}); move it away, and run this again") from error
    return notebook


def _places(theirs: NotebookNode, ours: NotebookNode) -> dict[int, int]:
    """Return which cell of `ours` each of `theirs` is, by number; of doubles the last is it, as in grading."""
    places: dict[int, int] = {}
    for same in (cell_name, lambda cell: cell.get("id"), _digest):
        free = {same(cell): at for at, cell in enumerate(ours.cells) if at not in places.values()}
        for number, cell in reversed(list(enumerate(theirs.cells))):
            if number not in places and same(cell) and same(cell) in free:
                places[number] = free.pop(same(cell))
    return places


def _merge(cell: NotebookNode, given: list[NotebookNode], at: int, worked_in: bool, marked: dict) -> list[str]:
    """Put a student's cell, answer or outputs, in the place of the given one if it stays."""
    fresh = given[at]
    answer = fresh.metadata.get("nbgrader", {}).get("solution", False)
    if cell.source == fresh.source or (answer and worked_in):
        given[at] = _labelled(cell, fresh)
    if not worked_in or cell.source == fresh.source:
        return []
    if not answer:
        return [f"{_title(fresh)} is as it is handed out now; what you changed there is in the kept notebook"]
    if marked.get(fresh.id) == _digest(fresh):
        return []
    return [f"{_title(fresh)}: your answer stays; what its cell was handed out with has changed, see {HANDOUT}/"]


def _labelled(cell: NotebookNode, given: NotebookNode) -> NotebookNode:
    """Return a student's cell with the name, points and type of the given one."""
    if cell.cell_type != given.cell_type:
        return NotebookNode({**deepcopy(given), "source": cell.source})
    kept = deepcopy(cell)
    kept.id, kept.metadata = given.id, NotebookNode({**kept.metadata, **deepcopy(given.metadata)})
    return kept


def _unlabelled(cell: NotebookNode) -> NotebookNode:
    kept = deepcopy(cell)
    for key in ("nbgrader", "deletable", "editable"):
        kept.metadata.pop(key, None)
    return kept


def _title(cell: NotebookNode) -> str:
    first = (cell.source.strip().splitlines() or [""])[0]
    return f"cell {cell_name(cell) or repr(first[:50])}"


def _tell_apart(cells: list[NotebookNode], handed_out: set[str]) -> None:
    """Give each cell of the student's own an id that no other cell has."""
    seen = set(handed_out)
    for cell in cells:
        if not cell.get("id") or cell.id in seen:
            cell.id = uuid.uuid4().hex[:8]
        seen.add(cell.id)


def _unpack(release: Path) -> None:
    """Write the files of a release over those of the current folder.

    Raises:
        InputError: it is not a release of the lab.
    """
    try:
        with zipfile.ZipFile(release) as archive:
            files = {PurePosixPath(name): archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    except (OSError, zipfile.BadZipFile) as error:
        raise InputError(f"cannot read the release {release}: {error}") from error
    tops = {path.parts[0] for path in files}
    if len(tops) != 1 or not any(HANDOUT in path.parts for path in files) or any(".." in path.parts for path in files):
        raise InputError(
            f"{release} is not a release of this lab: it has no folder {HANDOUT}/ below a single other one"
        )
    for path, data in files.items():
        atomic_write(Path(*path.parts[1:]), data)
    _remove_older({Path(*path.parts[1:]) for path in files})


def _remove_older(files: set[Path]) -> None:
    """Remove the modules of an older release: one that is gone must not be imported beside its successor."""
    for package in {"helpers", "trtcpu"} & {path.parts[0] for path in files}:
        for path in set(Path(package).rglob("*.py")) - files:
            path.unlink()


def main(release: Annotated[Path | None, typer.Argument(help="a newer release, RELEASE.zip")] = None) -> None:
    """Bring labs/ up to the release that is unpacked here, or to a newer one; nothing of your work is lost."""
    try:
        if release is not None:
            _unpack(release)
            sys.exit(subprocess.run([sys.executable, "-m", "helpers.course.handout"]).returncode)
        lines = lay_out(Path(HANDOUT), Path("labs"))
    except LabError as error:
        sys.exit(f"error: {error}")
    print("\n".join(lines or ["labs/ is up to date"]))


if __name__ == "__main__":
    typer.run(main)
