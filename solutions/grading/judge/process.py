"""The judge's process: prepares a step's artifacts, then decides its test cells one by one.

It first sends what every kernel needs. It then gets one `Asked`, and {"cell", "door", "kernel"} for each test cell. Any
message while a cell is decided means that the cell has ended in the kernel. Each message gets an answer.
"""

import ctypes
import os
import select
import signal
import socket
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from helpers.checks.probes.answer import Ask
from helpers.checks.probes.channel import (
    ANSWER,
    END,
    QUESTION,
    REPLY,
    REQUEST,
    ChannelError,
    read_message,
    write_message,
)
from helpers.checks.probes.student import Student, read_artifact
from helpers.course.artifacts import use_artifacts
from helpers.course.steps import ARTIFACTS
from helpers.tools.files import atomic_write
from solutions.checks.core.seed import use_seed
from solutions.checks.trusted import stillness
from solutions.sandbox.processes import paused
from solutions.sandbox.room import close
from trtcpu.errors import LabError

# Seconds that a reply may take beyond its probe's own limit, which the student's side keeps: for imports and transfer.
SLACK_S = 60.0
_POLL_MS = 5


@dataclass(frozen=True)
class Asked:
    """What a judge is asked to judge.

    Attributes:
        artifacts: the trusted folder with the artifacts of earlier steps; the records go beside it.
        scratch: where the kernel hands its deliverables over.
        loading: the folder of the process that loads a student's files.
        sandbox: the name of the sandbox that the kernel runs in, for the records.
        room: bytes that the step's own files may take together in the trusted folder.
        seed: the run's seed; None: a fresh one.
        answers: where the answers are that are remembered in this run.
        exchange: the course's own exchange, which no sandbox shows.
    """

    step: str
    artifacts: Path
    scratch: Path
    loading: Path = Path()
    sandbox: str = "none"
    room: int = 0
    seed: int | None = None
    answers: Path | None = None
    exchange: Path | None = None


# Makes a step's artifacts ready in their folder; returns what the grader is told: notes, environment, needs, gpu.
Prepare = Callable[[Asked], dict[str, Any]]

# Decides a test cell's claims on a student and writes the record, with the name of the sandbox in it.
Decide = Callable[[str, Student, str], Any]

_DIE_WITH_PARENT = 1

# A judge that is asked nothing for this many seconds was started ahead.
_IDLE_S = 1.0


def judge(
    line: Connection,
    prepare: Prepare,
    decide: Decide,
    offers: Callable[[], dict[str, Any]] = lambda: {"environment": {}, "gpu": False},
    meanwhile: Callable[[], Any] = lambda: None,
) -> None:
    """Do what is asked over `line` until it or the grader ends; call `meanwhile` if nothing was asked yet."""
    if sys.platform.startswith("linux"):  # two judges, of a killed grader and of the next, would write the same records
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    line.send(offers())
    if not line.poll(_IDLE_S):
        meanwhile()
    with suppress(EOFError):  # nothing more is wanted
        _judged(line, line.recv(), prepare, decide)


def _judged(line: Connection, asked: Asked, prepare: Prepare, decide: Decide) -> None:
    use_artifacts(asked.artifacts)
    use_seed(asked.seed)
    if asked.exchange:
        close(asked.exchange)
    try:
        line.send(prepare(asked))
    except LabError as error:
        return line.send({"error": " ".join(str(error).split())})
    artifacts = Artifacts(asked.step, asked.artifacts, asked.scratch, asked.room)
    while cell := line.recv():
        if "cell" in cell:
            with Door(cell["door"], line.fileno()) as door:
                line.send({"waiting": cell["cell"]})
                door.wait()
                artifacts.forget()
                stillness.held_by(partial(paused, *cell["kernel"]) if cell["kernel"] else nullcontext)
                decide(cell["cell"], Student(door.send, artifacts.read), asked.sandbox)
            line.send({"decided": cell["cell"], "judged": sorted(artifacts.judged)})


