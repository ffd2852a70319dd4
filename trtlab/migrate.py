"""Code written for TensorRT 7, 8 or 10: which of its names are gone, and the same code with what only changed its name.

Names are told by how they are written: what is read of TensorRT's module or of one of its classes for sure, a method or
an attribute by its name, and where other libraries have such names too, by what its variable is called.
"""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from trtcpu.api_changes import Change, load_changes
from trtcpu.errors import InputError

_MODULES = ("tensorrt", "tensorrt_lean", "tensorrt_dispatch", "trtcpu.tensorrt")
# What variables are usually called, in code and in the replacements, and the class of what they hold.
_CUSTOMARY = {
    "builder": "Builder",
    "config": "IBuilderConfig",
    "network": "INetworkDefinition",
    "engine": "ICudaEngine",
    "context": "IExecutionContext",
    "registry": "IPluginRegistry",
    "layer": "ILayer",
    "tensor": "ITensor",
    "parser": "OnnxParser",
    "refitter": "Refitter",
    "allocator": "IGpuAllocator",
}
# Members whose names others' objects have too: found only on a variable that is called as TensorRT's objects are.
_COMMON = frozenset(
    "compute_precision debug_sync device_memory_size dilation dynamic_range execute execute_async free get_location "
    "get_shape get_strides kernel_size max_batch_size padding post_padding pre_padding precision refittable stride "
    "supports_model tensor_format transpose0 transpose1 window_size".split()
)
_RENAMED = re.compile(r"(\w+)((?:\.\w+)+)")
_USED_OTHERWISE = {"IBuilderConfig.min_timing_iterations", "IStreamReader"}  # have a new name that is used otherwise
_MAGIC = re.compile(r"^(\s*)[%!].*$", re.MULTILINE)
_UNREADABLE = (SyntaxError, ValueError, RecursionError)


class Finding(NamedTuple):
    """A use of a name that is gone: where it is (cells and lines from 1, columns from 0), its line, and the change.

    `new` is what the name only has to be replaced by, "" where more is to be done; `likely`: the name is not read of
    TensorRT's module, so that it may be someone else's.
    """

    cell: int | None
    line: int
    column: int
    code: str
    change: Change
    new: str
    likely: bool


class Migration(NamedTuple):
    """What is gone in a file, the cells that are not Python with the reason, and the content with names replaced."""

    findings: list[Finding]
    faults: list[tuple[int, str]]
    content: str


def migrate(path: Path, to: int) -> Migration:
    """Find what TensorRT `to`, 10 or 11, no longer has in a script or a notebook.

    Raises:
        InputError: the file cannot be read, or is no Python.
    """
    if path.suffix not in (".py", ".ipynb"):
        raise InputError(f"{path} is no Python script and no notebook; give a file that ends in .py or .ipynb")
    try:
        raw = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {path}: {reason}; give a file of UTF-8 text") from error
    search = _Search({name: change for name, change in load_changes().items() if float(change.gone_in) <= to})
    if path.suffix == ".ipynb":
        return _notebook(path, raw, search)
    try:
        found = list(search.findings(raw, None))
    except _UNREADABLE as error:
        raise InputError(f"{path} is not Python 3: {error}; mend it first") from error
    return Migration(found, [], _replaced(raw, found))


def _notebook(path: Path, raw: str, search: "_Search") -> Migration:
    try:
        notebook = json.loads(raw)
        cells = [(n, cell) for n, cell in enumerate(notebook["cells"], 1) if cell["cell_type"] == "code"]
        sources = ["".join(cell["source"]) for _, cell in cells]
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is no notebook of format 4: {error}; open and save it in Jupyter") from error
    findings, faults = [], []
    for (number, cell), text in zip(cells, sources, strict=True):
        try:
            found = [] if text.startswith("%%") else list(search.findings(text, number))
        except _UNREADABLE as error:
            faults.append((number, str(error)))
            continue
        findings += found
        new = _replaced(text, found)
        cell["source"] = new.splitlines(keepends=True) if isinstance(cell["source"], list) else new
    if not any(finding.new for finding in findings):
        return Migration(findings, faults, raw)
    indent = re.match(r"\{\r?\n( *)", raw)
    written = json.dumps(notebook, indent=len(indent[1]) if indent else None, ensure_ascii=raw.isascii())
    return Migration(findings, faults, written + raw[len(raw.rstrip()) :])


