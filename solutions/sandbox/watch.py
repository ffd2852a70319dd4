"""Watches a sandboxed process from outside and ends it if it uses more than its limits."""

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from solutions.sandbox import scratch
from solutions.sandbox.groups import Group, free_memory
from solutions.sandbox.processes import born_at, end, memory_bytes, paused, threads, tree
from solutions.sandbox.room import Limits, Room
from trtcpu.errors import EngineError

# How `Watch.ended_by` begins if the machine's disk or memory is full, whoever filled it.
MACHINE_FULL = "it was ended since the machine's"

POLL_S = 0.1
# Between two looks at a scratch on disk, whose files have to be counted.
_WALK_S = 1.0
# What stays free of the scratch's file system and of the machine's memory, whoever fills them.
_FREE_BYTES, _FREE_FILES = 256 << 20, 1_000
_MIB, _MOST = 1 << 20, 1 << 62


class Watch:
    """Ends the process `pid` and all that it started if they pass `limits`; looks at once, until `stop`.

    Ten times a second a thread adds up memory, processes, the scratch folder and the time; if a control group can be
    had, the kernel holds memory and tasks besides.

    Where the machine's own disk or memory is full, all processes are ended, and none is to blame: `machine_full`.

    Args:
        kernel: whether it sends messages to this process, whose memory they take.

    Attributes:
        ended_by: The limit that was passed, as a clause that begins with "it"; empty if none was.
        process: The process's number, and when it was started: the number may go to another one.
    """

    def __init__(self, pid: int, room: Room, limits: Limits, kernel: bool = False) -> None:
        self.ended_by = ""
        self.process = pid, born_at(pid)
        self._room, self._limits = room, limits
        self._started = self._looks_at = time.monotonic()
        # ZeroMQ counts whole messages: one with parts without end passes each limit of its own
        self._readable = memory_bytes([os.getpid()], _MOST) + limits.unread_bytes if kernel else _MOST
        self._group = Group.made(limits)
        self._over = threading.Event()
        with contextlib.suppress(OSError):  # if the machine's memory ends, it goes before the grader
            Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
        self._thread = threading.Thread(target=self._poll, name=f"watch-{pid}", daemon=True)
        self._thread.start()

    @property
    def machine_full(self) -> bool:
        """Whether the process was ended since the machine's disk or memory is full, and passed no limit of its own."""
        return self.ended_by.startswith(MACHINE_FULL)

    def grant(self, seconds: float) -> None:
        """Let the process have so many seconds more: those that it had to wait for others."""
        self._started += seconds

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
        """Stop watching, and end the process if it still runs."""
        self._over.set()
        self._thread.join()
        end(*self.process)
        if self._group is not None:
            if not self.ended_by and self._group.out_of_memory:
                self.ended_by = _over_memory(self._limits)
            self._group.close()
            self._group = None

    def _poll(self) -> None:
        try:
            passed = self._looked()
        except Exception as error:  # whatever it is: nobody else holds the limits
            passed = f"it was ended since it could not be watched: {error!r}"
        self._pass(passed)

    def _pass(self, passed: str) -> None:
        self.ended_by = self.ended_by or passed
        end(*self.process)

    def _looked(self) -> str:
        """Look until a limit is passed or the process ends; what ended by itself may have met a full scratch."""
        with contextlib.suppress(OSError, AttributeError):  # among thousands of processes it must have its turn
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), -20)  # which only root may ask for
        while (pids := tree(*self.process, self._limits.processes + 1)) and not self._over.wait(POLL_S):
            if self._group is not None:
                self._group.take(pids)
            if passed := self._passed(pids) or _full(self._room.scratch):
                return passed
        return scratch.passed(self._room.scratch, self._limits) or _full(self._room.scratch)

    def _passed(self, pids: list[int]) -> str:
        limits = self._limits
        if len(pids) > limits.processes:  # first: meanwhile they become more
            return f"it started more than its limit of {limits.processes} processes"
        if time.monotonic() - self._started > limits.seconds:
            return f"it took longer than its limit of {limits.seconds:g} s"
        if memory_bytes(pids, limits.memory_bytes) > limits.memory_bytes:
            return _over_memory(limits)
        if threads(pids) > limits.threads:
            return f"it started more than its limit of {limits.threads} threads"
        if memory_bytes([os.getpid()], _MOST) > self._readable:
            return f"it sent more than can be read: over {limits.unread_bytes // _MIB} MiB"
        if time.monotonic() < self._looks_at:
            return ""
        self._looks_at = time.monotonic() + (0.0 if self._room.scratch.is_mount() else _WALK_S)
        return scratch.passed(self._room.scratch, limits)


def _full(folder: Path) -> str:
    """Return that the machine's disk, on which a folder lies, or its memory is full; empty if neither is."""
    if free_memory() < _FREE_BYTES:
        return f"{MACHINE_FULL} memory is full: less than {_FREE_BYTES // _MIB} MiB are left"
    if folder.is_mount():
        return ""
    disk = os.statvfs(folder)
    if disk.f_bavail * disk.f_frsize < _FREE_BYTES:
        return f"{MACHINE_FULL} disk is full: less than {_FREE_BYTES // _MIB} MiB are left"
    if disk.f_files and disk.f_favail < _FREE_FILES:  # some file systems count none
        return f"{MACHINE_FULL} disk is full: it has room for less than {_FREE_FILES:,} files more"
    return ""


def _over_memory(limits: Limits) -> str:
    return f"it used more than its limit of {limits.memory_bytes // _MIB:,} MiB of memory"
