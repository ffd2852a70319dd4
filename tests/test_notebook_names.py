"""No cell of ours overwrites a name that a student may have defined.

A student's helper may have any name of one word, and any that an entry of the bank or a solution uses. What our own
cells assign after the first TODO cell has names of two words or more that none of these uses; what needs names of one
word does so inside a function. An import of Python's or a library's may have its usual name, such as `json` or `plt`.
"""

import ast
import re
from collections.abc import Iterable

import nbformat
import pytest

from helpers.course.steps import NOTEBOOKS
from tests.submissions.bank import Entry, load_bank, notebook_cells, patched_cells

_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_OUR_IMPORTS = ("from helpers", "from trtcpu")
_MAGIC = re.compile(r"^\s*[%!].*$", re.MULTILINE)


def assigned(source: str) -> set[str]:
    """Return the names that a cell binds in the notebook's namespace: also imports, loops, `with … as`, `:=`."""
    return set(_bound(ast.parse(_MAGIC.sub("pass", source)).body))


def borrowed(source: str) -> set[str]:
    """Return the names that a cell's own imports bind to what Python or a library calls so."""
    body = ast.parse(_MAGIC.sub("pass", source)).body
    imports = [node for node in body if isinstance(node, (ast.Import, ast.ImportFrom))]
    return set(_bound(node for node in imports if not ast.unparse(node).startswith(_OUR_IMPORTS)))


def _bound(nodes: Iterable[ast.AST]) -> Iterable[str]:
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, _OWN_SCOPE):
            yield from () if isinstance(node, ast.Lambda) else (node.name,)
        elif isinstance(node, _COMPREHENSIONS):
            yield from (inner.target.id for inner in ast.walk(node) if isinstance(inner, ast.NamedExpr))
        else:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
            if isinstance(node, ast.ExceptHandler) and node.name:
                yield node.name
            yield from _bound(ast.iter_child_nodes(node))


def _is_todo(cell: nbformat.NotebookNode) -> bool:
    return bool(cell.metadata.get("nbgrader", {}).get("solution"))


def _ours(step: str) -> set[str]:
    """Return the names that the step's given and test cells bind after its first TODO cell, libraries' left out."""
    cells = notebook_cells(step)
    first = next((index for index, cell in enumerate(cells) if _is_todo(cell)), len(cells))
    given = [cell.source for cell in cells[first + 1 :] if not _is_todo(cell)]
    return {name for source in given for name in assigned(source) - borrowed(source)}


def _students(entry: Entry) -> set[str]:
    """Return the names that an entry's TODO cells bind."""
    return {name for cell in patched_cells(entry) if _is_todo(cell) for name in assigned(cell.source)}


def _of_one_word(name: str) -> bool:
    return len(re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)) < 2


@pytest.mark.parametrize("step", NOTEBOOKS)
def test_no_cell_of_ours_takes_a_name_that_a_student_may_have_given(step: str) -> None:
    students = {name for entry in load_bank(step) for name in _students(entry)}
    taken = {name for name in _ours(step) if _of_one_word(name) or name in students}
    assert sorted(taken) == []


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import os.path, numpy as np\nfrom a import b as c, d", {"os", "np", "c", "d"}),
        ("for i, (j, k) in x:\n    l = [m for m in x if (n := m)]", {"i", "j", "k", "l", "n"}),
        ("with a as b:\n    try:\n        pass\n    except E as e:\n        c, *d = 1, 2", {"b", "e", "c", "d"}),
        ("def f(x):\n    y = 1\n\n\nclass G:\n    z = 1\n\nh = lambda w: w\na.b = c[0] = 1", {"f", "G", "h"}),
        ("%matplotlib inline\nx += 1\ny: int = 2", {"x", "y"}),
    ],
)
def test_what_a_cell_assigns_is_found_in_every_form(source: str, names: set[str]) -> None:
    assert assigned(source) == names


def test_only_names_of_libraries_are_borrowed() -> None:
    source = "import json\nfrom unittest import mock\nfrom helpers.course import QUICK\nrates = 1"
    assert borrowed(source) == {"json", "mock"}


@pytest.mark.parametrize(("name", "one"), [("rate", True), ("ENGINES", True), ("p95", False), ("Timer", True)])
def test_names_of_one_word(name: str, one: bool) -> None:
    assert _of_one_word(name) is one
    assert not _of_one_word(f"measured_{name}") and not _of_one_word("RawEngine") and not _of_one_word("PyTorchWork")
