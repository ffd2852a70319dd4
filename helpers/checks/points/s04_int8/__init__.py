"""Step 4: images to calibrate with, the calibrator that hands them over, the INT8 engine, the run on the lab's model.

Reading order: dataset.py, runs.py (the part of TensorRT that a probe plays), calibrator.py, builds.py with session.py
(a notebook's functions as a new kernel would have them), engine.py, calibration.py (what the run left).
"""

from helpers.checks.points.point import Check
from helpers.checks.points.s04_int8 import calibration, calibrator, dataset, engine

__all__ = ["CHECKS", "PROMISES"]

PROMISES = (
    f"float32, shape {dataset.SHAPE}",
    f"compared with a reference, to {dataset.TOLERANCE:.0e}".replace("e-0", "e-"),
    f"profile {engine.BATCHES} for `input`",
    f"have batches of {engine.BATCH}",
    f"in batches of {engine.BATCH}",
    f"at most {calibration.MOST_ERROR * 100:.0f} % off",
    f"at least {calibration.LEAST_AGREEMENT * 100:.0f} % of the images",
    f"half of them must be within {calibration.FAR * 100:.0f} %",
)
"""What the notebook's text says in figures."""

CHECKS = {
    "check_calibration_dataset": Check(
        "04_int8",
        "Calibration images",
        (dataset.FUNCTION,),
        (
            dataset.tensor,
            dataset.colours,
            dataset.cropped,
            dataset.steady,
            dataset.converted,
            dataset.number,
            dataset.spread,
        ),
    ),
    "check_calibrator": Check(
        "04_int8",
        "Calibrator",
        (calibrator.FUNCTION,),
        (
            calibrator.batches,
            calibrator.last_batch,
            calibrator.end,
            calibrator.again,
            calibrator.cache_written,
            calibrator.cache_read,
        ),
    ),
    "check_int8_engine": Check(
        "04_int8",
        "INT8 engine",
        (engine.FUNCTION, calibrator.FUNCTION),
        (
            engine.plan,
            engine.profile,
            engine.precision,
            engine.all_images,
            engine.cache_reused,
            engine.stale_cache,
            engine.failures,
        ),
    ),
    "check_int8_calibration": Check(
        "04_int8",
        "Calibrated engine",
        (),
        (calibration.artifact, calibration.input_range, calibration.loader_fits, calibration.images),
    ),
}
