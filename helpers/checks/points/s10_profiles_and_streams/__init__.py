"""Step 10: an engine with several profiles, which of them serves a batch, and batches through several streams.

Reading order: profiles.py (the engine, the choice); watch.py (what is recorded), probes.py (what is done with
run_batches), streams.py (what is asked of it).
"""

from helpers.checks.points.point import Check
from helpers.checks.points.s10_profiles_and_streams import profiles, streams

__all__ = ["CHECKS", "PROMISES"]

PROMISES = (*profiles.PROMISES, "raise an exception (`RuntimeError` is the usual one)")
"""What the notebook's text says in figures."""

CHECKS = {
    "check_profiles": Check(
        "10_profiles_and_streams",
        "Several profiles",
        (profiles.BUILD, profiles.PICK),
        (
            profiles.plan,
            profiles.profiles,
            profiles.half_precision,
            profiles.failures,
            profiles.nearest,
            profiles.outside,
        ),
    ),
    "check_streams": Check(
        "10_profiles_and_streams",
        "Batches through several streams",
        (streams.FUNCTION,),
        (
            streams.outputs,
            streams.copies,
            streams.pinned,
            streams.overlap,
            streams.awaited,
            streams.ends,
            streams.errors,
        ),
    ),
}
