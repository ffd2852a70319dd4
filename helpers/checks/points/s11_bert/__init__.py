"""Step 11: a BERT encoder with dynamic batch and length, its calibration, engines, sentence vectors and batches.

Reading order: encoders.py makes small ones, export.py, calibrator.py, engine.py and vectors.py ask for the five tasks.
"""

from helpers.checks.points.point import Check
from helpers.checks.points.s11_bert import calibrator, engine, export, vectors
from helpers.toys.bert.encoder import BATCHES, LENGTHS

__all__ = ["CHECKS", "PROMISES"]

PROMISES = (
    f"the opset is the one that is asked for, {export.OPSET} by default",
    "min, opt, max = batch {}, {}, {} by length {}, {}, {}".format(*BATCHES, *LENGTHS),
    f"calibration batches are {BATCHES[1]} × {LENGTHS[1]}",
    f"in the given order, all padded to {LENGTHS[-1]}",
    f"to {LENGTHS[0]} where that is shorter",
)
"""What the notebook's text says in figures."""

_STEP = "11_bert"

CHECKS = {
    "check_bert_export": Check(
        _STEP, "Export BERT", (export.FUNCTION,), (export.names, export.axes, export.opset, export.outputs)
    ),
    "check_bert_calibrator": Check(
        _STEP, "Calibrate on text", (calibrator.FUNCTION,), (calibrator.batches, calibrator.cache)
    ),
    "check_bert_engine": Check(
        _STEP,
        "BERT's engines",
        (engine.FUNCTION, calibrator.FUNCTION),
        (engine.plan, engine.profile, engine.half, engine.int8, engine.failures),
    ),
    "check_bert_pooling": Check(_STEP, "Sentence vectors", (vectors.POOL,), (vectors.pooled,)),
    "check_bert_batches": Check(
        _STEP, "Batches by length", (vectors.BATCHES,), (vectors.once, vectors.tight, vectors.static, vectors.edges)
    ),
}
