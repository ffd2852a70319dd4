"""A run as an ordered list of stages, each done once: what is already there from the same inputs is not made again.

A stage writes each output file in one step (helpers.tools.files) and is recorded in `.state.json` only when it has
ended, so that a stopped run goes on at the stage that it was in.
"""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TextIO

from helpers.tools.files import made_folders, read_json, sha256, write_json
from trtcpu.errors import InputError

STATE_FILE = ".state.json"
LOCK_FILE = ".lock"

Report = Callable[[str], None]


@dataclass(frozen=True)
class Stage:
    """One step of a run.

    Attributes:
        name: unique in the run; the key in the state file.
        title: what the user sees.
        action: does the work; it is given a function that shows a line of progress.
        inputs, outputs: files inside the run's folder, as relative paths.
        options: everything else that the outputs depend on; it must be JSON.
    """

    name: str
    title: str
    action: Callable[[Report], None]
    outputs: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StageRecord:
    """How a stage ended: `skipped` where it had been done before; `seconds` is the time its work took, then or now."""

    name: str
    title: str
    seconds: float
    skipped: bool


class Observer(Protocol):
    """Shows a run to its user."""

    def started(self, stage: Stage) -> None:
        """A stage begins its work."""

    def progressed(self, stage: Stage, text: str) -> None:
        """A stage says how far it is."""

    def ended(self, record: StageRecord) -> None:
        """A stage has ended or was skipped."""


def run_stages(
    stages: Sequence[Stage], folder: Path, versions: Mapping[str, str], observer: Observer
) -> list[StageRecord]:
    """Run the stages in order inside `folder`; skip each one that was done before with the same fingerprint.

    Args:
        versions: versions of everything that makes the outputs; part of every stage's fingerprint.

    Raises:
        InputError: the folder cannot be written to, or a stage did not write an output (our bug, named).
    """
    state = _read_state(folder)
    return [_run_stage(stage, folder, versions, state, observer) for stage in stages]


def _run_stage(
    stage: Stage, folder: Path, versions: Mapping[str, str], state: dict[str, Any], observer: Observer
) -> StageRecord:
    fingerprint = _fingerprint(stage, folder, versions)
    before = state.get(stage.name)
    if _is_done(before, fingerprint, stage, folder):
        record = StageRecord(stage.name, stage.title, before["seconds"], skipped=True)
    else:
        if state.pop(stage.name, None):
            _write_state(folder, state)
        observer.started(stage)
        start = time.perf_counter()
        stage.action(lambda text: observer.progressed(stage, text))
        record = StageRecord(stage.name, stage.title, time.perf_counter() - start, skipped=False)
        outputs = {output: sha256(folder / output) for output in stage.outputs}
        state[stage.name] = {"fingerprint": fingerprint, "outputs": outputs, "seconds": round(record.seconds, 3)}
        _write_state(folder, state)
    observer.ended(record)
    return record


def _fingerprint(stage: Stage, folder: Path, versions: Mapping[str, str]) -> str:
    """Return the SHA-256 of the options, the versions and the content of the inputs."""
    parts = {
        "name": stage.name,
        "options": dict(stage.options),
        "versions": dict(versions),
        "inputs": {path: sha256(folder / path) for path in stage.inputs},
        "outputs": list(stage.outputs),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _is_done(before: Any, fingerprint: str, stage: Stage, folder: Path) -> bool:
    """Say whether the stage ended before with this fingerprint and its outputs are still what it wrote."""
    if not isinstance(before, dict) or before.get("fingerprint") != fingerprint:
        return False
    outputs, seconds = before.get("outputs"), before.get("seconds")
    if not isinstance(outputs, dict) or not isinstance(seconds, (int, float)):
        return False
    return all(
        (folder / output).is_file() and sha256(folder / output) == outputs.get(output) for output in stage.outputs
    )


def _read_state(folder: Path) -> dict[str, Any]:
    """Return what is recorded as done; a missing or damaged record means that nothing is."""
    try:
        state = read_json(folder / STATE_FILE, "record of a run")
    except InputError:
        return {}
    stages = state.get("stages") if isinstance(state, dict) else None
    return stages if isinstance(stages, dict) else {}


def _write_state(folder: Path, state: dict[str, Any]) -> None:
    write_json(folder / STATE_FILE, {"stages": state})


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold the folder for one run at a time; the lock goes with the block, or with the process, however it ends.

    A folder that was made here and in which nothing was written goes again where the block fails.

    Raises:
        InputError: another run holds the folder, or it cannot be written to.
    """
    with contextlib.ExitStack() as stack:
        lock = folder / LOCK_FILE
        try:
            stack.enter_context(made_folders(folder))
            file = stack.enter_context(lock.open("w"))
        except OSError as error:
            raise InputError(f"cannot write to {folder}: {error.strerror or error}; choose another --out") from error
        if not _locked(file, lock):
            raise InputError(f"another run is writing to {folder}; wait for it or choose another --out")
        stack.callback(_remove, lock)
        yield


def _locked(file: TextIO, lock: Path) -> bool:
    """Lock the open file; False where another run holds it, or has just ended and removed it."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(file.fileno()), os.stat(lock))
    except ImportError:
        return True  # Windows has no flock; two runs into one folder are then the user's to avoid
    except OSError:
        return False


def _remove(lock: Path) -> None:
    with contextlib.suppress(OSError):  # Windows removes no file that is open
        lock.unlink()
