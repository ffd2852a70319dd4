"""The memory that the work may take here: less than the machine has in a container or a SLURM job with a limit."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import psutil


def memory_bytes() -> int:
    """Return how much memory this process and those that it starts may take together."""
    return min([psutil.virtual_memory().total, *group_limits(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))])


def group_limits(own: Path, mounted: Path) -> Iterator[int]:
    """Yield the limits of a process's control groups, and of those that these are in, of version 2 or 1.

    Args:
        own: /proc/<pid>/cgroup; where there is none, there are no limits.
        mounted: where the groups are.
    """
    lines = own.read_text().splitlines() if own.is_file() else []
    for _, controllers, path in (line.split(":", 2) for line in lines):
        if not controllers:
            folder, name = mounted, "memory.max"
        elif "memory" in controllers.split(","):
            folder, name = mounted / "memory", "memory.limit_in_bytes"
        else:
            continue
        group = PurePosixPath(path.lstrip("/"))
        for part in (group, *group.parents):  # a container may see its own group as the topmost
            try:
                said = (folder / part / name).read_text().strip()
            except OSError:
                continue
            if said.isdigit():  # not "max"
                yield int(said)
