"""Grades go into a step's record first, and from it into the gradebook in one transaction."""

import datetime
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.preprocessors import SaveAutoGrades
from nbgrader.utils import compute_checksum, determine_grade, is_grade, is_solution, is_task

from solutions.grading.faults import need_room
from solutions.grading.layout import remove_links
from solutions.grading.step_record import CellGrade, StepRecord


class SaveGrades(SaveAutoGrades):
    """nbgrader's SaveAutoGrades, which commits cell by cell, in one transaction: all points are there or none."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Save the grades of an executed notebook of `resources["nbgrader"]`'s student and assignment."""
        about, folder = resources["nbgrader"], Path(resources["metadata"]["path"]).resolve().parent
        for place in (folder, Path(tempfile.gettempdir())):  # records and the kernel's scratch
            need_room(place)
        for note in remove_links(folder.parents[1], about["student"], about["assignment"]):
            self.log.warning(note)
        record = StepRecord.known(folder, about["student"], about["assignment"])
        with Gradebook(about["db_url"]) as gradebook:
            record = held(gradebook, record) or record
            for cell in nb.cells:
                name = cell.metadata.get("nbgrader", {}).get("grade_id")
                if is_grade(cell):
                    record.cells[name].auto = determine_grade(cell, self.log)[0]
                if is_solution(cell) or is_task(cell):
                    record.comments[name]["auto"] = _answered(cell)
            record.write(folder)
            save(gradebook, record, graded_now=True)
        return nb, resources


def held(gradebook: Gradebook, record: StepRecord) -> StepRecord | None:
    """Return a record with all that the gradebook has for its student and step; None where it has nothing."""
    try:
        found = gradebook.find_submission_notebook(record.step, record.step, record.student)
    except MissingEntry:
        return None
    cells = {
        grade.name: CellGrade(grade.max_score, grade.auto_score, grade.manual_score, grade.extra_credit)
        for grade in found.grades
    }
    comments = {note.name: {"auto": note.auto_comment, "manual": note.manual_comment} for note in found.comments}
    when = found.assignment.timestamp
    return replace(
        record,
        cells=cells,
        comments=comments,
        submitted=when and when.isoformat(),
        penalty=found.late_submission_penalty,
    )


def save(gradebook: Gradebook, record: StepRecord, *, graded_now: bool = False) -> None:
    """Put a record's points and comments into the gradebook in one transaction.

    As with nbgrader, points that a person gave are marked for another look where the checks have just graded again.
    """
    gradebook.update_or_create_student(record.student)
    when = record.submitted and datetime.datetime.fromisoformat(record.submitted)
    gradebook.update_or_create_submission(record.step, record.student, **({"timestamp": when} if when else {}))
    found = gradebook.find_submission_notebook(record.step, record.step, record.student)
    for grade in found.grades:
        cell = record.cells.get(grade.name, CellGrade(grade.max_score))
        grade.auto_score, grade.manual_score, grade.extra_credit = cell.auto, cell.manual, cell.extra
        grade.needs_manual_grade = cell.pending or (graded_now and cell.manual is not None)
    for comment in found.comments:
        said = record.comments.get(comment.name, {})
        comment.auto_comment, comment.manual_comment = said.get("auto"), said.get("manual")
    found.late_submission_penalty = record.penalty
    gradebook.db.commit()


def _answered(cell: NotebookNode) -> str | None:
    unchanged = cell.metadata.nbgrader.get("checksum") == compute_checksum(cell) and not is_task(cell)
    return "No response." if unchanged else None