class _Search:
    """Looks for names that are gone; knows what TensorRT's module and its classes are called in what it has read."""

    def __init__(self, changes: dict[str, Change]) -> None:
        self.changes = changes
        self.modules: set[str] = set()
        self.classes: dict[str, str] = {}

    def findings(self, text: str, cell: int | None) -> Iterator[Finding]:
        """Yield what is gone in a script or a cell, in its order.

        Raises:
            SyntaxError, ValueError, RecursionError: it is no Python, lines for IPython aside.
        """
        nodes = list(ast.walk(ast.parse(_MAGIC.sub(lambda line: f"{line[1]}pass", text))))
        for node in nodes:
            self._take_import(node)
        lines = text.splitlines(keepends=True)
        uses = [node for node in nodes if isinstance(node, ast.Attribute | ast.ImportFrom)]
        for node in sorted(uses, key=lambda node: (node.end_lineno, node.end_col_offset)):
            line = lines[node.end_lineno - 1]
            for name, likely in self._gone(node):
                column = len(line.encode()[: node.end_col_offset].decode())
                if isinstance(node, ast.Attribute):
                    column -= len(node.attr)
                change = self.changes[name]
                yield Finding(cell, node.end_lineno, column, line.strip(), change, _new(change), likely)

    def _take_import(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            self.modules |= {one.asname or one.name for one in node.names if one.name in _MODULES}
        elif isinstance(node, ast.ImportFrom):
            names = {one.asname or one.name: one.name for one in node.names}
            if node.module in _MODULES:
                self.classes |= names
            else:  # such as from helpers.engine.backend import trt
                self.modules |= {local for local, name in names.items() if name in ("trt", "tensorrt")}

    def _of(self, node: ast.expr) -> str | None:
        """Return what an expression is of TensorRT: "" for its module, a class's name, None for anything else."""
        if isinstance(node, ast.Name):
            return "" if node.id in self.modules else self.classes.get(node.id)
        inside = isinstance(node, ast.Attribute) and self._of(node.value) == ""
        return node.attr if inside else None

    def _gone(self, node: ast.Attribute | ast.ImportFrom) -> list[tuple[str, bool]]:
        """Return the names that are gone that a node uses, and whether it only likely does."""
        if isinstance(node, ast.ImportFrom):
            return [(one.name, False) for one in node.names if node.module in _MODULES and one.name in self.changes]
        owner = self._of(node.value)
        if owner is not None:
            name = f"{owner}.{node.attr}".lstrip(".")
            return [(name, False)] if name in self.changes else []
        if node.attr.isupper() or not (self.modules or self.classes):
            return []
        candidates = [name for name in self.changes if name.endswith(f".{node.attr}")]
        called = ast.unparse(node.value).rpartition(".")[2].lower()
        kinds = {kind for word, kind in _CUSTOMARY.items() if word in called}
        fitting = [name for name in candidates if _kind(name) in kinds]
        likely = fitting or ([] if node.attr in _COMMON else candidates)
        return [(name, True) for name in likely[:1]]


def _kind(name: str) -> str:
    """Return the class whose member a name is; all layers are ILayer here."""
    owner = name.rpartition(".")[0]
    return "ILayer" if owner.endswith("Layer") else owner


def _new(change: Change) -> str:
    """Return the new name of what only has another one; "" for what is used otherwise now."""
    match = _RENAMED.fullmatch(change.replacement)
    if match is None or change.name in _USED_OTHERWISE:
        return ""
    owner, _, member = match[2][1:].rpartition(".")
    same = _kind(change.name) == (owner if match[1] == "trt" else _CUSTOMARY.get(match[1]))
    return member if same else ""


def _replaced(text: str, findings: list[Finding]) -> str:
    lines = text.splitlines(keepends=True)
    for one in reversed(findings):
        if one.new:
            line, old = lines[one.line - 1], one.change.name.rpartition(".")[2]
            lines[one.line - 1] = line[: one.column] + one.new + line[one.column + len(old) :]
    return "".join(lines)
