"""The feedback that a student reads: nbgrader's page with a summary on top, made from gradebook and records."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.server_extensions.formgrader.handlers import template_path
from nbgrader.utils import is_grade
from traitlets.config import Config

from helpers.course.steps import CELLS, COLUMNS
from solutions.checks.core.record import ClaimResult
from solutions.grading.environment import records_of
from solutions.grading.marking import without_guide
from solutions.grading.outcome import is_test_cell, usable_record
from solutions.grading.untrusted.pages import PageExporter

_HIDDEN = re.compile(r"^### BEGIN HIDDEN TESTS$.*?^### END HIDDEN TESTS$", re.S | re.M)
_TEMPLATES = Path(__file__).parent / "templates"


@dataclass
class CellResult:
    """A graded cell. `lost` are its claims without full points; `reason` says why where no claim does."""

    name: str
    title: str
    criterion: str
    score: float
    points: float
    pending: bool = False
    lost: list[ClaimResult] = field(default_factory=list)
    reason: str = ""


class FeedbackSummary(NbGraderPreprocessor):
    """Gathers what the template lab_feedback shows: `resources["lab"]`."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Add the summary of a graded notebook; nbgrader's GetGrades has put the scores into its cells."""
        about = resources["nbgrader"]
        without_guide(nb)
        for cell in filter(is_test_cell, nb.cells):
            cell.source = _HIDDEN.sub("", cell.source).rstrip()
        records = records_of(Path(resources["metadata"]["path"]).resolve().parent)
        with Gradebook(about["db_url"]) as gradebook:
            cells = [_result(cell, records, _pending(gradebook, about, cell)) for cell in nb.cells if is_grade(cell)]
        resources["lab"] = {
            "heading": _heading(nb) or about["notebook"],
            "cells": cells,
            "criteria": [_sum(criterion, cells) for criterion in COLUMNS if _sum(criterion, cells)[2]],
            "titles": {cell.name: cell.title for cell in cells},
        }
        return nb, resources


class FeedbackExporter(PageExporter):
    """nbconvert's exporter with the template lab_feedback, which extends nbgrader's."""

    @property
    def default_config(self) -> Config:
        """Where the templates are: nbgrader's configuration, which comes after this, names its own."""
        config = super().default_config
        bootstrap = Path(template_path).parent / "static" / "node_modules" / "bootstrap" / "dist" / "css"
        config.FeedbackExporter.template_name = "lab_feedback"
        config.FeedbackExporter.extra_template_basedirs = [str(_TEMPLATES), template_path]
        config.FeedbackExporter.extra_template_paths = [template_path, str(bootstrap)]
        return config


def _result(cell: NotebookNode, records: Path, pending: bool) -> CellResult:
    about, name = cell.metadata.nbgrader, cell.metadata.nbgrader.grade_id
    known = CELLS.get(name)
    result = CellResult(
        name, known.title if known else name, known.criterion if known else "", about.score, about.points, pending
    )
    if not is_test_cell(cell):
        result.reason = about.get("comment") or ""
        return result
    record = usable_record(records / f"{name}.json")
    result.lost = [claim for claim in record.results if claim.earned < claim.points] if record else []
    said = [output.text for output in cell.outputs if output.output_type == "stream"]
    result.reason = " ".join(text.strip() for text in said if text.startswith("No points"))
    if record and not result.reason and abs(record.earned - about.score) > 0.005:
        result.reason = f"The checks gave {record.earned:g}; a person changed that to {about.score:g}."
    return result


def _pending(gradebook: Gradebook, about: dict[str, str], cell: NotebookNode) -> bool:
    grade = gradebook.find_grade(
        cell.metadata.nbgrader.grade_id, about["notebook"], about["assignment"], about["student"]
    )
    return grade.auto_score is None and grade.manual_score is None


def _sum(criterion: str, cells: list[CellResult]) -> tuple[str, float, float]:
    """Return a criterion, the points for it, and how many there are."""
    own = [cell for cell in cells if cell.criterion == criterion]
    return criterion, round(sum(cell.score for cell in own), 2), sum(cell.points for cell in own)


def _heading(notebook: NotebookNode) -> str:
    lines = (line for cell in notebook.cells if cell.cell_type == "markdown" for line in cell.source.splitlines())
    return next((line[2:] for line in lines if line.startswith("# ")), "")
