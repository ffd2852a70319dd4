"""Gives a submitted notebook the course's own test cells back: deleted, doubled, edited or relabelled ones.

Where a cell is, the student decides; what a test cell says and what it is worth, the source notebook does.
"""

from copy import deepcopy
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, upgrade
from nbformat.validator import normalize
from nbgrader.preprocessors import ClearSolutions, NbGraderPreprocessor
from nbgrader.utils import is_grade, is_locked, is_solution
from traitlets import Bool

from helpers.course.handout import cell_name, read_notebook
from solutions.grading.faults import CourseError
from solutions.grading.lock import other_holder
from trtcpu.errors import InputError

EXPLORE, SKIP = "explore", "skip-execution"


class RestoreCells(NbGraderPreprocessor):
    """nbgrader's step before all others of `autograde`: `restore` with the course's source notebook."""

    locked_by_us = Bool(False, help="Whether who started this holds the course's lock.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Mend `nb`, a notebook of `resources["nbgrader"]`'s assignment."""
        about = resources["nbgrader"]
        course = self.parent.parent.coursedir  # preprocessor, exporter, converter
        if not self.locked_by_us and (holder := other_holder(Path(course.root))):
            raise CourseError(f"{holder}; wait until it has ended")
        folder = Path(course.format_path(course.source_directory, ".", about["assignment"]))
        tidy(nb)
        for note in restore(nb, read_notebook(folder / f"{about['notebook']}.ipynb"), self.config):
            self.log.warning(note)
        return nb, resources


def tidy(notebook: NotebookNode) -> None:
    """Drop all outputs and bring the notebook to the newest format, in place.

    Raises:
        InputError: what is left is not a valid notebook.
    """
    try:
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        upgrade(notebook, from_version=4, from_minor=int(notebook.get("nbformat_minor", 0)))
        _, mended = normalize(notebook)
        notebook.update(mended)
        nbformat.validate(notebook)
    except (nbformat.ValidationError, AttributeError, KeyError, TypeError, ValueError) as error:
        reason = str(getattr(error, "message", error)).splitlines()[0][:120]
        raise InputError(f"it is not a valid notebook ({reason})") from error


def restore(notebook: NotebookNode, source: NotebookNode, config: Any = None) -> list[str]:
    """Mend a tidy notebook in place and return a line for each thing that was not as handed out.

    Test cells get the source's code, label and points; one that is missing is put back before the next cell that is
    there; of doubles the last counts. A label that the source does not have is dropped, and so is all else that cells'
    metadata say: no tag of a student's skips a cell or hides it. Unchanged demonstrations are marked to be skipped.
    """
    cleared, _ = ClearSolutions(config=config).preprocess(deepcopy(source), {})
    ours = {cell_name(cell): cell for cell in cleared.cells if cell_name(cell)}
    notes = _drop_strangers(notebook, ours) + _drop_doubles(notebook, ours)
    for index, cell in enumerate(notebook.cells):
        if name := cell_name(cell):
            notes += _differences(cell, ours[name])
            notebook.cells[index] = _ours(ours[name]) if is_locked(ours[name]) else _labelled(cell, ours[name])
    notes += _put_back(notebook, ours)
    demonstrations = {cell.source for cell in source.cells if EXPLORE in cell.metadata.get("tags", [])}
    for cell in notebook.cells:
        if not cell_name(cell):
            skipped = cell.cell_type == "code" and cell.source in demonstrations
            cell.metadata = NotebookNode({"tags": [SKIP]} if skipped else {})
    return list(dict.fromkeys(notes))


def _drop_strangers(notebook: NotebookNode, ours: dict[str, NotebookNode]) -> list[str]:
    dropped = [cell for cell in notebook.cells if "nbgrader" in cell.metadata and cell_name(cell) not in ours]
    for cell in dropped:
        del cell.metadata["nbgrader"]
    return [f"{len(dropped)} labels that this step does not have were ignored"] if dropped else []


def _drop_doubles(notebook: NotebookNode, ours: dict[str, NotebookNode]) -> list[str]:
    """Keep the last of each name; an earlier test cell goes, an earlier answer loses its label only."""
    notes, seen, kept = [], set(), []
    for cell in reversed(notebook.cells):
        name = cell_name(cell)
        if name in seen:
            notes.append(f"cell {name} was there more than once: the last one counts")
            if is_locked(ours[name]):
                continue
            del cell.metadata["nbgrader"]
        elif name:
            seen.add(name)
        kept.append(cell)
    notebook.cells = kept[::-1]
    return notes


def _differences(cell: NotebookNode, given: NotebookNode) -> list[str]:
    name, notes = cell_name(given), []
    about, expected = cell.metadata["nbgrader"], given.metadata["nbgrader"]
    changed = [key for key in ("grade", "solution", "locked", "points", "task") if about.get(key) != expected.get(key)]
    if changed or cell.cell_type != given.cell_type:
        notes.append(f"the label of cell {name} was edited ({', '.join(changed) or 'its type'}): the course's counts")
    if is_locked(given) and cell.source.strip() != given.source.strip():
        notes.append(f"test cell {name} was edited: the course's own ran instead")
    return notes


def _ours(cell: NotebookNode) -> NotebookNode:
    fresh = deepcopy(cell)
    if fresh.cell_type == "code":
        fresh.outputs, fresh.execution_count = [], None
    return fresh


def _labelled(cell: NotebookNode, given: NotebookNode) -> NotebookNode:
    """Return the student's answer with the source's label and type."""
    make = new_code_cell if given.cell_type == "code" else new_markdown_cell
    fresh = make(cell.source, id=cell.id, metadata=deepcopy(given.metadata))
    if fresh.cell_type == "markdown" and "attachments" in cell:
        fresh.attachments = cell.attachments
    return fresh


def _put_back(notebook: NotebookNode, ours: dict[str, NotebookNode]) -> list[str]:
    """Insert missing test cells and missing answers that a person grades; missing code is simply missing."""
    notes, names = [], list(ours)
    for position in reversed(range(len(names))):
        name, cell = names[position], ours[names[position]]
        there = {cell_name(found): index for index, found in enumerate(notebook.cells) if cell_name(found)}
        if name in there or not (is_locked(cell) or (is_solution(cell) and is_grade(cell))):
            continue
        following = [there[later] for later in names[position + 1 :] if later in there]
        notebook.cells.insert(min(following, default=len(notebook.cells)), _ours(cell))
        notes.append(f"cell {name} was missing: put back")
    if len({cell.id for cell in notebook.cells}) < len(notebook.cells):
        _, mended = normalize(notebook)
        notebook.cells = mended.cells
    return notes[::-1]