class Artifacts:
    """The deliverables: those of this step from the kernel's scratch, those of earlier steps from the trusted folder.

    When a test cell first asks for a file of this step, it is copied into the trusted folder. So all claims on it and
    all later steps see the same bytes: nobody can show one claim an exact engine and another claim a fast one. `judged`
    has the names of these files. A file that no longer fits into `room` bytes counts as not made.
    """

    def __init__(self, step: str, trusted: Path, scratch: Path, room: int) -> None:
        self._step, self._trusted, self._scratch, self._room = step, trusted, scratch, room
        self._read: dict[str, bytes | None] = {}
        self.judged: set[str] = set()

    def forget(self) -> None:
        """Forget what a test cell read: a file that was missing may be there now."""
        self._read.clear()

    def read(self, name: str) -> bytes | None:
        """Return a file's content, None if there is none."""
        if name not in self._read:
            self._read[name] = self._taken_over(name)
        return self._read[name]

    def _taken_over(self, name: str) -> bytes | None:
        if name in self.judged or ARTIFACTS.get(name, self._step) != self._step:
            return read_artifact(self._trusted, name)
        content = read_artifact(self._scratch, name)
        if content is not None and name in ARTIFACTS:
            if len(content) > self._room:
                return None
            self._room -= len(content)
            atomic_write(self._trusted / name, content)
            self.judged.add(name)
        return content


class Door:
    """Connects to the kernel, which listens at a socket's `path`, and carries requests to it; a context manager.

    After a fault of the kernel's side the connection stays broken: every later request raises the same ChannelError.

    Args:
        path: where the kernel listens once its cell runs, in a folder that only it can write.
        stop: a file descriptor that becomes readable once the cell has ended.
        slack_s: seconds that a reply may take beyond its probe's limit.
    """

    def __init__(self, path: str | Path, stop: int, slack_s: float = SLACK_S) -> None:
        self._path, self._stop, self._slack_s = Path(path), stop, slack_s
        self._channel: socket.socket | None = None
        self._broken = ""

    def __enter__(self) -> "Door":
        return self

    def __exit__(self, *_: object) -> None:
        if self._channel is not None:
            if not self._broken:
                with suppress(ChannelError):  # the kernel has gone
                    write_message(self._channel, END, ends=time.monotonic() + self._slack_s)
            self._channel.close()

    def wait(self) -> None:
        """Wait for the kernel to listen, as long as the cell runs."""
        over = select.poll()
        over.register(self._stop, select.POLLIN)
        while not self._connected():
            if over.poll(_POLL_MS):
                self._broken = "the cell ended before anything could be asked"
                return

    def _connected(self) -> bool:
        """Connect if the socket is there. A link to another process's socket does not count."""
        with suppress(OSError), _found(self._path) as path:  # none yet
            channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            channel.setblocking(False)
            if channel.connect_ex(path):  # nobody listens yet
                channel.close()
            else:
                self._channel = channel
        return self._channel is not None

    def send(self, request: bytes, ask: Ask, limit_s: float) -> bytes:
        """Send a request, answer the questions that come, and return the reply; a helpers.checks.probes.student.Send.

        Raises:
            ChannelError: no reply came, or none in time.
        """
        if self._broken or self._channel is None:
            raise ChannelError(self._broken or "nobody is there to answer")
        ends = time.monotonic() + limit_s + self._slack_s
        try:
            write_message(self._channel, REQUEST, request, ends)
            while True:
                kind, content = read_message(self._channel, REPLY + QUESTION, ends, self._stop)
                if kind == REPLY:
                    return content
                write_message(self._channel, ANSWER, ask(content), ends)
        except ChannelError as error:
            self._broken = str(error)
            self._channel.close()
            raise


@contextmanager
def _found(path: Path) -> Iterator[str]:
    """Give a path to the socket that is there now. Raises OSError if there is none."""
    if not sys.platform.startswith("linux"):
        yield str(path)
        return
    found = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISSOCK(os.fstat(found).st_mode):
            raise OSError(f"{path} is no socket")
        yield f"/proc/self/fd/{found}"
    finally:
        os.close(found)
