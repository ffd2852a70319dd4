"""Step 9, mixed precision: layers kept in FP16, an engine from a cache, sensitivity by group, and the choice.

Reading order: networks.py (what the checks build), layers.py, engine.py, study.py (functions with known answers),
results.py (the run on the lab's model).
"""

from helpers.checks.points.point import Check
from helpers.checks.points.s09_mixed_precision import engine, layers, results, study

__all__ = ["CHECKS", "PROMISES"]

PROMISES = (f"profile is {engine.BATCHES} for `input`",)
"""What the notebook's text says in figures."""

_STEP = "09_mixed_precision"

CHECKS = {
    "check_kept_layers": Check(
        _STEP,
        "Layers kept in FP16",
        (layers.FUNCTION,),
        (layers.precisions, layers.types, layers.flags, layers.unknown),
    ),
    "check_mixed_engine": Check(
        _STEP, "Mixed engine", (engine.FUNCTION,), (engine.plan, engine.profile, engine.precision, engine.failures)
    ),
    "check_sensitivity": Check(_STEP, "Sensitivity", (study.FUNCTION,), (study.kept, study.alone, study.once)),
    "check_choice": Check(
        _STEP, "The smallest set", (study.CHOICE,), (study.fewest, study.none_needed, study.unreachable)
    ),
    "check_mixed_results": Check(_STEP, "Mixed precision of the lab's model", (), (results.table, results.engine)),
}
