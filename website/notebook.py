"""What readers see of an executed solution notebook."""

import re
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from website.repository import Repository

_MARKER = re.compile(r"^[ \t]*### (BEGIN|END) SOLUTION[^\n]*\n?", re.M)
_LINK = re.compile(r"""(href=["'][^"':#]+)\.ipynb(?=["'#])""")
_HEADING = re.compile(r"\A# (?P<title>.+)\n")
_LEAD = re.compile(r"^\*\*You will\*\*\s+(?P<text>.+?\.)(?=\s|\Z)", re.M | re.S)
FOLDED = "hide-input"  # MyST-NB's tag
_SOLUTION = {"code_prompt_show": "Try first, then look", "code_prompt_hide": "Fold the solution"}


def for_readers(path: Path, repository: Repository) -> NotebookNode:
    """Return the notebook in the file `path` as the site shows it, with every solution folded and without its markers.

    Cells whose code JupyterLab folds are folded here too, links to notebooks in outputs lead to their pages, and below
    the title are links to the student's notebook.
    """
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            _show_code_cell(cell)
    first = notebook.cells[0]
    first.source = _HEADING.sub(lambda found: f"{found[0]}\n{_links(path, repository)}\n", first.source, count=1)
    return notebook


def title(notebook: NotebookNode) -> str:
    """Return the heading that the notebook begins with.

    Raises:
        ValueError: it begins with something else.
    """
    found = _HEADING.match(notebook.cells[0].source)
    if found is None:
        raise ValueError(
            f"the notebook begins with {notebook.cells[0].source[:40]!r}; a first line `# Title` names its page"
        )
    return found["title"].strip()


def lead(notebook: NotebookNode) -> str:
    """Return what the first cell says after "**You will**", as a sentence; empty if it says nothing of the kind."""
    found = _LEAD.search(notebook.cells[0].source)
    text = "" if found is None else " ".join(found["text"].split())
    return text[:1].upper() + text[1:]


def _show_code_cell(cell: NotebookNode) -> None:
    source, markers = _MARKER.subn("", cell.source)
    cell.source = source.rstrip()
    for page in (output.data for output in cell.outputs if "text/html" in output.get("data", {})):
        page["text/html"] = _LINK.sub(r"\1.html", page["text/html"])
    if markers:
        cell.metadata |= {"mystnb": _SOLUTION, "tags": [*cell.metadata.get("tags", []), FOLDED, "solution"]}
    elif cell.metadata.get("jupyter", {}).get("source_hidden"):
        cell.metadata.tags = [*cell.metadata.get("tags", []), FOLDED]


def _links(path: Path, repository: Repository) -> str:
    """Markdown with links to the notebook that a student fills in, if it is published, and to its checks' messages."""
    name = path.parent.name
    task = f"labs/{name}/{name}.ipynb"
    links = []
    if repository.published and (repository.root / task).is_file():
        links.append(f"[Open in Colab]({repository.in_colab(task)}){{.button}}")
        links.append(f"[The task on GitHub]({repository.address(task)}){{.button .quiet}}")
    for messages in repository.files((f"labs/messages/{name[:2]}*.md",)):
        links.append(f"[Messages of the checks](../../{messages.as_posix()}){{.button .quiet}}")
    return " ".join(links) + "\n" if links else ""
