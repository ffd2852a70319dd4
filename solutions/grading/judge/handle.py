"""The grader's handle on a judge: starts the process, and tells it what to prepare and which cell to decide."""

import json
import secrets
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from helpers.errors import EngineError
from solutions.grading.layout import ROOT

__all__ = ["Judge"]

START_S = 120.0
"""Seconds within which a judge says that it listens."""


class Judge:
    """One notebook's judge; used as a context manager. One that ended is started again for the next cell.

    Args:
        module: what `python -m` runs as the judge.
        environment: its whole environment.
        step: the notebook's step.
        artifacts: the trusted folder with the artifacts of earlier steps.
        scratch: the folder that the kernel hands its deliverables over in.
        sandbox: the name of the sandbox that the kernel runs in, for the records.
    """

    def __init__(
        self, module: str, environment: Mapping[str, str], step: str, artifacts: Path, scratch: Path, sandbox: str
    ) -> None:
        self._module, self._environment = module, environment
        self._told = {"step": step, "artifacts": str(artifacts), "scratch": str(scratch), "sandbox": sandbox}
        self._process: subprocess.Popen[str] | None = None
        self.prepared: dict[str, Any] = {}
        """What it said when the artifacts were ready."""

    def __enter__(self) -> "Judge":
        self._errors = tempfile.TemporaryFile("w+", errors="replace")
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        self._errors.close()

    def begin(self, cell: str, folder: Path) -> str:
        """Have a cell decided; return the path of the socket in `folder` at which the kernel must answer.

        Raises:
            EngineError: the judge cannot do it.
        """
        if self._process is None:
            self._start()
        door = str(folder / f"{secrets.token_hex(4)}.sock")
        self._tell({"cell": cell, "door": door})
        self._heard(START_S)
        return door

    def end(self, cell: str, seconds: float) -> str | None:
        """Say that the kernel has ended the cell; return None once it is decided, else why it is not."""
        if self._process is None:
            return "the check ended before"
        try:
            self._tell({"over": cell})
            self._heard(seconds)
        except EngineError as error:
            return str(error)
        return None

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", self._module],
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._tell(self._told)
        self.prepared = self._heard(None)
        if "error" in self.prepared:
            raise EngineError(f"cannot prepare the artifacts of {self._told['step']}: {self.prepared['error']}")

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _tell(self, line: dict[str, str]) -> None:
        try:
            self._process.stdin.write(json.dumps(line) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise self._gone() from error

    def _heard(self, seconds: float | None) -> dict[str, Any]:
        """Return the judge's next answer; one that does not come within `seconds` ends the judge."""
        started = time.monotonic()
        if not select.select([self._process.stdout], [], [], seconds)[0]:
            self._end()
            raise EngineError(f"the check was not done {time.monotonic() - started:.0f} s after the cell had ended")
        line = self._process.stdout.readline()
        if not line:
            raise self._gone()
        return json.loads(line)

    def _gone(self) -> EngineError:
        code = self._process.wait()
        self._end()
        self._errors.seek(0)
        said = self._errors.read().strip().splitlines() or [f"it ended with {code}"]
        return EngineError(f"the check itself failed, tell your instructor: {said[-1][:200]}")
