"""Step 14, explicit quantisation: Q/DQ nodes from a calibration cache, where they go, and an engine that obeys them.

Reading order: networks.py (what the checks quantise), reading.py (a quantised model without its pairs), weights.py,
placement.py, engine.py, results.py (the run on the lab's model).
"""

from helpers.checks.points.point import Check
from helpers.checks.points.s14_explicit_quantisation import engine, placement, results, weights

__all__ = ["CHECKS", "PROMISES"]

PROMISES = (f"profile is {engine.BATCHES} for `input`",)
"""What the notebook's text says in figures."""

_STEP = "14_explicit_quantisation"

CHECKS = {
    "check_pair": Check(
        _STEP,
        "Eight bits and two nodes",
        (weights.QUANTIZE, weights.PAIR),
        (weights.scales, weights.codes, weights.silent, weights.pair),
    ),
    "check_insertion": Check(
        _STEP,
        "Pairs at the weighted layers",
        (placement.WEIGHTED_INPUTS, placement.INSERT),
        (
            placement.places,
            placement.through,
            placement.activations,
            placement.weights,
            placement.once,
            placement.lacking,
        ),
    ),
    "check_skip_branches": Check(
        _STEP, "Skip branches", (placement.SKIP_BRANCHES,), (placement.skips, placement.both, placement.others)
    ),
    "check_explicit_engine": Check(
        _STEP, "Explicit engine", (engine.FUNCTION,), (engine.plan, engine.profile, engine.typed, engine.failures)
    ),
    "check_explicit_results": Check(
        _STEP, "Explicit INT8 of the lab's model", (), (results.file, results.engine, results.record)
    ),
}
