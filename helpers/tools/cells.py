"""The text of a notebook's cells, however their lines end."""

import ast
import inspect
import linecache
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

_RUNS = re.compile(r"get_ipython\(\)\.run_cell_magic\((['\"](?:capture|time)['\"], .*)\)$")


def with_newlines(text: str) -> str:
    r"""Return a text with \n where it has \r\n or \r: editors write all three, and each ends a line of Python."""
    return re.sub(r"\r\n?", "\n", text)


def same_code(one: str, other: str) -> bool:
    """Return whether two texts are the same code, whichever characters end their lines."""
    return one.strip().splitlines() == other.strip().splitlines()


@lru_cache(maxsize=1024)  # each use of a name looks through the cells
def as_python(cell: str) -> str:
    """Return a cell with IPython's magics as it runs them; as it is if IPython is not there.

    Of a cell that begins with %%time or %%capture it is what stands below that line.
    """
    try:
        from IPython.core.inputtransformer2 import TransformerManager
    except ImportError:
        return cell
    cell = with_newlines(cell)
    with suppress(SyntaxError):
        cell = TransformerManager().transform_cell(cell)
        if inner := _RUNS.match(cell):
            return as_python(ast.literal_eval(f"({inner[1]})")[-1])
    return cell


@lru_cache(maxsize=1024)
def defines(cell: str, name: str) -> bool:
    """Return whether a cell defines a function or class `name`; of one that is no Python, whether a line looks so."""
    if not re.search(rf"^(def|class) {re.escape(name)}\b", cell, re.MULTILINE):
        return False
    try:
        return any(getattr(statement, "name", None) == name for statement in ast.parse(cell).body)
    except SyntaxError:
        return True


def cells_of(namespace: Mapping[str, Any]) -> list[str]:
    """Return the cells that ran, IPython's `In`; none if the notebook gave that name to a value of its own."""
    cells = namespace.get("In")
    return cells if isinstance(cells, list) and all(isinstance(cell, str) for cell in cells) else []


def cell_of(found: Any, name: str) -> str:
    """Return the source of the cell that defined a function or class as `name`; empty if it is not known.

    IPython keeps the lines that ran, cut at more characters than Python's lines, such as U+2028 in a string. `In` has
    the text.
    """
    members = vars(found).values() if inspect.isclass(found) else [found]
    functions = map(inspect.unwrap, filter(inspect.isfunction, members))  # what a decorator was given
    written = (one for one in functions if getattr(one, "__qualname__", "").partition(".")[0] == name)
    function = next(filter(inspect.isfunction, written), None)
    if function is None:
        return ""
    lines = "".join(linecache.getlines(function.__code__.co_filename))
    cells = cells_of(function.__globals__)
    return with_newlines(next((cell for cell in reversed(cells) if same_code(cell, lines)), lines))


def source_of(definition: Any) -> str:
    """Return the source of a notebook's function or class, which its cell may define beside others and then call."""
    cell = ast.parse(cell_of(definition, definition.__name__))
    found = [node for node in cell.body if getattr(node, "name", "") == definition.__name__]
    return ast.unparse(found[-1])
