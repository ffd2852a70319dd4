"""Hidden checks: they decide points. A notebook's test cell calls `grade(cell, globals())` and nothing else."""

from solutions.checks.core.decide import grade

__all__ = ["grade"]
