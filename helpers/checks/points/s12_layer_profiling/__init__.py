"""Step 12: profile_layers and slowest; layer_flops, moved_bytes and bound; read_trtexec_profile.

Reading order: probes.py (a context that reports known times, layers of known shapes, files), times.py, bounds.py,
files.py.
"""

from helpers.checks.points.point import Check
from helpers.checks.points.s12_layer_profiling import bounds, files, times
from helpers.checks.points.s12_layer_profiling.probes import BOUND, BYTES, FLOPS, PROFILE, READ, SLOWEST

__all__ = ["CHECKS", "PROMISES"]

PROMISES = (
    f"profile_layers(context, run, runs={times.RUNS}, warmup={times.WARM_UP})",
    "counts with the sum",
    "counts as 0 for it",
    "`node.kernel` is that window's shape (height, width)",
    "**ValueError with the path in its message**",
)
"""What the notebook's text says in figures and fixed words."""

_STEP = "12_layer_profiling"

CHECKS = {
    "check_layer_times": Check(_STEP, "Layer times", (PROFILE, SLOWEST), times.POINTS),
    "check_layer_bounds": Check(_STEP, "What bounds a layer", (FLOPS, BYTES, BOUND), bounds.POINTS),
    "check_trtexec_profile": Check(_STEP, "trtexec's profile", (READ,), files.POINTS),
}
