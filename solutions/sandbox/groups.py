"""Control groups: what memory is left in ours, and a group for a sandboxed process if this user may make one.

https://docs.kernel.org/admin-guide/cgroup-v2.html says what the files are. A group can be made as root on most
machines, and in a session that systemd has given its own part of the tree; in most containers none. The watch holds the
limits in any case: a group's limit is the one that nothing passes for a tenth of a second.
"""

import contextlib
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

import psutil

from solutions.sandbox.room import Limits

_ROOT, _OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
# A limit, what is used, and how the names in memory.stat begin, by the version of the groups.
_FILES_2, _FILES_1 = (
    ("memory.max", "memory.current", ""),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
)
# What counts as used of a group's memory, and is given back if somebody needs it.
_RECLAIMED = ("active_file", "inactive_file", "slab_reclaimable")


def free_memory() -> int:
    """Return how many bytes of memory this process can still take: of the machine's, and of each group's limit.

    A container has such a limit, of version 2 or 1; the machine's own memory says nothing there.
    """
    left = [psutil.virtual_memory().available]
    for controllers, group in _own_groups():
        folder, (limit, used, prefix) = (_ROOT / "memory", _FILES_1) if controllers else (_ROOT, _FILES_2)
        for part in (group, *group.parents):  # a container may see its own group as the topmost
            with contextlib.suppress(OSError, ValueError):  # none here; "max"
                most = int((folder / part / limit).read_text())
                taken = int((folder / part / used).read_text())
                said = _table(folder / part / "memory.stat")
                left.append(most - taken + sum(int(said.get(prefix + name, 0)) for name in _RECLAIMED))
    return min(left)


def _own_groups() -> Iterator[tuple[str, PurePosixPath]]:
    """Yield our groups, those of version 2 and of version 1's memory: their controllers, and paths from the topmost."""
    with contextlib.suppress(OSError):  # only Linux has it
        for _, controllers, path in (line.split(":", 2) for line in _OWN.read_text().splitlines()):
            if not controllers or "memory" in controllers.split(","):
                yield controllers, PurePosixPath(path.lstrip("/"))


def _table(path: Path) -> dict[str, str]:
    with contextlib.suppress(OSError):
        return dict(line.split() for line in path.read_text().splitlines())
    return {}


class Group:
    """A group of ours, in `folder`: the kernel holds its memory and its tasks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def made(cls, limits: Limits) -> "Group | None":
        """Return a new group in the nearest of those above us that has memory to give; None if none can be made."""
        for own in (path for controllers, path in _own_groups() if not controllers):
            for parent in (own, *own.parents):
                folder = _ROOT / parent / f"trt-lab-{uuid.uuid4().hex[:12]}"
                with contextlib.suppress(OSError):
                    return cls._limited(folder, limits)
        return None

    @classmethod
    def _limited(cls, folder: Path, limits: Limits) -> "Group":
        folder.mkdir()
        try:
            for name, value in (
                ("memory.max", limits.memory_bytes),
                ("memory.oom.group", 1),
                ("pids.max", limits.threads),
            ):
                with (folder / name).open("r+") as file:  # never made: the kernel has it or not
                    file.write(str(value))
        except OSError:
            folder.rmdir()
            raise
        return cls(folder)

    def take(self, pids: Iterable[int]) -> None:
        """Move processes into it that are not there; what they start later is born there."""
        inside = set((self._folder / "cgroup.procs").read_text().split())
        for pid in pids:
            if str(pid) not in inside:
                with contextlib.suppress(OSError):  # it has ended
                    (self._folder / "cgroup.procs").write_text(str(pid))

    @property
    def out_of_memory(self) -> bool:
        """Whether the kernel has ended processes in it for their memory."""
        return _table(self._folder / "memory.events").get("oom_kill", "0") != "0"

    def close(self) -> None:
        """End what is left in it, and remove it."""
        with contextlib.suppress(OSError):
            (self._folder / "cgroup.kill").write_text("1")
        for _ in range(200):  # processes of it may still be ending
            with contextlib.suppress(OSError):
                return self._folder.rmdir()
            time.sleep(0.01)
