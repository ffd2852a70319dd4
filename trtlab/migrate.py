"""Code written for TensorRT 7, 8 or 10: which of its names are gone, and the same code with names that only changed.

A name read from TensorRT's module or one of its classes is certain. A method or attribute is found by its name. If
other libraries have that name too, its variable must be called as TensorRT's objects usually are.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from helpers.tools.files import read_text
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

    `new` is what the name only has to be replaced by, "" if more is to be done; `likely`: the name is not read of
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
    raw = read_text(path, "script" if path.suffix == ".py" else "notebook")
    changes = {name: change for name, change in load_changes().items() if float(change.gone_in) <= to}
    if path.suffix == ".ipynb":
        return _notebook(path, raw, changes)
    try:
        found = list(_findings(raw, None, changes, {}))
    except _UNREADABLE as error:
        raise InputError(f"{path} is not Python 3: {error}; mend it first") from error
    return Migration(found, [], _replaced(raw, found))


def _notebook(path: Path, raw: str, changes: Mapping[str, Change]) -> Migration:
    try:
        notebook = json.loads(raw)
        cells = [(n, cell) for n, cell in enumerate(notebook["cells"], 1) if cell["cell_type"] == "code"]
        sources = ["".join(cell["source"]) for _, cell in cells]
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is no notebook of format 4: {error}; open and save it in Jupyter") from error
    findings, faults, known = [], [], {}
    for (number, cell), text in zip(cells, sources, strict=True):
        try:
            found = [] if text.startswith("%%") else list(_findings(text, number, changes, known))
        except _UNREADABLE as error:
            faults.append((number, str(error)))
        else:
            findings += found
            new = _replaced(text, found)
            cell["source"] = new.splitlines(keepends=True) if isinstance(cell["source"], list) else new
    if not any(finding.new for finding in findings):
        return Migration(findings, faults, raw)
    indent = re.match(r"\{\r?\n( *)", raw)
    written = json.dumps(notebook, indent=len(indent[1]) if indent else None, ensure_ascii=raw.isascii())
    return Migration(findings, faults, written + raw[len(raw.rstrip()) :])


def _findings(text: str, cell: int | None, changes: Mapping[str, Change], known: dict[str, str]) -> Iterator[Finding]:
    """Yield what is gone in a script or a cell, in its order; `known` grows by what is imported.

    Raises:
        SyntaxError, ValueError, RecursionError: it is no Python, lines for IPython aside.
    """
    nodes = list(ast.walk(ast.parse(_MAGIC.sub(lambda line: f"{line[1]}pass", text))))
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            known |= _imported(node)
    lines = text.splitlines(keepends=True)
    for line, byte, change, new, likely in sorted(use for node in nodes for use in _uses(node, changes, known)):
        code = lines[line - 1]
        column = len(code.encode()[:byte].decode())
        yield Finding(cell, line, column, code.strip(), change, new, likely)


def _imported(node: ast.Import | ast.ImportFrom) -> dict[str, str]:
    """Return what an import calls things of TensorRT: "" is its module, the others are classes."""
    names = {one.asname or one.name: one.name for one in node.names}
    if isinstance(node, ast.ImportFrom) and node.module in _MODULES:
        return names
    # such as from helpers.engine.backend import trt
    modules = _MODULES if isinstance(node, ast.Import) else ("trt", "tensorrt")
    return {local: "" for local, name in names.items() if name in modules}


def _uses(
    node: ast.AST, changes: Mapping[str, Change], known: Mapping[str, str]
) -> list[tuple[int, int, Change, str, bool]]:
    """Return the uses of names that are gone in a node: line, byte in it, change, new name, and if it is only likely.

    An import is not renamed: what it is called in the rest of the file would have to be, too.
    """
    if isinstance(node, ast.ImportFrom) and node.module in _MODULES:
        return [(one.lineno, one.col_offset, changes[one.name], "", False) for one in node.names if one.name in changes]
    if not isinstance(node, ast.Attribute) or not known:
        return []
    line, byte = node.end_lineno, node.end_col_offset - len(node.attr.encode())
    value = ast.unparse(node.value)
    module, _, last = value.rpartition(".")
    owner = known.get(value, last if known.get(module) == "" else None)
    candidates = [name for name in changes if name.endswith(f".{node.attr}") and not node.attr.isupper()]
    kinds = {kind for word, kind in _CUSTOMARY.items() if word in last.lower()}
    fitting = [name for name in candidates if _kind(name) in kinds]
    likely = fitting or ([] if node.attr in _COMMON else candidates)
    names = likely[:1] if owner is None else [f"{owner}.{node.attr}".lstrip(".")]
    return [(line, byte, changes[name], _new(changes[name]), owner is None) for name in names if name in changes]


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
