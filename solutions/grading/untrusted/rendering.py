"""Pages of a stranger's notebook are rendered apart; of one that cannot be, a plain page is made."""

from typing import Any

from nbconvert.exporters import HTMLExporter
from nbconvert.exporters.exporter import Exporter
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell
from traitlets.config import Config

from solutions.grading.untrusted.apart import apart
from solutions.grading.untrusted.sanitise import without_html
from trtcpu.errors import InputError

_LONGEST_SOURCE = 20_000


class PageExporter(HTMLExporter):
    """nbconvert's exporter, whose template is filled in a child process with limits."""

    def from_notebook_node(
        self, nb: NotebookNode, resources: dict[str, Any] | None = None, **kw: Any
    ) -> tuple[str, dict[str, Any]]:
        """Return the page of a notebook; one that cannot be rendered says so, and shows its graded cells as text."""
        nb, resources = Exporter.from_notebook_node(self, nb, resources, **kw)
        told = {name: value for name, value in resources.items() if not callable(value)}
        config = Config({name: self.config[name] for name in self.section_names() if name in self.config})
        try:
            return apart(_page, type(self), config, nb, told), resources
        except InputError as error:
            return _page(type(self), config, _plain(nb, str(error)), told), resources


def _page(kind: type[PageExporter], config: Config, nb: NotebookNode, resources: dict[str, Any]) -> str:
    exporter = kind(config=config)
    exporter._preprocessors = []  # they have run
    return HTMLExporter.from_notebook_node(exporter, nb, resources)[0]


def _plain(notebook: NotebookNode, why: str) -> NotebookNode:
    """Return the cells that have a name, as text without markup; the course names cells, so that they are few."""
    note = f"**The notebook could not be rendered: {why}.** What follows are its tasks and checks, as plain text."
    plain = without_html(notebook)
    plain.metadata["language_info"] = NotebookNode(name="text")
    plain.cells = [new_markdown_cell(note), *(_text(cell) for cell in plain.cells if "nbgrader" in cell.metadata)]
    return plain


def _text(cell: NotebookNode) -> NotebookNode:
    about = cell.metadata.nbgrader
    outputs = cell.get("outputs", []) if about.get("grade") and not about.get("solution") else []
    return new_code_cell(cell.source[:_LONGEST_SOURCE], metadata=cell.metadata, outputs=outputs)
