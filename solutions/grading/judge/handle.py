"""The grader's handle on a judge: starts the process, and tells it what to prepare and which cell to decide."""

import json
import multiprocessing
import os
import runpy
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cached_property
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from solutions.grading.faults import DISK_FULL, CourseError
from solutions.grading.judge.child import LIMITS
from solutions.grading.layout import ROOT
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
        module: what `python -m` runs as the judge.
        environment: its whole environment.
        copied: begin as a copy of this process, which has imported the module.
    """

    def __init__(self, module: str, environment: Mapping[str, str], *, copied: bool = False) -> None:
        self.errors = _kept_in_memory()
        self._socket, theirs = socket.socketpair()
        self._process: BaseProcess | subprocess.Popen[bytes]
        with theirs:
            if copied:
                context = multiprocessing.get_context("fork")
                self._process = context.Process(
                    target=_run, args=(module, environment, self._socket, theirs, self.errors)
                )
                self._process.start()
            else:
                files = {"stdin": theirs, "stdout": theirs, "stderr": self.errors}
                self._process = subprocess.Popen([sys.executable, "-m", module], cwd=ROOT, env=environment, **files)
        self._answers = self._socket.makefile("r")

    @cached_property
    def offers(self) -> dict[str, Any]:
        """What any kernel may have: variables, `environment`, and whether it needs the `gpu`.

        Raises:
            EngineError: it has ended.
        """
        return self.heard(None)

    def tell(self, line: Mapping[str, Any]) -> None:
        """Write a line.

        Raises:
            EngineError: it has ended.
        """
        try:
            self._socket.sendall(f"{json.dumps(line)}\n".encode())
        except OSError as error:
            raise self._gone() from error

    def heard(self, seconds: float | None) -> dict[str, Any]:
        """Return its next answer; one that does not come within `seconds` ends it.

        Raises:
            EngineError: there was none.
        """
        started = time.monotonic()
        if not select.select([self._socket], [], [], seconds)[0]:
            self.end()
            raise EngineError(f"the check was not done {time.monotonic() - started:.0f} s after the cell had ended")
        line = self._answers.readline()
        if not line:
            raise self._gone()
        return json.loads(line)

    def end(self) -> None:
        """End it."""
        self._process.kill()
        self._code()
        self._answers.close()
        self._socket.close()
        self.errors.close()

    def _code(self) -> int | None:
        if isinstance(self._process, subprocess.Popen):
            return self._process.wait()
        self._process.join()
        return self._process.exitcode

    def _gone(self) -> LabError:
        """Return why it has ended: an EngineError, or the CourseError of a full disk, for which no submission pays."""
        code = self._code()
        self.errors.seek(0)
        said = self.errors.read().strip().splitlines() or [f"it ended with {code}"]
        self.end()
        if any(text in said[-1] for text in (*DISK_FULL, MACHINE_FULL)):
            return CourseError(f"the course's disk or folder failed: {said[-1][:200]}; mend that and grade again")
        return EngineError(f"the check itself failed, tell your instructor: {said[-1][:200]}")


def _run(
    module: str, environment: Mapping[str, str], theirs: socket.socket, talk: socket.socket, errors: IO[str]
) -> None:
    """Do what `python -m module` does, in a copy of the grader's process."""
    theirs.close()
    signal.set_wakeup_fd(-1)  # it is the grader's
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(environment)
    for own, file in enumerate((talk, talk, errors)):
        os.dup2(file.fileno(), own)
    sys.stdin, sys.stdout, sys.stderr = (open(own, mode, closefd=False) for own, mode in enumerate("rww"))
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _kept_in_memory() -> IO[str]:
    """Return a file for a judge's last words, which a full disk does not take where the system can have one so."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("judge"), "w+", errors="replace")
    return tempfile.TemporaryFile("w+", errors="replace")


class Judge:
    """One notebook's judge; used as a context manager. One that ended is started again for the next cell.

    Args:
        start: starts a judge's process.
        step: the notebook's step.
        artifacts: the trusted folder with the artifacts of earlier steps.
        scratch: the folder that the kernel hands its deliverables over in.
        sandbox: the name of the sandbox that the kernel runs in, for the records.
        room: bytes that the step's own files may take together in the trusted folder.
        run: the run's seed, the folder of its answers and the course's exchange (process.Asked).
    """

    def __init__(
        self,
        start: Callable[[], Process],
        step: str,
        artifacts: Path,
        scratch: Path,
        sandbox: str,
        room: int,
        run: Mapping[str, Any],
    ) -> None:
        self._begin = start
        self._told: dict[str, Any] = {
            "step": step,
            "artifacts": str(artifacts),
            "scratch": str(scratch),
            "sandbox": sandbox,
        }
        self._told |= {"room": room, **run}
        self._process: Process | None = None
        self.prepared: dict[str, Any] = {}
        """What it said when the artifacts were ready."""
        self.judged: set[str] = set()
        """The step's own files that it has taken over from the scratch, since it decided on them."""

    def __enter__(self) -> "Judge":
        self._stack = ExitStack()
        self._told["loading"] = str(self._stack.enter_context(temporary(LIMITS, "trt-lab-load-")))
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.end()
        self._stack.close()

    def begin(self, cell: str, folder: Path, kernel: tuple[int, str] | None = None) -> str:
        """Have a cell decided; return the path of the socket in `folder` at which the kernel must answer.

        While time is measured the process `kernel` stands still, named by its number and when it was started.

        Raises:
            EngineError: the judge cannot do it.
        """
        if self._process is None:
            self._start()
        door = str(folder / f"{secrets.token_hex(4)}.sock")
        with self._kept() as process:
            process.tell({"cell": cell, "door": door, "kernel": kernel})
            process.heard(START_S)
        return door

    def end(self, cell: str, seconds: float) -> str | None:
        """Say that the kernel has ended the cell; return None once it is decided, else why it is not."""
        if self._process is None:
            return "the check ended before"
        try:
            with self._kept() as process:
                process.tell({"over": cell})
                self.judged |= set(process.heard(seconds)["judged"])
        except EngineError as error:
            return str(error)
        return None

    def _start(self) -> None:
        self._process, self.judged = self._begin(), set()
        with self._kept() as process:
            process.offers  # noqa: B018 - its first line
            process.tell(self._told)
            self.prepared = process.heard(PREPARE_S)
        if "error" in self.prepared:
            raise EngineError(f"cannot prepare the artifacts of {self._told['step']}: {self.prepared['error']}")

    @contextmanager
    def _kept(self) -> Iterator[Process]:
        """Use the process, which has ended where that fails."""
        try:
            yield self._process
        except LabError:
            self._process = None
            raise
