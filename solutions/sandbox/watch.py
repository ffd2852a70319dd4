"""Watches a sandboxed process from outside and ends it where it uses more than its limits."""

import contextlib
import os
import signal
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from solutions.sandbox.room import Limits, Room

__all__ = ["Watch", "end", "interrupt", "tree"]

POLL_S = 0.1
_GRACE_S = 5.0
_FREE_BYTES = 256 << 20
"""What stays free of the scratch's file system, whoever fills it."""


class Watch:
    """Ends the process `pid` and all that it started where they pass `limits`; used as a context manager.

    Ten times a second a thread adds up memory, processes, the scratch folder and the time. When the block ends, so does
    the process.
    """

    def __init__(self, pid: int, room: Room, limits: Limits) -> None:
        self.ended_by = ""
        """The limit that was passed, as a clause that begins with "it"; empty where none was."""
        self.peak_bytes = 0
        """The most memory that was seen at one time."""
        self.memory_bytes = 0
        """The memory that was seen last."""
        self._pid, self._room, self._limits = pid, room, limits
        self._born = _born(pid)
        self._started = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._poll, name=f"watch-{pid}", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        with contextlib.suppress(OSError):  # where the machine's memory ends, it goes before the grader
            Path(f"/proc/{self._pid}/oom_score_adj").write_text("1000")
        self._thread.start()

    def stop(self) -> None:
        """Stop watching, and end the process where it still runs."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        end(self._pid, self._born)

    def __enter__(self) -> "Watch":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _poll(self) -> None:
        walk_at, used, most = 0.0, 0, self._limits.processes + 1
        with contextlib.suppress(OSError):  # among thousands of processes it must have its turn; root may ask for that
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), -20)
        while not self._over.wait(POLL_S) and (pids := tree(self._pid, self._born, most)):
            now = time.monotonic()
            if len(pids) == most:  # at once: meanwhile they become more
                self._pass(f"it started more than its limit of {self._limits.processes} processes")
                return
            if now >= walk_at:
                used = _folder_bytes(self._room.scratch) + _deleted_bytes(pids)
                walk_at = now + 10 * (time.monotonic() - now)  # a folder of many files is looked at less often
            self.memory_bytes = _memory_bytes(pids, self._limits.memory_bytes)
            self.peak_bytes = max(self.peak_bytes, self.memory_bytes)
            if passed := self._passed(used, now):
                self._pass(passed)
                return

    def _pass(self, passed: str) -> None:
        self.ended_by = passed
        end(self._pid, self._born)

    def _passed(self, used: int, now: float) -> str:
        limits = self._limits
        if now - self._started > limits.seconds:
            return f"it took longer than its limit of {limits.seconds:g} s"
        if self.memory_bytes > limits.memory_bytes:
            return f"it used more than its limit of {_size(limits.memory_bytes)} of memory"
        if used > limits.scratch_bytes:
            return f"it wrote more than its limit of {_size(limits.scratch_bytes)}"
        disk = os.statvfs(self._room.scratch)
        if disk.f_bavail * disk.f_frsize < _FREE_BYTES:
            return f"it was ended since the disk is full: less than {_size(_FREE_BYTES)} are left"
        return ""


def tree(pid: int, born: str | None = None, most: int | None = None) -> list[int]:
    """Return `pid` and all processes below it that live, parents first; empty where it is gone.

    With `born`, also where the number has gone to another process. Looks for no more than `most`.
    """
    if born is not None and _born(pid) != born:
        return []
    found, ahead = [], [pid]
    while ahead and (most is None or len(found) < most):
        next_pid = ahead.pop()
        with contextlib.suppress(OSError):
            if _fields(next_pid)[0] not in "ZX":
                found.append(next_pid)
            ahead += _children(next_pid)
    return found


def end(pid: int, born: str | None = None) -> None:
    """End `pid` and all below it, and wait until they are gone.

    It is asked first: a minder then ends what it minds, and with bwrap ends its namespace. A minder that is killed
    would leave behind what is started meanwhile.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        ends = time.monotonic() + _GRACE_S
        while tree(pid, born, 1) and time.monotonic() < ends:
            for found in [pid] if number == signal.SIGTERM else tree(pid, born):
                with contextlib.suppress(OSError):
                    os.kill(found, number)
            time.sleep(0.01)


def interrupt(pid: int) -> None:
    """Interrupt the command of a sandboxed process, as Ctrl-C does."""
    with contextlib.suppress(OSError):
        if Path(f"/proc/{pid}/comm").read_text().strip() != "bwrap":
            os.kill(pid, signal.SIGINT)  # a minder passes it on
            return
        for _ in range(2):  # below bwrap is the namespace's first process, and below that the command
            pid = next(iter(_children(pid)), 0)
            if not pid:
                return
        os.kill(pid, signal.SIGINT)


def _children(pid: int) -> list[int]:
    tasks = os.listdir(f"/proc/{pid}/task")
    return [int(word) for task in tasks for word in Path(f"/proc/{pid}/task/{task}/children").read_text().split()]


def _fields(pid: int) -> list[str]:
    """Return what stands behind the name in /proc/<pid>/stat: the state, …, and at 19 when it was started."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _born(pid: int) -> str:
    with contextlib.suppress(OSError):
        return _fields(pid)[19]
    return ""


def _memory_bytes(pids: list[int], limit: int) -> int:
    """Return the memory of processes; what they share is counted once where the sum would pass the limit."""
    total = sum(_resident(pid) for pid in pids)
    return total if total <= limit else min(total, sum(_proportional(pid) for pid in pids))


def _resident(pid: int) -> int:
    """Return a process's own and shared memory in bytes, without the files that it maps."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return sum(
            int(line.split()[1]) << 10 for line in lines if line.startswith(("RssAnon:", "RssShmem:", "VmSwap:"))
        )
    return 0


def _proportional(pid: int) -> int:
    """Return a process's part of its memory, where shared pages are divided by those who share them."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it hides itself, or is gone
        return _resident(pid)
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:", "SwapPss:")))


def _folder_bytes(folder: Path) -> int:
    """Return what a folder takes on the disk, in bytes, links not followed; an entry counts for a block at least."""
    return sum(4096 + entry.st_blocks * 512 for entry in _entries(folder))


def _entries(folder: Path) -> Iterator[os.stat_result]:
    ahead = [str(folder)]
    while ahead:
        with contextlib.suppress(OSError), os.scandir(ahead.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    yield entry.stat(follow_symlinks=False)
                    if entry.is_dir(follow_symlinks=False):
                        ahead.append(entry.path)


def _deleted_bytes(pids: list[int]) -> int:
    """Return the bytes of files that processes hold open after these were deleted."""
    sizes = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    found = os.stat(f"/proc/{pid}/fd/{name}")
                    if stat.S_ISREG(found.st_mode) and found.st_nlink == 0:
                        sizes[found.st_dev, found.st_ino] = found.st_blocks * 512
    return sum(sizes.values())


def _size(number: int) -> str:
    return f"{number / (1 << 20):,.0f} MiB"
