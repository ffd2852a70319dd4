"""Minds a stranger's process: stops, continues and ends all that it started, at once, and reaps what it leaves.

In a namespace of processes the minder is the first one and reaches all others by one signal. Elsewhere all of them are
one process group, which the filter of system calls lets nobody leave. Either way the kernel signals all at once, and
starts a fork anew in which such a signal arrives: no chain of forks outruns it.
"""

import ctypes
import os
import signal
from collections.abc import Callable
from contextlib import suppress

PAUSE, GO_ON = signal.SIGUSR1, signal.SIGUSR2
# The minder's name while everything is stopped; nobody else can give it that name.
STANDING = "all-stand-still"

_MINDING = b"minder"
_POLL_S = 0.2
_SET_DUMPABLE, _SET_NAME, _SET_SUBREAPER = 4, 15, 36
_TOLD = (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, PAUSE, GO_ON)
_libc = ctypes.CDLL(None, use_errno=True)


def mind(become: Callable[[], None]) -> None:
    """Fork a child that calls `become`, wait for it, and end all that is left of it. Never returns.

    Ends with the child's exit status, or with 128 and the number of the signal that ended it. SIGINT is passed on to
    it, PAUSE and GO_ON reach all, SIGTERM, SIGHUP and the end of our own parent end everything.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _TOLD)
    if _libc.prctl(_SET_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot adopt what the process leaves")
    parent = os.getppid()
    child = os.fork()
    if child == 0:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _TOLD)
        become()
    _libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0)  # its memory is not the stranger's to write
    _libc.prctl(_SET_NAME, _MINDING, 0, 0, 0)
    _serve(child, parent)
    status = _swept(child)
    os._exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


def _serve(child: int, parent: int) -> None:
    """Do what we are told until the child ends, or we are told to end, or left alone; the child is not reaped."""
    everybody = -1 if os.getpid() == 1 else -child
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None and os.getppid() == parent:
        told = signal.sigtimedwait(_TOLD, _POLL_S)
        number = told.si_signo if told and _from_outside(told) else 0
        if number in (signal.SIGTERM, signal.SIGHUP):
            return
        with suppress(ProcessLookupError):
            if number == signal.SIGINT:
                os.kill(child, signal.SIGINT)
            elif number == PAUSE:
                os.kill(everybody, signal.SIGSTOP)
                _libc.prctl(_SET_NAME, STANDING.encode(), 0, 0, 0)
            elif number == GO_ON:
                _libc.prctl(_SET_NAME, _MINDING, 0, 0, 0)
                os.kill(everybody, signal.SIGCONT)
        _reap_orphans(child)


def _from_outside(told: signal.struct_siginfo) -> bool:
    """Say whether a signal is the grader's: whoever is inside the namespace has a number there."""
    return told.si_code == 0 and (os.getpid() != 1 or told.si_pid == 0)


def _reap_orphans(child: int) -> None:
    while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and ended.si_pid != child:
        os.waitpid(ended.si_pid, 0)


def _swept(child: int) -> int:
    """Kill the child and all that it started, as often as something is left, and return the child's wait status.

    Without a namespace or a filter a process may leave the group; then its parent's end makes it a child of ours.
    """
    status = 0
    while True:
        for target in (-1,) if os.getpid() == 1 else (-child, *_children()):
            with suppress(OSError):
                os.kill(target, signal.SIGKILL)
        try:
            number, found = os.waitpid(-1, 0)
        except ChildProcessError:
            return status
        status = found if number == child else status


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(word) for word in file.read().split()]
