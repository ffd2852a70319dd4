"""Step 16: cases are made from seeds, each with one mistake or none, and examiners are judged on fresh ones.

Reading order: sealed.py (what a case is), networks.py, then engine.py, clock.py and scores.py (what goes wrong in each
department), made.py, claims.py (what earns points), visible.py (the twelve cases that students get).
"""

from solutions.checks.s16_cases import claims

__all__ = ["claims"]
