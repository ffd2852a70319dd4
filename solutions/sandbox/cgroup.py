"""A control group for a sandboxed process, where this user may make one: the kernel holds its memory and its tasks.

https://docs.kernel.org/admin-guide/cgroup-v2.html says what the files are. One can be made as root on most machines,
and in a session that systemd has given its own part of the tree; in most containers none. The watch holds the limits
in any case: this is the limit that nothing passes for a tenth of a second.
"""

import contextlib
import functools
import os
import time
import uuid
from collections.abc import Iterable
from pathlib import Path

from solutions.sandbox.room import Limits

__all__ = ["Group", "place"]

_CONTROLLERS = frozenset({"memory", "pids"})
_PATIENCE_S = 2.0


@functools.cache
def place() -> Path | None:
    """Return the group in which groups with limits can be made, the nearest to ours; None where there is none."""
    root = mounted()
    try:
        own = next(line[4:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::/"))
    except (OSError, StopIteration):
        return None
    return nearest(root, own) if root else None


def mounted() -> Path | None:
    """Return the folder of all groups; None where this machine has none of version 2."""
    with contextlib.suppress(OSError):  # only Linux has it
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            if line.partition(" - ")[2].startswith("cgroup2 "):
                return Path(line.split()[4])
    return None


def nearest(root: Path, own: str) -> Path | None:
    """Return the nearest group to `own`, upwards to `root`, that this user can write and whose groups have limits."""
    folder = root / own
    for group in (folder, *folder.parents):
        if not group.is_relative_to(root):
            return None
        with contextlib.suppress(OSError):
            given = _CONTROLLERS & {*(group / "cgroup.subtree_control").read_text().split()}
            if given and os.access(group, os.W_OK) and os.access(group / "cgroup.procs", os.W_OK):
                return group
    return None


class Group:
    """A group with limits below `parent`; what is not given there is not limited. `close` ends what is left in it."""

    def __init__(self, parent: Path, limits: Limits) -> None:
        """Raises OSError where the group cannot be made."""
        self._folder = parent / f"trt-lab-{uuid.uuid4().hex[:12]}"
        self._folder.mkdir()
        for name, value in {
            "memory.max": limits.memory_bytes,
            "memory.swap.max": 0,
            "memory.oom.group": 1,
            "pids.max": limits.threads,
        }.items():
            if (self._folder / name).exists():
                (self._folder / name).write_text(str(value))

    @classmethod
    def made(cls, limits: Limits) -> "Group | None":
        """Return a new group; None where none can be made."""
        parent = place()
        with contextlib.suppress(OSError):
            return cls(parent, limits) if parent else None
        return None

    def take(self, pids: Iterable[int]) -> None:
        """Move processes into it that are not there; what they start later is born there."""
        inside = set(self._read("cgroup.procs").split())
        for pid in pids:
            if str(pid) not in inside:
                with contextlib.suppress(OSError):  # it has ended
                    (self._folder / "cgroup.procs").write_text(str(pid))

    @property
    def out_of_memory(self) -> bool:
        """Whether the kernel has ended processes in it for their memory."""
        events = dict(line.split() for line in self._read("memory.events").splitlines())
        return events.get("oom_kill", "0") != "0"

    def close(self) -> None:
        """End what is left in it, and remove it."""
        with contextlib.suppress(OSError):
            (self._folder / "cgroup.kill").write_text("1")
        ends = time.monotonic() + _PATIENCE_S
        while time.monotonic() < ends:
            try:
                return self._folder.rmdir()
            except FileNotFoundError:
                return None
            except OSError:  # processes of it are still ending
                time.sleep(0.01)

    def _read(self, name: str) -> str:
        with contextlib.suppress(OSError):
            return (self._folder / name).read_text()
        return ""
