"""What a graded notebook becomes: formgrader's page for the person who grades, and the student's feedback.

Formgrader shows rubric, marked samples and the submission's charts above each cell that a person grades. The feedback
is nbgrader's page with a summary on top, made from gradebook and records. A refused step's page gives the reason.
"""

import base64
import html
import re
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from nbgrader.api import Gradebook
from nbgrader.server_extensions.formgrader.handlers import template_path
from nbgrader.utils import is_grade, is_solution
from traitlets.config import Config

from helpers.course.handout import ELSEWHERE
from helpers.course.steps import ARTIFACTS, CELLS, COLUMNS
from solutions.checks.core.record import Record
from solutions.grading.layout import ROOT, artifacts_of, records_of
from solutions.grading.outcome import is_test_cell, usable_record
from solutions.grading.untrusted.pages import PageExporter, strict_head
from solutions.grading.untrusted.text import printable

_FOR_THE_GRADER = "for-the-grader"
_SAMPLES = "docs/grading-samples.md"
_LARGEST_CHART_BYTES = 2 << 20


def marking_guide(nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
    """Put docs/grading-samples.md and the charts above every answer that has points of its own.

    A preprocessor of nbconvert, in place. The charts are there because the cells that show them are not run in grading.
    """
    without_guide(nb)
    charts = artifacts_of(Path(resources["metadata"]["path"]).resolve().parent)
    for index in reversed(range(len(nb.cells))):
        if is_grade(nb.cells[index]) and is_solution(nb.cells[index]):
            drawn = "".join(_chart(charts / name) for name in ARTIFACTS if name.endswith(".png"))
            text = f"{_guide()}\n\n<div>{drawn}</div>"
            nb.cells.insert(index, new_markdown_cell(text, metadata={"tags": [_FOR_THE_GRADER]}))
    return nb, resources


def without_guide(notebook: NotebookNode) -> None:
    """Take the cells out that are for the person who grades, in place."""
    notebook.cells = [cell for cell in notebook.cells if _FOR_THE_GRADER not in cell.metadata.get("tags", [])]


def feedback_summary(nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
    """Gather what the template lab_feedback shows, as `resources["lab"]`.

    A preprocessor of nbconvert, after nbgrader's GetGrades, which has put the scores into the cells.
    """
    about = resources["nbgrader"]
    without_guide(nb)
    nb.cells = [cell for cell in nb.cells if cell.get("id") != ELSEWHERE]
    for cell in nb.cells:
        if cell.cell_type == "markdown":
            cell.source = links_as_paths(cell.source)
    for cell in filter(is_test_cell, nb.cells):
        cell.source = re.sub(r"(?ms)^### BEGIN HIDDEN TESTS$.*?^### END HIDDEN TESTS$", "", cell.source).rstrip()
    records = records_of(Path(resources["metadata"]["path"]).resolve().parent)
    with Gradebook(about["db_url"]) as gradebook:
        grades = gradebook.find_submission_notebook(about["notebook"], about["assignment"], about["student"]).grades
        pending = {grade.name for grade in grades if grade.auto_score is None and grade.manual_score is None}
    cells = [_result(cell, records, pending) for cell in nb.cells if is_grade(cell)]
    messages = Path("labs", "messages", f"{about['notebook']}.md")
    resources["lab"] = {
        "heading": _heading(nb) or about["notebook"],
        "criteria": COLUMNS,
        "cells": cells,
        "titles": {cell["name"]: cell["title"] for cell in cells},
        "messages": messages.as_posix() if (ROOT / messages).is_file() else "",
    }
    return nb, resources


def links_as_paths(markdown: str) -> str:
    """Return a notebook's text with a path in place of each link into labs/: the feedback page lies elsewhere."""
    # No pattern reaches past the next bracket: a stranger's text of nothing but brackets takes no longer than another.
    return re.sub(r"\[([^][]+)\]\(\.\./([^()\s]+)\)", r"\1 (`labs/\2`)", markdown)


def refusal_page(step: str, reason: str) -> str:
    """Return the page of a step that was refused, in place of that of earlier work."""
    said = f"<h1>{step}: 0 points</h1>\n<p>{html.escape(printable(reason))}</p>"
    return strict_head(f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n</head>\n<body>\n{said}\n')


class FeedbackExporter(PageExporter):
    """nbconvert's exporter with the template lab_feedback, which extends nbgrader's."""

    @property
    def default_config(self) -> Config:
        """Where the templates are: nbgrader's configuration, which comes after this, names its own."""
        config = super().default_config
        config.FeedbackExporter.update(
            template_name="lab_feedback",
            extra_template_basedirs=[str(Path(__file__).parent / "templates"), template_path],
            extra_template_paths=[template_path, str(Path(template_path, "../static/node_modules/bootstrap/dist/css"))],
        )
        return config


def _guide() -> str:
    text = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", (ROOT / _SAMPLES).read_text())
    rubric, *parts = re.split(r"^## (.*)\n", text.split("\n", 1)[1], flags=re.M)
    folded = [
        f'<details><summary style="display:list-item;cursor:pointer">{title}</summary>\n\n{body.strip()}\n\n</details>'
        for title, body in zip(parts[::2], parts[1::2], strict=True)
    ]
    return "\n\n".join([f"**For you who grade** ({_SAMPLES}; students do not see this cell)", rubric.strip(), *folded])


def _chart(path: Path) -> str:
    data = path.read_bytes() if path.is_file() and path.stat().st_size <= _LARGEST_CHART_BYTES else b""
    if not data.startswith(b"\x89PNG\r\n\x1a\n"):
        return f"<p>{path.name} is no picture or was not made</p>"
    text = base64.b64encode(data).decode()
    return f'<img alt="{path.name}" style="max-width:48%" src="data:image/png;base64,{text}">'


def _result(cell: NotebookNode, records: Path, pending: set[str]) -> dict[str, Any]:
    """Return what is shown of a graded cell.

    `lost` are its claims without full points; `reason` says why points are missing if no claim does.
    """
    about, name = cell.metadata.nbgrader, cell.metadata.nbgrader.grade_id
    record = usable_record(records / f"{name}.json")[0] if is_test_cell(cell) else None
    return {
        "name": name,
        "title": CELLS[name].title if name in CELLS else name,
        "criterion": CELLS[name].criterion if name in CELLS else "",
        "score": about.score,
        "points": about.points,
        "pending": name in pending,
        "lost": [claim for claim in record.results if claim.earned < claim.points] if record else [],
        "reason": _reason(cell, record),
    }


def _reason(cell: NotebookNode, record: Record | None) -> str:
    about = cell.metadata.nbgrader
    if not is_test_cell(cell):
        return about.get("comment") or ""
    said = [output.text.strip() for output in cell.outputs if output.output_type == "stream"]
    undecided = " ".join(text for text in said if text.startswith("No points"))
    if record and not undecided and abs(record.earned - about.score) > 0.005:
        return f"The checks gave {record.earned:g}; a person changed that to {about.score:g}."
    return undecided


def _heading(notebook: NotebookNode) -> str:
    lines = (line for cell in notebook.cells if cell.cell_type == "markdown" for line in cell.source.splitlines())
    return next((line[2:] for line in lines if line.startswith("# ")), "")
