"""Step 5, TensorRTInference(engine_path): runs any engine of one input and one output, and cleans up.

Reading order: engines.py (what it is tried on), probes.py (what is done with it), alive.py (what it leaves), points.py.
"""

from helpers.checks.points.point import Check
from helpers.checks.points.s05_inference import points
from helpers.checks.points.s05_inference.engines import MOST
from helpers.checks.points.s05_inference.probes import CLASS

__all__ = ["CHECKS", "PROMISES"]

PROMISES = (
    "makes one execution context",
    f"a batch of {MOST + 1}",
    f"The profile ends at {MOST}",
    "`AttributeError`, `NameError` and `TypeError` do not count",
)
"""What the notebook's text says in figures and fixed words."""

CHECKS = {
    "check_inference": Check(
        "05_inference",
        CLASS,
        (CLASS,),
        (
            points.outputs,
            points.inputs,
            points.copies,
            points.independent,
            points.synchronised,
            points.two_instances,
            points.shapes,
            points.batches,
            points.loading,
            points.interface,
            points.closed,
            points.instances,
            points.one_instance,
        ),
    )
}
