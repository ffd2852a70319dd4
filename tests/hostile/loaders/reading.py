"""A loader with a hole: what it reads can take it over."""

from typing import Any


def evaluated(text: bytes) -> Any:
    """Return what a Python expression is worth."""
    return eval(text, globals())
