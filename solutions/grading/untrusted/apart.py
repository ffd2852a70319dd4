"""What a stranger's text can make endless, done by a child process with limits of time and memory.

Markdown, HTML and the lexers of code take time that grows faster than the text, and cleaned HTML can be much longer
than what was written: 20 kB of text take minutes or gigabytes. The child answers with text, one request after the
other; where it passes a limit, another takes its place.
"""

import atexit
import os
import pickle
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, Timer
from typing import Any, BinaryIO

from solutions.grading.environment import judge_environment
from solutions.grading.layout import ROOT
from solutions.sandbox import THREADS
from solutions.sandbox.scratch import WITHOUT_RIGHTS
from trtcpu.errors import InputError

SECONDS = 30
"""Of a processor, for one request: the longest page of the lab's own solutions takes under two."""

MEMORY_BYTES = 2 << 30

_PATIENCE_S = 600  # by the clock: others compute, too
_TRIES = 3
"""Of a request whose process was killed: by somebody, or for the machine's memory."""
_TOO_LARGE = f"it took more than {MEMORY_BYTES >> 30} GiB of memory"
_LENGTH = "<?q"
_LOCK = Lock()


class _Child:
    """The process, whether it has answered before, and whether somebody else ended it."""

    def __init__(self) -> None:
        self.used = self.killed = False
        self._process = subprocess.Popen(
            [*(WITHOUT_RIGHTS if sys.platform == "linux" else ()), sys.executable, "-m", __name__],
            cwd=ROOT,
            env={**judge_environment(), **dict.fromkeys(THREADS, "1")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is the grader's
        )

    def ask(self, request: bytes) -> tuple[bool, str]:
        """Return what it answers; where that is an error or none comes, False and why, and the child is gone."""
        self.used, ends, patience = True, time.monotonic() + _PATIENCE_S, Timer(_PATIENCE_S, self._process.kill)
        patience.start()
        try:
            self._process.stdin.write(request)
            self._process.stdin.flush()
            good, length = struct.unpack(_LENGTH, self._process.stdout.read(struct.calcsize(_LENGTH)))
            said = self._process.stdout.read(length).decode()
        except (OSError, struct.error):  # it has ended
            good, said = False, ""
        except BaseException:  # told to end
            self._process.kill()
            self.end()
            raise
        finally:
            patience.cancel()
        if good:
            return True, said
        code = self.end()
        self.killed = code == -signal.SIGKILL and time.monotonic() < ends
        if self.killed:
            return False, "its process was killed from outside"
        return False, _too_long() if code == -signal.SIGPROF else said or f"{_TOO_LARGE}, or crashed ({code})"

    def end(self) -> int:
        """Wait until it has ended; return its exit code."""
        with suppress(OSError):
            self._process.stdin.close()
        self._process.stdout.close()
        return self._process.wait()


def _too_long() -> str:
    return f"it took more than {SECONDS} s of a processor"


_CHILDREN: list[_Child] = []


def apart(function: Callable[..., str], *given: Any) -> str:
    """Return what a function of a module answers in the child; both must be what pickle can take there.

    Raises:
        InputError: it passed a limit or raised; the text says why. What earlier answers left in the child is no reason,
            nor that somebody killed it once.
    """
    request = pickle.dumps((SECONDS, function, given))
    with _LOCK:
        for left in reversed(range(_TRIES)):
            child = _CHILDREN.pop() if _CHILDREN else _Child()
            again = child.used
            good, said = child.ask(request)
            if good:
                _CHILDREN.append(child)
                return said
            if said == _too_long() or not (left and (again or child.killed)):
                raise InputError(said)


@atexit.register
def _end() -> None:
    while _CHILDREN:
        _CHILDREN.pop().end()


def _limit() -> None:
    with suppress(ImportError, OSError, ValueError):  # Windows, macOS
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def _answer(asked: BinaryIO, answers: BinaryIO) -> bool:
    """Answer one request; return whether there was one. A time limit ends the process, whatever it is in."""
    try:
        seconds, function, given = pickle.load(asked)
    except EOFError:
        return False
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        good, said = True, function(*given).encode("utf-8", "replace")
    except MemoryError:
        good, said = False, _TOO_LARGE.encode()
    except Exception as error:
        good, said = False, f"it ended with {type(error).__name__}".encode()
    signal.setitimer(signal.ITIMER_PROF, 0)
    answers.write(struct.pack(_LENGTH, good, len(said)) + said)
    answers.flush()
    return True


def main() -> None:
    """Answer what stdin asks until it ends; what libraries print goes to stderr."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    _limit()
    while _answer(sys.stdin.buffer, answers):
        pass


if __name__ == "__main__":
    main()
