"""Step 14, explicit quantisation: Q/DQ nodes from a calibration cache, their places, and an engine that obeys them.

Reading order: networks.py (networks of the checks), reading.py (a quantised model without its pairs), pairs.py,
engine.py (engines, and the files for the lab's model).
"""

from helpers.checks.points.s14_explicit_quantisation import engine, pairs

PROMISES = (f"profile is {engine.BUILD.batches} for `input`",)
"""Figures in the notebook's text."""

TASKS = (pairs.NUMBERS, pairs.INSERTION, pairs.SKIPS, engine.BUILDING, engine.RESULTS)
