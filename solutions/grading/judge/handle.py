"""The grader's handle on a judge: starts the process, and tells it what to prepare and which cell to decide."""

import importlib
import multiprocessing
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest import mock

from solutions.grading.faults import DISK_FULL, CourseError
from solutions.grading.judge.child import LIMITS
from solutions.grading.judge.process import Asked
from solutions.grading.layout import ROOT
from solutions.grading.locks import Gate
from solutions.sandbox.scratch import temporary
from solutions.sandbox.watch import MACHINE_FULL
from trtcpu.errors import EngineError, LabError

# Seconds within which a judge has made the artifacts ready; it may have to build the reference engines first.
PREPARE_S = 3600.0
# Seconds within which a judge says that it waits for the kernel.
START_S = 120.0


class Process:
    """A judge's process, which may be started before anybody knows what it will judge.

    Args:
        module: its `main` judges over a connection.
        environment: its whole environment.
        copied: begin as a copy of this process, which has imported the module.
    """

    def __init__(self, module: str, environment: Mapping[str, str], *, copied: bool = False) -> None:
        context = multiprocessing.get_context("fork" if copied else "spawn")
        self._line, theirs = context.Pipe()
        self._process = context.Process(target=_run, args=(module, dict(environment), theirs))
        with theirs, mock.patch.dict(os.environ, environment, clear=True):
            self._process.start()

    @cached_property
    def offers(self) -> dict[str, Any]:
        """What every kernel needs: the variables of its `environment`, and whether it uses the `gpu`.

        Raises:
            EngineError: it has ended.
        """
        return self.heard(None)

    def tell(self, what: object) -> None:
        """Send it a message.

        Raises:
            EngineError: it has ended.
        """
        try:
            self._line.send(what)
        except OSError:
            self.heard(None)  # its last words

    def heard(self, seconds: float | None) -> dict[str, Any]:
        """Return its next answer. If none comes within `seconds`, end it.

        Raises:
            EngineError: there was none.
            CourseError: it ended since the disk or the memory was full, which is not the submission's fault.
        """
        started = time.monotonic()
        if not self._line.poll(seconds):
            self.end()
            raise EngineError(f"the check was not done {time.monotonic() - started:.0f} s after the cell had ended")
        try:
            answer = self._line.recv()
        except (EOFError, OSError):
            self._process.join()
            answer = f"it ended with {self._process.exitcode}"
        if not isinstance(answer, str):
            return answer
        self.end()
        if any(text in answer for text in (*DISK_FULL, MACHINE_FULL)):
            raise CourseError(f"the course's disk or folder failed: {answer[:200]}; mend that and grade again")
        raise EngineError(f"the check itself failed, tell your instructor: {answer[:200]}")

    def end(self) -> None:
        """End it."""
        self._process.kill()
        self._process.join()
        self._line.close()


def _run(module: str, environment: dict[str, str], line: Connection) -> None:
    """Judge in a new process without a terminal; if it fails, send the reason."""
    signal.set_wakeup_fd(-1)  # a copy's is the grader's
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(ROOT)
    with open(os.devnull, "r+b") as nobody:
        for own in range(3):
            os.dup2(nobody.fileno(), own)
    try:
        importlib.import_module(module).main(line)
    except BaseException as error:
        line.send(f"{type(error).__name__}: {error}")
        sys.exit(1)


@contextmanager
def judging(start: Callable[[], Process], asked: Asked, gate: Gate) -> Iterator["Judge"]:
    """Give a judge for one notebook.

    Args:
        start: starts a judge's process.
        asked: what it is to judge; the folder where it loads files is made here.
        gate: passed while the judge makes the artifacts ready: it runs engines, and may build the reference's.
    """
    with temporary(LIMITS, "trt-lab-load-") as folder:
        judge = Judge(start, replace(asked, loading=folder))
        try:
            with gate.passed(alone=False):
                judge.start()
            yield judge
        finally:
            judge.close()


class Judge:
    """The judge of one notebook. If its process ends, the next cell gets a new one.

    Attributes:
        prepared: its answer when the artifacts were ready.
        judged: the step's own files that it has judged, and so has taken over from the scratch.
    """

    def __init__(self, start: Callable[[], Process], asked: Asked) -> None:
        self._begin, self._asked = start, asked
        self._process: Process | None = None
        self.prepared: dict[str, Any] = {}
        self.judged: set[str] = set()

    def start(self) -> None:
        """Start the process, which makes the artifacts ready. Raises EngineError if it cannot."""
        self._process, self.judged = self._begin(), set()
        with self._kept() as process:
            process.offers  # noqa: B018 - its first line
            process.tell(self._asked)
            self.prepared = process.heard(PREPARE_S)
        if "error" in self.prepared:
            raise EngineError(f"cannot prepare the artifacts of {self._asked.step}: {self.prepared['error']}")

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.end()

    def begin(self, cell: str, folder: Path, kernel: tuple[int, str] | None = None) -> str:
        """Start to decide a cell; return the path of the socket in `folder` at which the kernel must answer.

        The process `kernel`, given by its number and starting time, is paused while time is measured.

        Raises:
            EngineError: the judge cannot do it.
        """
        if self._process is None:
            self.start()
        door = str(folder / f"{secrets.token_hex(4)}.sock")
        with self._kept() as process:
            process.tell({"cell": cell, "door": door, "kernel": kernel})
            process.heard(START_S)
        return door

    def end(self, cell: str, seconds: float) -> str | None:
        """Say that the cell has ended in the kernel. Return None if the cell is decided, else why it is not."""
        if self._process is None:
            return "the check ended before"
        try:
            with self._kept() as process:
                process.tell({"over": cell})
                self.judged |= set(process.heard(seconds)["judged"])
        except EngineError as error:
            return str(error)
        return None

    @contextmanager
    def _kept(self) -> Iterator[Process]:
        """Give the process; forget it if the block fails, since it has ended then."""
        try:
            yield self._process
        except LabError:
            self._process = None
            raise
