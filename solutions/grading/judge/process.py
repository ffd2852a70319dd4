"""The judge's process: prepares a step's artifacts, then decides its test cells one by one, as its stdin says.

The first line out says what any kernel may have. A line in is what `Asked` has once, then {"cell", "door", "kernel"}
for each test cell; any other line that comes while a cell is decided says that the cell has ended in the kernel. A line
out answers each.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from helpers.checks.probes.student import Student, read_artifact
from helpers.course.artifacts import use_artifacts
from helpers.course.steps import ARTIFACTS
from helpers.tools.files import atomic_write
from solutions.checks.core.seed import use_seed
from solutions.checks.trusted import stillness
from solutions.grading.judge.door import Door
from solutions.sandbox.processes import paused
from solutions.sandbox.room import close
from trtcpu.errors import LabError


@dataclass(frozen=True)
class Asked:
    """What a judge is asked to judge."""

    step: str
    artifacts: Path
    """The trusted folder with the artifacts of earlier steps; the records go beside it."""
    scratch: Path
    """Where the kernel hands its deliverables over."""
    loading: Path
    """For what loads a student's files."""
    sandbox: str
    room: int
    """Bytes that the step's own files may take together in the trusted folder."""
    seed: int | None = None
    """The run's; None: fresh ones."""
    answers: Path | None = None
    """Where answers are kept that are known in this run."""
    exchange: Path | None = None
    """The course's own exchange, which no sandbox shows."""

    @classmethod
    def of(cls, line: dict[str, Any]) -> "Asked":
        """Return what a line of JSON asks."""
        paths = ("artifacts", "scratch", "loading", "answers", "exchange")
        return cls(**{key: Path(value) if key in paths and value else value for key, value in line.items()})


# Makes a step's artifacts ready in their folder; returns what the grader is told: notes, environment, needs, gpu.
Prepare = Callable[[Asked], dict[str, Any]]

# Decides a test cell's claims on a student and writes the record, with the name of the sandbox in it.
Decide = Callable[[str, Student, str], Any]

_DIE_WITH_PARENT = 1

# Seconds without a question after which a judge was started ahead.
_IDLE_S = 1.0


def _nothing() -> dict[str, Any]:
    return {"environment": {}, "gpu": False}


def judge(
    prepare: Prepare,
    decide: Decide,
    offers: Callable[[], dict[str, Any]] = _nothing,
    meanwhile: Callable[[], Any] = lambda: None,
) -> None:
    """Do what stdin says until it ends, or until the grader does; `meanwhile` where nobody has asked yet."""
    if sys.platform.startswith("linux"):  # two judges, of a killed grader and of the next, would write the same records
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    with _answers() as say:
        say(offers())
        if not select.select([sys.stdin], [], [], _IDLE_S)[0]:
            meanwhile()
        line = json.loads(sys.stdin.readline() or "null")
        if line is None:
            return
        asked = Asked.of(line)
        use_artifacts(asked.artifacts)
        use_seed(asked.seed)
        if asked.exchange:
            close(asked.exchange)
        try:
            say(prepare(asked))
        except LabError as error:
            return say({"error": " ".join(str(error).split())})
        artifacts = Artifacts(asked.step, asked.artifacts, asked.scratch, asked.room)
        for line in sys.stdin:
            cell = json.loads(line)
            if "cell" in cell:
                with Door(cell["door"], sys.stdin.fileno()) as door:
                    say({"waiting": cell["cell"]})
                    door.wait()
                    artifacts.forget()
                    stillness.held_by(partial(paused, *cell["kernel"]) if cell["kernel"] else contextlib.nullcontext)
                    decide(cell["cell"], Student(door.send, artifacts.read), asked.sandbox)
                say({"decided": cell["cell"], "judged": sorted(artifacts.judged)})


@contextlib.contextmanager
def _answers() -> Iterator[Callable[[dict[str, Any]], None]]:
    """Keep stdout for the answers: what libraries print goes to stderr."""
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as out:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

        def say(answer: dict[str, Any]) -> None:
            out.write(json.dumps(answer) + "\n")
            out.flush()

        yield say


class Artifacts:
    """The deliverables: the step's own from its kernel's scratch, those of earlier steps from the trusted folder.

    A file of the step's own is taken over into the trusted folder when a test cell first asks for it, so that all
    claims on it, and the steps that take it, have the same bytes: nobody shows one engine that is careful and another
    that is fast. `judged` has the names of these. One that would take them past `room` bytes counts as not made.
    """

    def __init__(self, step: str, trusted: Path, scratch: Path, room: int) -> None:
        self._step, self._trusted, self._scratch, self._room = step, trusted, scratch, room
        self._read: dict[str, bytes | None] = {}
        self.judged: set[str] = set()

    def forget(self) -> None:
        """Forget what one test cell read: what was not there may be now."""
        self._read.clear()

    def read(self, name: str) -> bytes | None:
        """Return a file's content, None where there is none."""
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
