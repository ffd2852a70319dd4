"""Hidden checks: they decide points. A notebook's test cell calls `grade_cell(cell, globals())` and nothing else."""

from solutions.checks.core.decide import grade_cell

__all__ = ["grade_cell"]
