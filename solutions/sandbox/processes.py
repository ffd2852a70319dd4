"""A sandboxed process and all that it started, seen from outside: what lives, what memory it has, its end."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from solutions.sandbox import cgroup
from solutions.sandbox.inside.minder import GO_ON, PAUSE, STANDING
from trtcpu.errors import EngineError

_GRACE_S, _STAND_S = 5.0, 30.0
"""Seconds to end in, and to come to a stand on a busy machine."""
_PROC = sys.platform.startswith("linux")
"""Whether there is /proc; else psutil answers, slower."""
_GONE = (OSError, psutil.Error)


def tree(pid: int, born: str | None = None, most: int | None = None) -> list[int]:
    """Return `pid` and all processes below it that live, parents first; empty where it is gone.

    With `born`, also where the number has gone to another process. Looks for no more than `most`.
    """
    if born is not None and born_at(pid) != born:
        return []
    found, ahead = [], [pid]
    while ahead and (most is None or len(found) < most):
        next_pid = ahead.pop()
        with contextlib.suppress(*_GONE):
            if _lives(next_pid):
                found.append(next_pid)
            ahead += _children(next_pid)
    return found


def born_at(pid: int) -> str:
    """Return when a process was started, as the system writes it; empty where there is none."""
    with contextlib.suppress(*_GONE):
        return _fields(pid)[19] if _PROC else str(psutil.Process(pid).create_time())
    return ""


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


@contextlib.contextmanager
def paused(pid: int, born: str | None = None) -> Iterator[None]:
    """Let the sandboxed `pid` and all below it stand still in the block; they can neither refuse that nor go on.

    Raises:
        EngineError: they did not come to a stand, so that nothing can be measured beside them.
    """
    minder = minder_of(pid) if _PROC and tree(pid, born, 1) else None
    if minder is None:  # it has ended, or this system has none
        yield
    elif group := cgroup.group_of(minder):
        with group.frozen():
            yield
    else:
        try:
            _bring_to_a_stand(pid, minder)
            yield
        finally:
            _tell(minder, GO_ON)


def _bring_to_a_stand(pid: int, minder: int) -> None:
    ends = time.monotonic() + _STAND_S
    while _named(minder) != STANDING or any(map(_moves, tree(minder)[1:])):
        if not tree(pid, most=1):
            return
        if time.monotonic() > ends:
            raise EngineError("a submission's processes could not be stopped while time is measured")
        if _named(minder) != STANDING:
            _tell(minder, PAUSE)
        time.sleep(0.001)


def _tell(minder: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(minder, number)


def _named(pid: int) -> str:
    with contextlib.suppress(*_GONE):
        return _read(f"/proc/{pid}/comm").strip()
    return ""


def _moves(pid: int) -> bool:
    with contextlib.suppress(*_GONE):
        return _fields(pid)[0] not in "TtZX"
    return False


def interrupt(pid: int) -> None:
    """Interrupt the command of a sandboxed process, as Ctrl-C does: its minder passes it on."""
    _tell(minder_of(pid) or pid, signal.SIGINT)


def minder_of(pid: int) -> int | None:
    """Return the process that minds the sandboxed `pid`: itself, or the first of bwrap's namespace; None: no more."""
    with contextlib.suppress(*_GONE):
        return next(iter(_children(pid)), None) if psutil.Process(pid).name() == "bwrap" else pid
    return None


def memory_bytes(pids: list[int], limit: int) -> int:
    """Return the memory of processes; what they share is counted once where the sum would pass the limit."""
    total = sum(_resident(pid) for pid in pids)
    return total if total <= limit else min(total, sum(_proportional(pid) for pid in pids))


def threads(pids: list[int]) -> int:
    """Return how many threads processes have together."""
    total = 0
    for pid in pids:
        with contextlib.suppress(*_GONE):
            total += int(_fields(pid)[17]) if _PROC else psutil.Process(pid).num_threads()
    return total


def _resident(pid: int) -> int:
    """Return a process's own and shared memory in bytes, without the files that it maps."""
    with contextlib.suppress(*_GONE):
        if not _PROC:
            return psutil.Process(pid).memory_info().rss
        return _kilobytes(_read(f"/proc/{pid}/status"), ("RssAnon:", "RssShmem:", "VmSwap:"))
    return 0


def _proportional(pid: int) -> int:
    """Return a process's part of its memory, where shared pages are divided by those who share them."""
    try:
        return _kilobytes(_read(f"/proc/{pid}/smaps_rollup"), ("Pss_Anon:", "Pss_Shmem:", "SwapPss:"))
    except OSError:  # it hides itself, or is gone, or there is none
        return _resident(pid)


def _kilobytes(text: str, names: tuple[str, ...]) -> int:
    return sum(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith(names))


def _lives(pid: int) -> bool:
    if _PROC:
        return _fields(pid)[0] not in "ZX"
    return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def _children(pid: int) -> list[int]:
    if not _PROC:
        return [child.pid for child in psutil.Process(pid).children()]
    tasks = os.listdir(f"/proc/{pid}/task")
    return [int(word) for task in tasks for word in _read(f"/proc/{pid}/task/{task}/children").split()]


def _fields(pid: int) -> list[str]:
    """Return what stands behind the name in /proc/<pid>/stat: the state, …, and at 19 when it was started."""
    return _read(f"/proc/{pid}/stat").rpartition(")")[2].split()


def _read(path: str) -> str:
    return Path(path).read_text(errors="replace")  # a process chooses the bytes of its own name
