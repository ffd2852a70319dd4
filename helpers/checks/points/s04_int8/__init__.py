"""Step 4: calibration images, the calibrator, the INT8 engine, and the calibration of the lab's model.

Reading order: dataset.py, calibrator.py, engine.py, calibration.py (the files of the run).
"""

from helpers.checks.points.s04_int8 import calibration, calibrator, dataset, engine

PROMISES = (
    f"float32, shape {dataset.SHAPE}",
    f"compared with a reference, to {dataset.TOLERANCE:.0e}".replace("e-0", "e-"),
    f"profile {engine.BATCHES} for `input`",
    f"in batches of {engine.BATCH}",
    f"at most {calibration.MOST_ERROR * 100:.0f} % off",
    f"at least {calibration.LEAST_AGREEMENT * 100:.0f} % of the images",
)
"""Figures in the notebook's text."""

TASKS = (dataset.DATASET, calibrator.CALIBRATOR, engine.ENGINE, calibration.RUN, calibration.SPEED)
