"""Minds a process for which no namespace does it: nothing that it started outlives it, nor whoever asked for it."""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable

_POLL_S = 0.2
_PR_SET_CHILD_SUBREAPER = 36
_WATCHED = (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def mind(become: Callable[[], None]) -> None:
    """Fork a child that calls `become`, wait for it, end all that is left of it, and end as it did.

    SIGINT is passed on to it; SIGTERM, SIGHUP and the end of our own parent end everything. Never returns.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot adopt what the process leaves")
    parent = os.getppid()
    child = os.fork()
    if child == 0:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
        become()
    _wait(child, parent)
    status = _sweep(child)
    _end_as(status)


def _wait(child: int, parent: int) -> None:
    """Wait until the child ends, or we are told to end, or left alone; the child is not reaped."""
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None and os.getppid() == parent:
        received = signal.sigtimedwait(_WATCHED, _POLL_S)
        number = received.si_signo if received else 0
        if number == signal.SIGINT:
            os.kill(child, signal.SIGINT)
        if number in (signal.SIGTERM, signal.SIGHUP):
            return


def _sweep(child: int) -> int:
    """Kill the child and all descendants, as often as some are left, and return the child's wait status.

    In the sandbox all are of the child's process group, which one signal ends. Without one they may have left it; every
    orphan of theirs has become a child of ours.
    """
    child_status = 0
    while True:
        with contextlib.suppress(OSError):
            os.killpg(child, signal.SIGKILL)
        for pid in _descendants():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                child_status = ended[1] if ended[0] == child else child_status
        except ChildProcessError:
            return child_status
        time.sleep(0.005)


def _descendants() -> list[int]:
    found, ahead = [], [os.getpid()]
    while ahead:
        pid = ahead.pop()
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/children") as file:
                    children = [int(word) for word in file.read().split()]
                found += children
                ahead += children
    return found


def _end_as(status: int) -> None:
    if os.WIFSIGNALED(status):
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL) if os.WTERMSIG(status) != signal.SIGKILL else None
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 1)
