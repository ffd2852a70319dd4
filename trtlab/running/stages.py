"""A run as an ordered list of stages, each done once: what is already there from the same inputs is not made again.

A stage writes each output file in one step (helpers.tools.files) and is recorded in `.state.json` only when it has
ended, so that a stopped run goes on at the stage that it was in.
"""

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from helpers.tools.files import made_folders, read_json, sha256, write_json
from trtcpu.errors import InputError

STATE_FILE = ".state.json"

Report = Callable[[str], None]
Working = Callable[[str], contextlib.AbstractContextManager[Report]]


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


def run_stages(
    stages: Sequence[Stage], folder: Path, versions: Mapping[str, str], working: Working
) -> Iterator[tuple[Stage, float | None]]:
    """Run the stages in order inside `folder`; skip each one that was done before with the same fingerprint.

    Yields each stage when it has ended, with its seconds; None if it had been done before.

    Args:
        versions: versions of everything that makes the outputs; part of every stage's fingerprint.
        working: shows a title while a stage runs.

    Raises:
        InputError: the folder cannot be written to.
    """
    state = _read_state(folder)
    for stage in stages:
        fingerprint, seconds = _fingerprint(stage, folder, versions), None
        if not _is_done(state.get(stage.name), fingerprint, stage, folder):
            if state.pop(stage.name, None):
                write_json(folder / STATE_FILE, {"stages": state})
            start = time.perf_counter()
            with working(stage.title) as report:
                stage.action(report)
            seconds = time.perf_counter() - start
            outputs = {output: sha256(folder / output) for output in stage.outputs}
            state[stage.name] = {"fingerprint": fingerprint, "outputs": outputs, "seconds": round(seconds, 3)}
            write_json(folder / STATE_FILE, {"stages": state})
        yield stage, seconds


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
    try:
        outputs = {output: sha256(folder / output) for output in stage.outputs}
        return before["fingerprint"] == fingerprint and before["outputs"] == outputs
    except (KeyError, OSError, TypeError):
        return False


def _read_state(folder: Path) -> dict[str, Any]:
    """Return what is recorded as done; a missing or damaged record means that nothing is."""
    try:
        return dict(read_json(folder / STATE_FILE, "record of a run")["stages"])
    except (InputError, KeyError, TypeError, ValueError):
        return {}


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold the folder for one run at a time; the lock goes with the block, or with the process, however it ends.

    A folder that was made here and in which nothing was written goes again if the block fails.

    Raises:
        InputError: another run holds the folder, or it cannot be written to.
    """
    lock = folder / ".lock"
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(made_folders(folder))
            stack.enter_context(FileLock(lock, timeout=0))
        except Timeout as error:
            raise InputError(f"another run is writing to {folder}; wait for it or choose another --out") from error
        except OSError as error:
            raise InputError(f"cannot write to {folder}: {error.strerror or error}; choose another --out") from error
        stack.callback(lock.unlink, missing_ok=True)
        yield
