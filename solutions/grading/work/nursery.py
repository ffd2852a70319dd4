"""A nursery of places: a process that has imported what they and their judges need, and forks one when it is asked.

With real TensorRT a place is a new Python, since nothing may be forked once CUDA is imported.
"""

import importlib
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Lock

from solutions.grading.forking import forked
from solutions.grading.layout import ROOT
from solutions.sandbox.scratch import PLACE, enter
from trtcpu.errors import EngineError

_PLACE = "solutions.grading.work.place"
_ASKED, _NUMBER = "<cq", "<q"
_START, _END = b"s", b"e"


class Started:
    """A place: a process with pipes to its stdin and from its stdout."""

    def __init__(self, nursery: "Nursery", pid: int, stdin: int, stdout: int) -> None:
        self.pid, self._nursery, self._lock = pid, nursery, Lock()
        self.stdin, self.stdout = os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb")

    def signal(self, number: int) -> None:
        """Send it a signal, unless `end` was called; until then its number is no other process's."""
        if not self.stdout.closed:
            with suppress(OSError):
                os.kill(self.pid, number)

    def end(self, seconds: float) -> None:
        """End it, and close the pipes: told by SIGTERM it cleans up; after `seconds` it is killed."""
        with self._lock:
            if self.stdout.closed:
                return
            self.signal(signal.SIGTERM)
            ends = time.monotonic() + seconds
            while select.select([self.stdout], [], [], max(0.0, ends - time.monotonic()))[0]:
                if not os.read(self.stdout.fileno(), 1 << 16):
                    break
            else:
                self.signal(signal.SIGKILL)
            self._nursery.ended(self.pid)
            with suppress(OSError):  # what it was still to be told
                self.stdin.close()
            self.stdout.close()


class Nursery:
    """The nursery's process, which ends when it is closed or when this process does.

    Args:
        environment: its whole environment, and that of the places.
        judge: the module that is their judge; without one nothing is imported or forked.
    """

    def __init__(self, environment: Mapping[str, str], judge: str | None) -> None:
        self._environment = {**environment, "PYTHONPATH": os.pathsep.join([str(ROOT), *_search(environment)])}
        self._judge, self._lock = judge, Lock()
        self._socket: socket.socket | None = None

    def start(self) -> Started:
        """Start a place.

        Raises:
            EngineError: that is not possible.
        """
        (given, stdin), (stdout, answers) = os.pipe(), os.pipe()
        try:
            for _ in range(2):  # a nursery that was killed has a successor
                if (number := self._asked(_START, 0, given, answers)) is not None:
                    return Started(self, number, stdin, stdout)
        finally:
            os.close(given)
            os.close(answers)
        os.close(stdin)
        os.close(stdout)
        raise EngineError("no process that grades can be started here: look at memory")

    def ended(self, number: int) -> None:
        """Wait until a place has ended."""
        if self._socket is not None:
            self._asked(_END, number)

    def close(self) -> None:
        """End the nursery; its places go on."""
        with self._lock:
            self._left()

    def _asked(self, what: bytes, number: int, *files: int) -> int | None:
        with self._lock:
            try:
                if self._socket is None:
                    self._begin()
                socket.send_fds(self._socket, [struct.pack(_ASKED, what, number)], files)
                said = self._socket.recv(struct.calcsize(_NUMBER), socket.MSG_WAITALL)
                return struct.unpack(_NUMBER, said)[0]
            except (OSError, struct.error):  # it is gone
                self._left()
                return None

    def _begin(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._scratches = tempfile.TemporaryDirectory(prefix=PLACE, ignore_cleanup_errors=True)
        told = [self._scratches.name, *filter(None, [self._judge])]
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "solutions.grading.work.nursery", *told],
                cwd=ROOT,
                env=self._environment,
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # what is wrong with a piece is in its answer
                start_new_session=True,  # Ctrl-C is the coordinator's
            )

    def _left(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            self._process.wait()
            self._scratches.cleanup()


def _search(environment: Mapping[str, str]) -> list[str]:
    return [part for part in environment.get("PYTHONPATH", "").split(os.pathsep) if part and part != str(ROOT)]


def _serve(judge: str | None) -> None:
    """Do what stdin, a socket, says until it ends."""
    begin = partial(_place, copied=_imported(judge)) if judge else _new_python
    with socket.socket(fileno=os.dup(0)) as asked:
        while True:
            message, files = socket.recv_fds(asked, struct.calcsize(_ASKED), 2)[:2]
            if not message:
                return
            what, number = struct.unpack(_ASKED, message)
            if what == _START:
                number = forked(begin, *files, 2)
                for file in files:
                    os.close(file)
            else:
                with suppress(ChildProcessError):  # another nursery's, which was killed
                    os.waitpid(number, 0)
            asked.sendall(struct.pack(_NUMBER, number))


def _place(copied: bool) -> None:
    os.setsid()
    importlib.import_module(_PLACE).main(copied=copied)


def _new_python() -> None:
    os.setsid()
    os.execv(sys.executable, [sys.executable, "-m", _PLACE])


def _imported(judge: str) -> bool:
    """Import what places and `python -m judge` do; a judge that cannot be imported says why where it is started."""
    importlib.import_module(_PLACE)
    with suppress(Exception):
        spec = find_spec(judge)
        importlib.import_module(f"{judge}.__main__" if spec and spec.submodule_search_locations else judge)
        return True
    return False


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # nbgrader's and nbformat's own, about what is mended here
    enter(Path(sys.argv[1]))  # before anything starts a thread; places are born where we are
    _serve(*sys.argv[2:] or [None])
