"""The page that lists TensorRT's and pycuda's names, each with the steps whose code uses it."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode

MANIFEST = "trtcpu/api/manifest.json"
_PLAIN = {"parse", "profiler"}  # the one-word members that are TensorRT's in every notebook
_MAGIC = re.compile(r"^[%!].*$", re.M)
_DOTTED = re.compile(r"(trt|cuda)\.\w+(\.[A-Z]\w+)*")
_PARTS = {"trt": "Classes and enumerations", "": "Methods and properties", "cuda": "pycuda"}


def page(root: Path, notebooks: dict[str, NotebookNode]) -> str:
    """Return the page in Markdown; `notebooks` are the steps' by their path below the repository `root`."""
    owners = _owners(json.loads((root / MANIFEST).read_text())["surface"])
    used: dict[str, list[str]] = {}
    for path, notebook in notebooks.items():
        for name in {name for cell in notebook.cells for name in _names(cell, owners)}:
            used.setdefault(name, []).append(f"[{int(Path(path).name[:2])}]({path})")
    lines = [
        "# TensorRT's names\n",
        "The names of TensorRT and pycuda in the lab's code, with the steps that use them.",
    ]
    for part, title in _PARTS.items():
        lines.append(f"\n## {title}\n")
        for name in sorted((name for name in used if name.rpartition(".")[0].partition(".")[0] == part), key=str.lower):
            of = f" of {', '.join(owners[name])}" if name in owners else ""
            lines.append(f"- `{name}`{of}: {', '.join(used[name])}")
    return "\n".join(lines) + "\n"


def _owners(surface: dict) -> dict[str, list[str]]:
    """The classes of each method and property of the manifest, by its name, without those that only inherit it.

    Members that are common words are left out: a notebook may mean something else by them.
    """
    owners: dict[str, list[str]] = {}
    for owner, about in surface.items():
        for name, member in about.get("members", {}).items():
            known = member["kind"] in ("method", "property") and (name in _PLAIN or "_" in name.strip("_"))
            if known and not set(about["bases"]) & set(owners.get(name, ())):
                owners.setdefault(name, []).append(owner)
    return owners


def _names(cell: NotebookNode, owners: dict[str, list[str]]) -> Iterator[str]:
    """The names of TensorRT and pycuda in a cell's code."""
    nodes = ast.walk(ast.parse(_MAGIC.sub("", cell.source))) if cell.cell_type == "code" else ()
    for node in nodes:
        if isinstance(node, ast.Attribute):
            if _DOTTED.fullmatch(dotted := ast.unparse(node)):
                yield dotted
            elif node.attr in owners:
                yield node.attr
        elif isinstance(node, ast.FunctionDef) and node.name in owners:
            yield node.name
