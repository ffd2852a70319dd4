"""Control groups: what memory is left in ours, and a group for a sandboxed process where this user may make one.

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
_PATIENCE_S = 2.0
# A limit, what is used, and how the names in memory.stat begin, by the version of the groups.
_FILES_2, _FILES_1 = (
    ("memory.max", "memory.current", ""),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
)
# What counts as used of a group's memory, and is given back where somebody needs it.
_RECLAIMED = ("active_file", "inactive_file", "slab_reclaimable")


def free_memory() -> int:
    """Return how many bytes of memory this process can still take: of the machine's, and of each group's limit."""
    return min([psutil.virtual_memory().available, *_left_in_groups()])


def _left_in_groups() -> Iterator[int]:
    """Yield what is left of the memory of each group with a limit that this process is in, of version 2 or 1.

    A container has such a limit; the machine's own memory says nothing there.
    """
    for controllers, group in _own_groups():
        if controllers and "memory" not in controllers.split(","):
            continue
        folder = _ROOT / "memory" if controllers else _ROOT
        limit, used, prefix = _FILES_1 if controllers else _FILES_2
        for part in (group, *group.parents):  # a container may see its own group as the topmost
            with contextlib.suppress(OSError, ValueError):  # none here; "max"
                most = int((folder / part / limit).read_text())
                taken = int((folder / part / used).read_text())
                said = _table(folder / part / "memory.stat")
                yield most - taken + sum(int(said.get(prefix + name, 0)) for name in _RECLAIMED)


def _own_groups() -> list[tuple[str, PurePosixPath]]:
    """Return our groups' controllers, none for that of version 2, and their paths below the topmost."""
    with contextlib.suppress(OSError):  # only Linux has it
        lines = [line.split(":", 2) for line in _OWN.read_text().splitlines()]
        return [(controllers, PurePosixPath(path.lstrip("/"))) for _, controllers, path in lines]
    return []


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
        """Return a new group in the nearest of those above us that has memory to give; None where none can be made."""
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
        ends = time.monotonic() + _PATIENCE_S
        while time.monotonic() < ends:
            try:
                return self._folder.rmdir()
            except OSError:  # processes of it are still ending
                time.sleep(0.01)
