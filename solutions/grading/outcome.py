"""A test cell in grading: the call that decides its claims, and its outputs, made from the record that it wrote."""

import os
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_output

from solutions.checks.core.record import Record, read_record
from trtcpu.errors import LabError

# What runs after a test cell's visible check of a notebook of our own and decides its points. No notebook holds it.
CLAIMS = "from solutions.checks import grade_cell\n\ngrade_cell({cell!r}, globals())"
# What runs in place of a submission's visible check: it answers the judge, who decides elsewhere.
# The check says nothing in grading, and its line raises if one of several functions is missing: the others' claims
# are asked all the same.
ANSWERS = "from helpers.checks.probes.serve import serve\n\nserve({door!r}, globals())"


def is_test_cell(cell: NotebookNode) -> bool:
    """Return whether points are decided by running this cell."""
    about = cell.metadata.get("nbgrader", {})
    return cell.cell_type == "code" and bool(about.get("grade")) and not about.get("solution")


def decided_outputs(record: Path, points: float, fault: str | None) -> list[NotebookNode]:
    """Return a test cell's outputs: the card, what kept it from being decided if anything did, and its points.

    Args:
        record: the file that the cell's record is in, if it wrote one.
        points: what the cell is worth in the gradebook.
        fault: why the cell did not run to its end, None if it did.
    """
    found, refused = usable_record(record)
    outputs = []
    if found is not None:
        card = found.card()
        outputs.append(new_output("display_data", {"text/html": card._repr_html_(), "text/plain": str(card)}))
    if found is None or fault or sum(result.points for result in found.results) < found.points - 1e-6:
        lost = "No points" if found is None else "No points for what could not be asked or is not listed above"
        why = refused or fault or "it ended without a record"
        outputs.append(new_output("stream", name="stdout", text=f"{lost}: {why}.\n"))
    earned = 0.0 if found is None else found.earned
    decided = f"{min(max(earned, 0.0), points):g}"
    return [*outputs, new_output("execute_result", {"text/plain": decided}, execution_count=1)]


def usable_record(path: Path) -> tuple[Record | None, str]:
    """Return the record in a file; None if there is no usable one, with the reason if there is a file."""
    if not os.path.lexists(path):
        return None, ""
    if path.parent.is_symlink():
        return None, f"the folder {path.parent.name} is a link, and links are not followed"
    try:
        return read_record(path), ""
    except LabError as error:
        return None, str(error).replace(f"{path.parent}/", "")
