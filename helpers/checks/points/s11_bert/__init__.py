"""Step 11: a BERT encoder with dynamic batch and length, its calibration, engines, sentence vectors and batches.

Reading order: encoders.py makes small encoders; export.py, calibrator.py, engine.py, vectors.py have the five tasks.
"""

from helpers.checks.points.s11_bert.calibrator import CALIBRATE
from helpers.checks.points.s11_bert.engine import ENGINE
from helpers.checks.points.s11_bert.export import EXPORT, OPSET
from helpers.checks.points.s11_bert.vectors import BATCHING, POOLING
from helpers.toys.bert.encoder import BATCHES, LENGTHS

PROMISES = (
    f"The opset is {OPSET} by default",
    "min, opt, max = batch {}, {}, {} by length {}, {}, {}".format(*BATCHES, *LENGTHS),
    f"calibration batches are {BATCHES[1]} × {LENGTHS[1]}",
    f"in the given order, all padded to {LENGTHS[-1]}",
    f"at least to {LENGTHS[0]}",
)
"""Figures in the notebook's text."""

TASKS = (EXPORT, CALIBRATE, ENGINE, POOLING, BATCHING)
