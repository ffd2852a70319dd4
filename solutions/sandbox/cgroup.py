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
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from solutions.sandbox.room import Limits
from trtcpu.errors import EngineError

_CONTROLLERS = frozenset({"memory", "pids"})
_PATIENCE_S = 2.0
_PREFIX = "trt-lab-"
_FILES_2, _FILES_1 = (
    ("memory.max", "memory.current", ""),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
)
"""A limit, what is used, and how the names in memory.stat begin, by the version of the groups."""
_RECLAIMED = ("active_file", "inactive_file", "slab_reclaimable")
"""What counts as used of a group's memory, and is given back where somebody needs it."""


@functools.cache
def place() -> Path | None:
    """Return the group in which groups with limits can be made, the nearest to ours; None where there is none."""
    root, own = mounted(), _own("self")
    return nearest(root, own) if root and own is not None else None


def _own(pid: int | str) -> str | None:
    """Return a process's group of version 2, from the topmost one; None where it is in none."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            if line.startswith("0::/"):
                return line[4:]
    return None


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


def left_in_groups(own: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> Iterator[int]:
    """Yield what is left of the memory of each group with a limit that this process is in, of version 2 or 1.

    A container has such a limit; the machine's own memory says nothing there.
    """
    for line in own.read_text().splitlines() if own.is_file() else ():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        folder = root / "memory" if controllers else root
        limit, used, prefix = _FILES_1 if controllers else _FILES_2
        group = PurePosixPath(path.lstrip("/"))
        for part in (group, *group.parents):  # a container may see its own group as the topmost
            with contextlib.suppress(OSError, ValueError):  # none here; "max"
                most = int((folder / part / limit).read_text())
                taken = int((folder / part / used).read_text())
                said = dict(line.split() for line in (folder / part / "memory.stat").read_text().splitlines())
                yield most - taken + sum(int(said.get(prefix + name, 0)) for name in _RECLAIMED)


def group_of(pid: int) -> "Group | None":
    """Return the group of ours that a process is in; None where it is in none."""
    root, own = mounted(), _own(pid)
    return Group(root / own) if root and own and Path(own).name.startswith(_PREFIX) else None


class Group:
    """A group of ours, in `folder`: the kernel holds its limits, freezes it and ends it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def limited(cls, parent: Path, limits: Limits) -> "Group":
        """Make one below `parent`; what is not given there is not limited. Raises OSError where it cannot be made."""
        self = cls(parent / f"{_PREFIX}{uuid.uuid4().hex[:12]}")
        self._folder.mkdir()
        for name, value in {
            "memory.max": limits.memory_bytes,
            "memory.swap.max": 0,
            "memory.oom.group": 1,
            "pids.max": limits.threads,
        }.items():
            if (self._folder / name).exists():
                (self._folder / name).write_text(str(value))
        return self

    @classmethod
    def made(cls, limits: Limits) -> "Group | None":
        """Return a new group; None where none can be made."""
        parent = place()
        with contextlib.suppress(OSError):
            return cls.limited(parent, limits) if parent else None
        return None

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Let all that is in it stand still in the block.

        Raises:
            EngineError: the kernel did not freeze it.
        """
        (self._folder / "cgroup.freeze").write_text("1")
        try:
            ends = time.monotonic() + _PATIENCE_S
            while "frozen 1" not in self._read("cgroup.events"):
                if time.monotonic() > ends:
                    raise EngineError("a submission's control group could not be frozen while time is measured")
                time.sleep(0.001)
            yield
        finally:
            with contextlib.suppress(OSError):  # it has ended meanwhile
                (self._folder / "cgroup.freeze").write_text("0")

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
