"""A notebook from a stranger is bounded: its file before nbformat or nbgrader reads it, its outputs while it runs.

nbgrader walks all cells in a dozen preprocessors, so that 60,000 empty ones took it 161 s. Outputs are counted as the
kernel's messages come, whichever cell's output they change.
"""

import json
from pathlib import Path
from typing import Any

import fastjsonschema
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
_OUTPUTS = ("stream", "display_data", "execute_result", "error", "update_display_data")
# Characters that an output takes in a page beside what it says: a million of one letter is no small page.
_OVERHEAD = 100
# Cells whose limits may be used up in one notebook.
_CELLS = 10

# The types that nbformat and nbgrader take for granted; old formats have their cells in worksheets.
_TEXT = {"type": ["string", "array"], "items": {"type": "string"}}
_CELL = {"cell_type": {"type": "string"}, "source": _TEXT, "input": _TEXT, "metadata": {"type": "object"}}
_check_types = fastjsonschema.compile(
    {
        "definitions": {"cells": {"type": "array", "items": {"type": "object", "properties": _CELL}}},
        "type": "object",
        "properties": {
            "metadata": {"type": "object"},
            "cells": {"$ref": "#/definitions/cells"},
            "worksheets": {
                "type": "array",
                "items": {"type": "object", "properties": {"cells": {"$ref": "#/definitions/cells"}}},
            },
        },
    }
)
_FAULTS = {
    json.JSONDecodeError: "is not a notebook (it is not JSON)",
    UnicodeDecodeError: "is not text in UTF-8; save it as UTF-8",
    fastjsonschema.JsonSchemaValueException: "is not a notebook ({}, not {})",
}


def check_notebook_file(path: Path) -> None:
    """Accept a notebook that can be graded in the time that a notebook may take.

    Raises:
        InputError: it is no notebook, or larger than any that was written by hand; the message names the limit.
    """
    data = read_regular(path, LARGEST_BYTES, "notebook")
    try:
        notebook = loads(data, largest=LARGEST_BYTES, values=MOST_VALUES)
        _check_types(notebook, name_prefix="notebook")
    except ValueError as error:
        fault = _FAULTS.get(type(error), "is not graded: {}")
        found = type(getattr(error, "value", None)).__name__
        raise InputError(f"{path.name} {fault.format(error, found)}") from error
    holders = [notebook, *notebook.get("worksheets", [])]
    cells = [cell for holder in holders for cell in holder.get("cells", [])]
    _check_most(path, len(cells), MOST_CELLS, "cells")
    _check_size(path, "its metadata", notebook.get("metadata"), LARGEST_METADATA)
    for number, cell in enumerate(cells, 1):
        for part, largest in _PARTS.items():
            _check_size(path, f"the {part} of cell {number}", cell.get(part), largest)


class BoundedExporter(NotebookExporter):
    """nbgrader's reader and writer in `autograde` (nbgrader_config.py): what is too large is never parsed."""

    def from_filename(
        self, filename: str, resources: dict[str, Any] | None = None, **kw: Any
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Convert the notebook in a file; raise InputError if `check_notebook_file` does."""
        check_notebook_file(Path(filename))
        return super().from_filename(filename, resources=resources, **kw)

    def from_file(
        self, file_stream: Any, resources: dict[str, Any] | None = None, **kw: Any
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Convert the notebook in an open file, as everything of this course reads it."""
        return self.from_notebook_node(read_notebook(file_stream.name), resources=resources, **kw)


def _check_size(path: Path, what: str, value: Any, largest: int) -> None:
    try:
        size = len(json.dumps(value, ensure_ascii=False).encode())
    except UnicodeEncodeError as error:
        raise InputError(f"{path.name} is not graded: {what} holds half of a character") from error
    _check_most(path, size, largest, f"bytes in {what}")


def _check_most(path: Path, found: int, most: int, what: str) -> None:
    if found > most:
        rest = "delete what does not belong to the task, clear the outputs"
        raise InputError(f"{path.name} has {found:,} {what}; at most {most:,} are read: {rest}")


class OutputRoom:
    """Lets outputs pass up to `limit` characters a cell, ten times that in all; a display's update counts as an output.

    nbclient puts an update into every output of that display, and keeps what widgets say; it bounds neither.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._cell, self._all = limit, limit * _CELLS

    def next_cell(self) -> None:
        """Begin a cell: it has the whole limit, as far as the notebook has."""
        self._cell = min(self.limit, max(self._all, 1))

    def admit(self, message: dict[str, Any], places: int = 1) -> dict[str, Any] | None:
        """Return a kernel's message if it fits, a line that says so for the first that does not, None for later ones.

        Args:
            message: what the kernel sent. A malformed one may raise anything.
            places: how many outputs it changes.
        """
        if message["msg_type"].startswith("comm"):
            return None  # widgets: their state would be kept in the notebook, and no page shows them
        if message["msg_type"] not in _OUTPUTS:
            return message
        if self._cell <= 0:
            return None
        size = _characters_in_page(message["content"]) * places
        self._cell -= size
        if self._cell > 0:
            self._all -= size
            return message
        text = f"\n[more than {self.limit:,} characters of output; the rest was dropped]\n"
        header = {**message["header"], "msg_type": "stream"}
        return {**message, "header": header, "msg_type": "stream", "content": {"name": "stdout", "text": text}}


def _characters_in_page(content: dict[str, Any]) -> int:
    said = [content.get(part, "") for part in ("text", "traceback", "evalue")]
    return _OVERHEAD + sum(len(str(part)) for part in (*said, *content.get("data", {}).values()))
