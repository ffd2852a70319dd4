"""A sandboxed process and all that it started, seen from outside: what lives, what memory it has, its end."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from solutions.sandbox.inside.minder import GO_ON, PAUSE, STANDING
from trtcpu.errors import EngineError

# Seconds to end in, and to come to a stand on a busy machine.
_GRACE_S, _STAND_S = 5.0, 30.0
# Whether there is /proc; else psutil answers, slower.
_PROC = sys.platform.startswith("linux")
_GONE = (OSError, psutil.Error)
_DEAD = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
# A process's own and shared memory, without the files that it maps; and its part of the memory that it shares.
_RESIDENT, _PROPORTIONAL = ("RssAnon:", "RssShmem:", "VmSwap:"), ("Pss_Anon:", "Pss_Shmem:", "SwapPss:")


def tree(pid: int, born: str | None = None, most: int | None = None) -> list[int]:
    """Return `pid` and all processes below it that live, parents first; empty if it is gone.

    With `born`, also if the number has gone to another process. Looks for no more than `most`.
    """
    if born is not None and born_at(pid) != born:
        return []
    found, ahead = [], [pid]
    while ahead and (most is None or len(found) < most):
        next_pid = ahead.pop()
        with contextlib.suppress(*_GONE):
            if _state(next_pid)[1] not in _DEAD:
                found.append(next_pid)
            ahead += _children(next_pid)
    return found


def _children(pid: int) -> list[int]:
    if not _PROC:
        return [child.pid for child in psutil.Process(pid).children()]
    tasks = os.listdir(f"/proc/{pid}/task")
    return [int(word) for task in tasks for word in _read(f"/proc/{pid}/task/{task}/children").split()]


def born_at(pid: int) -> str:
    """Return when a process was started, as /proc says; empty if there is none."""
    with contextlib.suppress(*_GONE):
        return _read(f"/proc/{pid}/stat").rpartition(")")[2].split()[19]
    return ""


def _read(path: str) -> str:
    return Path(path).read_text(errors="replace")  # a process chooses the bytes of its own name


def end(pid: int, born: str | None = None) -> None:
    """End `pid` and all below it, and wait until they are gone.

    It is asked first: a minder then ends what it minds, and with bwrap ends its namespace. A minder that is killed
    would leave behind what is started meanwhile.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        ends = time.monotonic() + _GRACE_S
        while tree(pid, born, 1) and time.monotonic() < ends:
            for found in [pid] if number == signal.SIGTERM else tree(pid, born):
                _tell(found, number)
            time.sleep(0.01)


@contextlib.contextmanager
def paused(pid: int, born: str | None = None) -> Iterator[None]:
    """Let the sandboxed `pid` and all below it stand still in the block; they can neither refuse that nor go on.

    Raises:
        EngineError: they did not come to a stand, so that nothing can be measured beside them.
    """
    minder = _minder_of(pid) if _PROC and tree(pid, born, 1) else None
    if minder is None:  # it has ended, or this system has none
        yield
        return
    try:
        _bring_to_a_stand(minder)
        yield
    finally:
        _tell(minder, GO_ON)


def _bring_to_a_stand(minder: int) -> None:
    ends = time.monotonic() + _STAND_S
    while (below := tree(minder)) and not (_state(minder)[0] == STANDING and all(map(_stands, below[1:]))):
        if time.monotonic() > ends:
            raise EngineError("a submission's processes could not be stopped while time is measured")
        if _state(minder)[0] != STANDING:
            _tell(minder, PAUSE)
        time.sleep(0.001)


def _stands(pid: int) -> bool:
    return _state(pid)[1] in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP, *_DEAD)


def _state(pid: int) -> tuple[str, str]:
    """Return a process's name and what it does; it is dead if it is gone."""
    with contextlib.suppress(*_GONE):
        found = psutil.Process(pid)
        return found.name(), found.status()
    return "", psutil.STATUS_DEAD


def interrupt(pid: int) -> None:
    """Interrupt the command of a sandboxed process, as Ctrl-C does: its minder passes it on."""
    _tell(_minder_of(pid) or pid, signal.SIGINT)


def _tell(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def _minder_of(pid: int) -> int | None:
    """Return the process that minds the sandboxed `pid`: itself, or the first of bwrap's namespace; None: no more."""
    with contextlib.suppress(*_GONE):
        return next(iter(_children(pid)), None) if _state(pid)[0] == "bwrap" else pid
    return None


def memory_bytes(pids: list[int], limit: int) -> int:
    """Return the memory of processes; what they share is counted once if the sum would pass the limit."""
    total = sum(_memory(pid, "status", _RESIDENT) for pid in pids)
    return total if total <= limit else min(total, sum(_memory(pid, "smaps_rollup", _PROPORTIONAL) for pid in pids))


def _memory(pid: int, file: str, names: tuple[str, ...]) -> int:
    with contextlib.suppress(*_GONE):
        if not _PROC:
            return psutil.Process(pid).memory_info().rss
        lines = _read(f"/proc/{pid}/{file}").splitlines()
        return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(names))
    # it hides that file, or is gone
    return 0 if file == "status" else _memory(pid, "status", _RESIDENT)


def threads(pids: list[int]) -> int:
    """Return how many threads processes have together."""
    total = 0
    for pid in pids:
        with contextlib.suppress(*_GONE):
            total += psutil.Process(pid).num_threads()
    return total
