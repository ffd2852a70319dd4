"""Step 7, evaluate_accuracy(model, val_loader, num_samples=1000): top-1 and top-5, and what the fast engines lose.

Reading order: known.py (a model with known answers), points.py.
"""

from helpers.checks.points.point import Check
from helpers.checks.points.s07_accuracy import points
from helpers.checks.points.s07_accuracy.known import FUNCTION

__all__ = ["CHECKS", "PROMISES"]

PROMISES = (
    f"(model, val_loader, num_samples={points.NUM_SAMPLES})",
    "a model that is always right has (100.0, 100.0)",
    f"FP16 may lose less than {points.LOSS['fp16']} points of top-1 against the FP32 engine, "
    f"INT8 less than {points.LOSS['int8']}",
)
"""What the notebook's text says in figures."""

_COUNTING = (points.top1, points.top5, points.percent, points.ragged, points.num_samples, points.ties, points.models)

CHECKS = {
    "check_accuracy": Check("07_accuracy", FUNCTION, (FUNCTION,), _COUNTING),
    "check_accuracy_results": Check(
        "07_accuracy", points.ARTIFACT, (), (points.table, points.fp16_loss, points.int8_loss)
    ),
}
