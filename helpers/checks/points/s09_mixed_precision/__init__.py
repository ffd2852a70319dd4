"""Step 9, mixed precision: layers kept in FP16, an engine from a cache, sensitivity by group, and the choice.

Reading order: networks.py (networks of the checks), layers.py, engine.py, study.py (functions with known answers),
results.py (the files for the lab's model).
"""

from helpers.checks.points.s09_mixed_precision.engine import ENGINE, MIXED
from helpers.checks.points.s09_mixed_precision.layers import LAYERS
from helpers.checks.points.s09_mixed_precision.results import RESULTS
from helpers.checks.points.s09_mixed_precision.study import CHOOSE, STUDY

PROMISES = (f"profile is {MIXED.batches} for `input`",)
"""Figures in the notebook's text."""

TASKS = (LAYERS, ENGINE, STUDY, CHOOSE, RESULTS)
