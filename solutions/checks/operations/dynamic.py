"""Reads what a submission measured and concluded about its dynamic engine."""

from typing import Any

from helpers.probes.answer import Notebook as Submission
from helpers.probes.answer import probe as operation

__all__ = ["saturation"]


@operation
def saturation(submission: Submission) -> dict[str, Any]:
    """Return `throughput` ([[batch, images a second], …], None where it is no such thing) and `saturation_batch`."""
    measured = submission.value("throughput")
    try:
        rows = [[int(batch), float(value)] for batch, value in measured.items()]
    except (AttributeError, TypeError, ValueError):
        rows = None
    said = submission.value("saturation_batch")
    try:
        said = None if isinstance(said, bool) or int(said) != said else int(said)
    except (TypeError, ValueError):
        said = None
    return {"throughput": rows, "saturation_batch": said}
