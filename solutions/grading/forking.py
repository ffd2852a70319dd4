"""Processes that begin as copies of this one: its imports are done, which take seconds of a processor in a new Python.

Only a process that has just imported what it needs, or a copy of it, can be copied so: what threads of libraries hold
would be held there for ever. One that only waits, as that of `clean_ends`, holds nothing, and OpenBLAS makes its own
anew. Of CUDA nothing may be in it.
"""

import fcntl
import gc
import os
import runpy
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import IO

_SIGNALS = ("SIGTERM", "SIGHUP", "SIGQUIT")


def forked(run: Callable[[], object], stdin: int, stdout: int, stderr: int) -> int:
    """Start a copy of this process that has these three files and no others, runs `run` and ends; return its number."""
    gc.collect()  # what is left is never collected there: it would close files that have other numbers by then
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if number := os.fork():
        return number
    code = 1
    try:
        gc.freeze()
        _own_files(stdin, stdout, stderr)
        signal.set_wakeup_fd(-1)
        for name in _SIGNALS:
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else ended.code is not None
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):  # nobody reads it, or it was closed
                    stream.flush()
        finally:
            os._exit(code)


def _own_files(*given: int) -> None:
    kept = [fcntl.fcntl(number, fcntl.F_DUPFD, len(given)) for number in given]  # none of them is overwritten
    for own, number in enumerate(kept):
        os.dup2(number, own)
    for number in map(int, os.listdir("/dev/fd")):
        if number >= len(given):
            with suppress(OSError):  # that of the list itself
                os.close(number)
    sys.stdin, sys.stdout, sys.stderr = (open(own, mode, closefd=False) for own, mode in enumerate("rww"))


def module_run(module: str, environment: Mapping[str, str]) -> Callable[[], object]:
    """Return what does `python -m module` in a copy, with this whole environment."""

    def run() -> None:
        os.environ.clear()
        os.environ.update(environment)
        runpy.run_module(module, run_name="__main__", alter_sys=True)

    return run


class Copy:
    """A copy of this process: what a Popen with pipes of text offers, as far as it is needed."""

    def __init__(self, run: Callable[[], object], stderr: IO[str]) -> None:
        (given, tell), (hear, answers) = os.pipe(), os.pipe()
        try:
            self.pid = forked(run, given, answers, stderr.fileno())
        finally:
            os.close(given)
            os.close(answers)
        self.stdin, self.stdout = os.fdopen(tell, "w"), os.fdopen(hear)
        self._code: int | None = None

    def kill(self) -> None:
        """End it at once."""
        if self._code is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Wait for its end and return its code, that of a signal negative."""
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._code

    def communicate(self) -> None:
        """Wait for its end, and close what led there."""
        for stream in (self.stdin, self.stdout):
            with suppress(OSError):  # what it was still to be told
                stream.close()
        self.wait()
