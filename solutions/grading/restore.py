"""Restores the course's test cells in a submitted notebook: those that were deleted, copied, edited or relabelled.

The student decides where a cell stands. The source notebook decides what a test cell says and what it is worth.
"""

from copy import deepcopy
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import upgrade
from nbformat.validator import normalize
from nbgrader.preprocessors import ClearOutput, ClearSolutions, NbGraderPreprocessor
from nbgrader.utils import is_grade, is_locked, is_solution
from traitlets import Bool

from helpers.course.handout import cell_name, read_notebook
from solutions.grading.course import with_points
from solutions.grading.faults import CourseError
from solutions.grading.locks import other_holder
from trtcpu.errors import InputError

EXPLORE, SKIP = "explore", "skip-execution"


class RestoreCells(NbGraderPreprocessor):
    """nbgrader's step before all others of `autograde`: `restore` with the course's source notebook."""

    locked_by_us = Bool(False, help="Whether the caller holds the course's lock.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Mend `nb`, a notebook of `resources["nbgrader"]`'s assignment."""
        about = resources["nbgrader"]
        course = self.parent.parent.coursedir  # preprocessor, exporter, converter
        if not self.locked_by_us and (holder := other_holder(Path(course.root))):
            raise CourseError(f"{holder}; wait until it has ended")
        folder = Path(course.format_path(course.source_directory, ".", about["assignment"]))
        for note in restore(nb, with_points(read_notebook(folder / f"{about['notebook']}.ipynb")), self.config):
            self.log.warning(note)
        return nb, resources


def restore(notebook: NotebookNode, source: NotebookNode, config: Any = None) -> list[str]:
    """Mend a notebook in place and return a line for each thing that was not as handed out.

    It comes out without outputs and in the newest format. Test cells get the source's code, label and points; one that
    is missing is put back before the next cell that is there; of doubles the last counts. Labels that the source
    does not have are dropped, and so is all other metadata of a cell: a student's tag neither skips nor hides one.
    Unchanged demonstrations are marked to be skipped.

    Raises:
        InputError: it is not a valid notebook.
    """
    _tidy(notebook)
    cleared, _ = ClearSolutions(config=config).preprocess(deepcopy(source), {})
    ClearOutput().preprocess(cleared, {})
    ours = {cell_name(cell): cell for cell in cleared.cells if cell_name(cell)}
    demonstrations = {cell.source for cell in source.cells if EXPLORE in cell.metadata.get("tags", [])}
    last = {cell_name(cell): index for index, cell in enumerate(notebook.cells)}
    strangers = sum("nbgrader" in cell.metadata and cell_name(cell) not in ours for cell in notebook.cells)
    notes = [f"{strangers} labels that this step does not have were ignored"] if strangers else []
    kept = []
    for index, cell in enumerate(notebook.cells):
        given = ours.get(cell_name(cell))
        if given and last[cell_name(cell)] == index:
            notes += _differences(cell, given)
            kept.append(_answered(given, cell))
            continue
        if given:
            notes.append(f"cell {cell_name(cell)} was there more than once: the last one counts")
        if not (given and is_locked(given)):
            skipped = cell.cell_type == "code" and cell.source in demonstrations
            cell.metadata = NotebookNode({"tags": [SKIP]} if skipped else {})
            kept.append(cell)
    notes += _put_back(kept, ours)
    notebook.cells = kept
    notebook.update(normalize(notebook)[1])  # if a cell that was put back has the id of another one
    return list(dict.fromkeys(notes))


def _tidy(notebook: NotebookNode) -> None:
    try:
        ClearOutput().preprocess(notebook, {})
        upgrade(notebook, from_version=4, from_minor=int(notebook.get("nbformat_minor", 0)))
        notebook.update(normalize(notebook)[1])
        nbformat.validate(notebook)
    except (nbformat.ValidationError, AttributeError, KeyError, TypeError, ValueError) as error:
        reason = str(getattr(error, "message", error)).splitlines()[0][:120]
        raise InputError(f"it is not a valid notebook ({reason})") from error


def _differences(cell: NotebookNode, given: NotebookNode) -> list[str]:
    name, notes = cell_name(given), []
    about, expected = cell.metadata["nbgrader"], given.metadata["nbgrader"]
    changed = [key for key in ("grade", "solution", "locked", "points", "task") if about.get(key) != expected.get(key)]
    if changed or cell.cell_type != given.cell_type:
        notes.append(f"the label of cell {name} was edited ({', '.join(changed) or 'its type'}): the course's counts")
    if is_locked(given) and cell.source.strip() != given.source.strip():
        notes.append(f"test cell {name} was edited: the course's own ran instead")
    return notes


def _answered(given: NotebookNode, cell: NotebookNode) -> NotebookNode:
    if not is_locked(given):
        given.update(source=cell.source, id=cell.id)
        if given.cell_type == "markdown" and "attachments" in cell:
            given.attachments = cell.attachments
    return given


def _put_back(cells: list[NotebookNode], ours: dict[str, NotebookNode]) -> list[str]:
    """Insert missing test cells and missing answers that a person grades; missing code is simply missing."""
    notes, place = [], len(cells)
    for name, given in reversed(ours.items()):
        there = [index for index, cell in enumerate(cells) if cell_name(cell) == name]
        if there:
            place = min(place, *there)
        elif is_locked(given) or (is_solution(given) and is_grade(given)):
            cells.insert(place, given)
            notes.append(f"cell {name} was missing: put back")
    return notes[::-1]
