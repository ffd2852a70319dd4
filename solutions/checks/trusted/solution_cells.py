"""Reads a cell of a solution notebook: the reference for a deliverable that is code."""

import json
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]


def solution_cell(step: str, grade_id: str) -> str:
    """Return the source of the cell with this grade_id in the step's solution notebook."""
    notebook = json.loads((_ROOT / step / f"{step}.ipynb").read_text())
    sources = {cell["metadata"].get("nbgrader", {}).get("grade_id"): cell["source"] for cell in notebook["cells"]}
    return "".join(sources[grade_id]).rstrip() + "\n"
