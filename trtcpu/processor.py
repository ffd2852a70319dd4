"""How many cores there are."""

import os


def cores() -> int:
    """Return the number of logical cores that this process may use; macOS and Windows tell only how many there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
