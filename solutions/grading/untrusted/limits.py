"""A notebook from a stranger: its file, cells and metadata are bounded before nbformat or nbgrader reads it.

nbgrader walks all cells in a dozen preprocessors, so that 60,000 empty ones took it 161 s.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode

from helpers.course.handout import read_notebook
from helpers.tools.files import read_regular
from trtcpu.bounded_json import loads
from trtcpu.errors import InputError

LARGEST_BYTES = 50 << 20
MOST_VALUES = 500_000
MOST_CELLS = 1_000
LARGEST_METADATA = 5_000_000  # of a notebook: saved widgets' states are in it
_PARTS = {"source": 200_000, "input": 200_000, "metadata": 100_000, "attachments": 10_000_000}  # bytes, of a cell


def check_notebook_file(path: str | Path) -> None:
    """Accept a notebook that can be graded in the time that a notebook may take.

    Raises:
        InputError: it is no notebook, or larger than any that was written by hand; the message names the limit.
    """
    path = Path(path)
    data = read_regular(path, LARGEST_BYTES, "notebook")
    try:
        notebook = loads(data, largest=LARGEST_BYTES, values=MOST_VALUES)
    except json.JSONDecodeError as error:
        raise InputError(f"{path.name} is not a notebook (it is not JSON)") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path.name} is not text in UTF-8; save it as UTF-8") from error
    except ValueError as error:
        raise InputError(f"{path.name} is not graded: {error}") from error
    if not isinstance(notebook, dict):
        raise InputError(f"{path.name} is not a notebook (it holds a {type(notebook).__name__})")
    if not isinstance(notebook.get("metadata", {}), dict):
        raise InputError(f"{path.name} is not a notebook (its metadata are no object)")
    _check_size(path, "its metadata", notebook.get("metadata"), LARGEST_METADATA)
    cells = list(_cells(path, notebook))
    if len(cells) > MOST_CELLS:
        raise InputError(_too_much(path, f"{len(cells):,} cells", f"{MOST_CELLS:,} are graded"))
    for number, cell in enumerate(cells, 1):
        if not _is_cell(cell):
            raise InputError(f"{path.name} is not a notebook (what stands in the place of cell {number} is none)")
        for part, largest in _PARTS.items():
            _check_size(path, f"the {part} of cell {number}", cell.get(part), largest)


class BoundedExporter(NotebookExporter):
    """nbgrader's reader and writer in `autograde` (nbgrader_config.py): what is too large is never parsed."""

    def from_filename(
        self, filename: str, resources: dict[str, Any] | None = None, **kw: Any
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Convert the notebook in a file; raise InputError where `check_notebook_file` does."""
        check_notebook_file(filename)
        return super().from_filename(filename, resources=resources, **kw)

    def from_file(
        self, file_stream: Any, resources: dict[str, Any] | None = None, **kw: Any
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Convert the notebook in an open file, as everything of this course reads it."""
        return self.from_notebook_node(read_notebook(file_stream.name), resources=resources, **kw)


def _cells(path: Path, notebook: dict[str, Any]) -> Iterator[Any]:
    """Yield the cells, those in the worksheets of old formats included."""
    sheets = notebook.get("worksheets", [])
    for holder in [notebook, *(sheets if isinstance(sheets, list) else [sheets])]:
        cells = holder.get("cells", []) if isinstance(holder, dict) else None
        if not isinstance(cells, list):
            raise InputError(f"{path.name} is not a notebook (it has no list of cells)")
        yield from cells


def _is_cell(cell: Any) -> bool:
    """Whether what nbformat and nbgrader look at has the type that they take for granted."""
    if not (isinstance(cell, dict) and isinstance(cell.get("cell_type", ""), str)):
        return False
    text = cell.get("source", cell.get("input", ""))
    lines = text if isinstance(text, list) else [text]
    return isinstance(cell.get("metadata", {}), dict) and all(isinstance(line, str) for line in lines)


def _check_size(path: Path, what: str, value: Any, largest: int) -> None:
    try:
        size = len(json.dumps(value, ensure_ascii=False).encode())
    except UnicodeEncodeError as error:
        raise InputError(f"{path.name} is not graded: {what} holds half of a character") from error
    if size > largest:
        raise InputError(_too_much(path, f"{size:,} bytes in {what}", f"{largest:,} are read"))


def _too_much(path: Path, found: str, limit: str) -> str:
    return f"{path.name} has {found}; at most {limit}: delete what does not belong to the task, clear the outputs"
