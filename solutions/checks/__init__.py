"""Hidden checks, which decide points. A notebook's test cell only calls `grade_cell(cell, globals())`."""

from typing import Any

__all__ = ["grade_cell"]


def __getattr__(name: str) -> Any:
    """Import grade_cell on first use, so that reading records loads no engine."""
    if name in __all__:
        from solutions.checks.core.decide import grade_cell

        return grade_cell
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
