"""Watches a sandboxed process from outside and ends it where it uses more than its limits."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

import psutil

from solutions.sandbox import scratch
from solutions.sandbox.cgroup import Group, left_in_groups
from solutions.sandbox.processes import born_at, end, memory_bytes, paused, threads, tree
from solutions.sandbox.room import Limits, Room
from trtcpu.errors import EngineError

MACHINE_FULL = "it was ended since the machine's"
"""How `Watch.ended_by` begins where the machine's disk or memory is full, whoever filled it."""

POLL_S = 0.1
_WALK_S = 1.0
"""Between two looks at a scratch on disk, whose files have to be counted."""
_FREE_BYTES, _FREE_FILES = 256 << 20, 1_000
"""What stays free of the scratch's file system and of the machine's memory, whoever fills them."""


class Watch:
    """Ends the process `pid` and all that it started where they pass `limits`; used as a context manager.

    Ten times a second a thread adds up memory, processes, the scratch folder and the time; where a control group can be
    had, the kernel holds memory and tasks besides; `besides` says of what else a limit was passed, as `ended_by` does.
    When the block ends, so does the process.

    Where the machine's own disk or memory is full, all processes are ended, and none is to blame: `machine_full`.
    """

    def __init__(self, pid: int, room: Room, limits: Limits, besides: Callable[[], str] = lambda: "") -> None:
        self.ended_by = ""
        """The limit that was passed, as a clause that begins with "it"; empty where none was."""
        self.peak_bytes = 0
        """The most memory that was seen at one time."""
        self.memory_bytes = 0
        """The memory that was seen last."""
        self._pid, self._room, self._limits, self._besides = pid, room, limits, besides
        self._born = born_at(pid)
        self._started = self._looks_at = time.monotonic()
        self._group = Group.made(limits)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._poll, name=f"watch-{pid}", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        with contextlib.suppress(OSError):  # where the machine's memory ends, it goes before the grader
            Path(f"/proc/{self._pid}/oom_score_adj").write_text("1000")
        self._gather(tree(self._pid, self._born))
        self._thread.start()

    @property
    def machine_full(self) -> bool:
        """Whether the process was ended since the machine's disk or memory is full, and passed no limit of its own."""
        return self.ended_by.startswith(MACHINE_FULL)

    def grant(self, seconds: float) -> None:
        """Let the process have so many seconds more: those that it had to wait for others."""
        self._started += seconds

    @property
    def process(self) -> tuple[int, str]:
        """The process's number, and when it was started: the number may go to another one."""
        return self._pid, self._born

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Let the process and all that it started stand still in the block; what cannot be stopped is ended."""
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(paused(*self.process))
            except EngineError:
                self._pass("it could not be stopped while others measured time")
            yield

    def stop(self) -> None:
        """Stop watching, and end the process where it still runs."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        end(self._pid, self._born)
        if self._group is not None:
            self._ask_the_kernel()
            self._group.close()
            self._group = None

    def __enter__(self) -> "Watch":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _poll(self) -> None:
        try:
            self._watch()
        except Exception as error:  # whatever it is: nobody else holds the limits
            self._pass(f"it was ended since it could not be watched: {error!r}")

    def _watch(self) -> None:
        most = self._limits.processes + 1
        with contextlib.suppress(OSError, AttributeError):  # among thousands of processes it must have its turn
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), -20)  # which only root may ask for
        while not self._over.wait(POLL_S) and (pids := tree(self._pid, self._born, most)):
            self._gather(pids)
            if len(pids) == most:  # at once: meanwhile they become more
                self._pass(f"it started more than its limit of {self._limits.processes} processes")
                return
            self.memory_bytes = memory_bytes(pids, self._limits.memory_bytes)
            self.peak_bytes = max(self.peak_bytes, self.memory_bytes)
            if passed := self._passed(threads(pids)) or self._besides() or _full(self._room.scratch):
                self._pass(passed)
                return
        self._ask_the_kernel()
        # What ended by itself may have met a full scratch or disk.
        self.ended_by = self.ended_by or scratch.passed(self._room.scratch, self._limits) or _full(self._room.scratch)

    def _ask_the_kernel(self) -> None:
        """Note where it was the kernel that ended the process, for its memory."""
        if not self.ended_by and self._group is not None and self._group.out_of_memory:
            self.ended_by = _over_memory(self._limits)

    def _gather(self, pids: list[int]) -> None:
        if self._group is not None:
            self._group.take(pids)

    def _pass(self, passed: str) -> None:
        self.ended_by = passed
        end(self._pid, self._born)

    def _passed(self, count: int) -> str:
        limits = self._limits
        if time.monotonic() - self._started > limits.seconds:
            return f"it took longer than its limit of {limits.seconds:g} s"
        if self.memory_bytes > limits.memory_bytes:
            return _over_memory(limits)
        if count > limits.threads:
            return f"it started more than its limit of {limits.threads} threads"
        if time.monotonic() < self._looks_at:
            return ""
        self._looks_at = time.monotonic() + (0.0 if self._room.scratch.is_mount() else _WALK_S)
        return scratch.passed(self._room.scratch, limits)


def _full(folder: Path) -> str:
    """Return that the machine's disk, on which a folder lies, or its memory is full; empty where neither is."""
    if min([psutil.virtual_memory().available, *left_in_groups()]) < _FREE_BYTES:
        return f"{MACHINE_FULL} memory is full: less than {_size(_FREE_BYTES)} are left"
    if folder.is_mount():
        return ""
    disk = os.statvfs(folder)
    if disk.f_bavail * disk.f_frsize < _FREE_BYTES:
        return f"{MACHINE_FULL} disk is full: less than {_size(_FREE_BYTES)} are left"
    if disk.f_files and disk.f_favail < _FREE_FILES:  # some file systems count none
        return f"{MACHINE_FULL} disk is full: it has room for less than {_FREE_FILES:,} files more"
    return ""


def _over_memory(limits: Limits) -> str:
    return f"it used more than its limit of {_size(limits.memory_bytes)} of memory"


def _size(number: int) -> str:
    return f"{number / (1 << 20):,.0f} MiB"
