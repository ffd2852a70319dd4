"""Shows rubric, marked samples and the submission's charts in formgrader, above each cell that a person grades."""

import base64
import re
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import is_grade, is_solution

from helpers.course.steps import ARTIFACTS
from solutions.grading.environment import artifacts_of
from solutions.grading.layout import ROOT

_FOR_THE_GRADER = "for-the-grader"
_SAMPLES = "docs/grading-samples.md"
_CHARTS = [name for name in ARTIFACTS if name.endswith(".png")]
_PNG = b"\x89PNG\r\n\x1a\n"
_LARGEST_CHART_BYTES = 2 << 20


class MarkingGuide(NbGraderPreprocessor):
    """Puts docs/grading-samples.md into the graded notebook, the samples folded, and the charts that it drew."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Insert a cell before every answer that has points of its own."""
        without_guide(nb)
        for index in reversed(range(len(nb.cells))):
            if is_grade(nb.cells[index]) and is_solution(nb.cells[index]):
                charts = artifacts_of(Path(resources["metadata"]["path"]).resolve().parent)
                text = f"{_guide()}\n\n{_drawn(charts)}"
                nb.cells.insert(index, new_markdown_cell(text, metadata={"tags": [_FOR_THE_GRADER]}))
        return nb, resources


def without_guide(notebook: NotebookNode) -> None:
    """Take the cells out that are for the person who grades, in place."""
    notebook.cells = [cell for cell in notebook.cells if _FOR_THE_GRADER not in cell.metadata.get("tags", [])]


def _guide() -> str:
    text = (ROOT / _SAMPLES).read_text()
    rubric, *samples = re.split(r"^## ", re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", text), flags=re.M)
    rubric = rubric.split("\n", 1)[1].strip()
    folded = [_folded(*sample.split("\n", 1)) for sample in samples]
    return "\n\n".join([f"**For you who grade** ({_SAMPLES}; students do not see this cell)", rubric, *folded])


def _folded(title: str, body: str) -> str:
    summary = f'<summary style="display:list-item;cursor:pointer">{title}</summary>'
    return f"<details>{summary}\n\n{body.strip()}\n\n</details>"


def _drawn(folder: Path) -> str:
    """Return the charts in a student's artifacts as HTML: the cells that show them are not run in grading."""
    shown = []
    for name in _CHARTS:
        path = folder / name
        data = path.read_bytes() if path.is_file() and path.stat().st_size <= _LARGEST_CHART_BYTES else b""
        if data.startswith(_PNG):
            source = f"data:image/png;base64,{base64.b64encode(data).decode()}"
            shown.append(f'<img alt="{name}" style="max-width:48%" src="{source}">')
        else:
            shown.append(f"<p>{name} is no picture or was not made</p>")
    return f"<div>{''.join(shown)}</div>"
