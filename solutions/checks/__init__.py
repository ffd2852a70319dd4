"""Hidden checks: they decide points. A notebook's test cell calls `grade_cell(cell, globals())` and nothing else."""

from typing import Any

__all__ = ["grade_cell"]


def __getattr__(name: str) -> Any:
    """Import what decides when it is first asked for: who only reads records loads no engine."""
    if name in __all__:
        from solutions.checks.core.decide import grade_cell

        return grade_cell
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
