"""The text of a notebook's cells, however their lines end."""

import inspect
import linecache
import re
from typing import Any

__all__ = ["cell_of", "same_code", "with_newlines"]


def with_newlines(text: str) -> str:
    r"""Return a text with \n where it has \r\n or \r: editors write all three, and each ends a line of Python."""
    return re.sub(r"\r\n?", "\n", text)


def same_code(one: str, other: str) -> bool:
    """Return whether two texts are the same code, whichever characters end their lines."""
    return one.strip().splitlines() == other.strip().splitlines()


def cell_of(found: Any) -> str:
    """Return the source of the cell that defined a function or class; empty where it is not known.

    IPython keeps the lines that ran, cut at more characters than Python's lines, such as U+2028 in a string. `In` has
    the text.
    """
    members = vars(found).values() if inspect.isclass(found) else [found]
    function = next(filter(inspect.isfunction, members), None)
    if function is None:
        return ""
    lines = "".join(linecache.getlines(function.__code__.co_filename))
    cells = function.__globals__.get("In", ())
    return with_newlines(next((cell for cell in reversed(cells) if same_code(cell, lines)), lines))
