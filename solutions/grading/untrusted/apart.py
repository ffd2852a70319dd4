"""Work that a stranger's text can make endless, done in a child process with limits on time and memory.

Markdown, HTML and the lexers of code take time that grows faster than the text, and cleaned HTML can be much longer
than what was written: 20 kB of text take minutes or gigabytes. The child is sent pickles and answers with text, which
is never unpickled here. It serves one request after the other; where it passes a limit, another takes its place.
"""

import atexit
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from threading import Lock
from typing import Any

from solutions.grading.layout import ROOT, judge_environment
from solutions.sandbox import THREADS
from solutions.sandbox.scratch import WITHOUT_RIGHTS
from trtcpu.errors import InputError

# CPU seconds for one request. The longest page of the lab's own solutions takes under two.
SECONDS = 30
MEMORY_BYTES = 2 << 30
# Seconds by the clock: other processes compute too.
_PATIENCE_S = 600
# How often a request is tried whose process is killed, by somebody or for lack of memory.
_TRIES = 3
_TOO_LARGE = f"it took more than {MEMORY_BYTES >> 30} GiB of memory"
_KILLED = "its process was killed from outside"
# The first byte of a good answer; after any other byte comes the reason why there is none.
_GOOD = b"+"
_LOCK = Lock()
# The idle child, which has answered before.
_WARM: list[tuple[subprocess.Popen, Connection]] = []


def apart(function: Callable[..., str], *given: Any) -> str:
    """Return what a module's function returns in the child; pickle must be able to send it and its arguments there.

    Raises:
        InputError: it passed a limit or raised; the text says why. It is tried again first if the child had served
            others before, or was killed from outside.
    """
    request = pickle.dumps((SECONDS, function, given))
    too_long = f"it took more than {SECONDS} s of a processor"
    with _LOCK:
        for left in reversed(range(_TRIES)):
            again = bool(_WARM)
            answer, code = _asked(request)
            if answer.startswith(_GOOD):
                return answer[1:].decode()
            ended = {-signal.SIGPROF: too_long, -signal.SIGKILL: _KILLED}
            why = answer[1:].decode() or ended.get(code, f"{_TOO_LARGE}, or crashed ({code})")
            if why == too_long or not (left and (again or why == _KILLED)):
                raise InputError(why)


def _asked(request: bytes) -> tuple[bytes, int | None]:
    """Return a child's answer, empty if it ended first, and its exit code if the answer is not good."""
    process, line = _WARM.pop() if _WARM else _started()
    answer = b""
    try:
        with suppress(EOFError, OSError):  # it has ended
            line.send_bytes(request)
            answer = line.recv_bytes() if line.poll(_PATIENCE_S) else f"-it took more than {_PATIENCE_S} s".encode()
    finally:  # also if this process is told to end
        if answer.startswith(_GOOD):
            _WARM.append((process, line))
        else:
            process.kill()
            process.wait()
    return answer, process.returncode


def _started() -> tuple[subprocess.Popen, Connection]:
    ours, its = Pipe()
    with its:
        process = subprocess.Popen(
            [*(WITHOUT_RIGHTS if sys.platform == "linux" else ()), sys.executable, "-m", __name__],
            cwd=ROOT,
            env={**judge_environment(), **dict.fromkeys(THREADS, "1")},
            stdin=its.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is the grader's
        )
    atexit.register(process.wait)
    atexit.register(process.kill)  # the last one that is registered is the first one that is called
    return process, ours


def _answer(request: bytes) -> bytes:
    """Return what the function answers, or why not. A time limit ends the process, whatever it is in."""
    seconds, function, given = pickle.loads(request)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return _GOOD + function(*given).encode("utf-8", "replace")
    except MemoryError:
        return f"-{_TOO_LARGE}".encode()
    except Exception as error:
        return f"-it ended with {type(error).__name__}".encode()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _serve(line: Connection) -> None:
    with suppress(ImportError, OSError, ValueError):  # macOS
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    with suppress(EOFError):
        while True:
            line.send_bytes(_answer(line.recv_bytes()))


if __name__ == "__main__":
    _serve(Connection(sys.stdin.fileno()))
