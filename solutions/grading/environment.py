"""What a submission's kernel is given: where its artifacts and records are, and the artifacts of earlier steps."""

import json
import os
import subprocess
import sys
from pathlib import Path

from helpers.errors import EngineError
from solutions.grading.layout import ROOT

__all__ = ["artifacts_of", "kernel_environment", "prepared", "records_of"]


def artifacts_of(student_folder: Path) -> Path:
    """Return where a student's artifacts are kept between steps; `student_folder` is autograded/<student>."""
    return student_folder / "artifacts"


def records_of(student_folder: Path) -> Path:
    """Return where the records of a student's test cells are kept."""
    return student_folder / "records"


def kernel_environment(student_folder: Path) -> dict[str, str]:
    """Return the environment of a kernel that grades: this process's, with the student's folders and quick settings."""
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        "TRT_LAB_ARTIFACTS": str(artifacts_of(student_folder)),
        "TRT_LAB_RECORDS": str(records_of(student_folder)),
        "TRT_LAB_QUICK": "1",
        "PYTHONPATH": os.pathsep.join(path),
    }


def prepared(step: str, student_folder: Path) -> tuple[list[str], dict[str, str]]:
    """Put the artifacts that `step` needs in place; return a line for each that says whose it is, and variables.

    The variables are what the reference offers to the kernel, besides `kernel_environment`.

    In a process of its own, with the kernel's settings: it loads what the student built, which may crash.

    Raises:
        EngineError: the reference could not be made; the message ends with the reason.
    """
    folder = artifacts_of(student_folder)
    command = [sys.executable, "-m", "solutions.grading.prepare", step, str(folder)]
    environment = kernel_environment(student_folder)
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        raise EngineError(f"cannot prepare the artifacts of {step}: {said[-1]}")
    found = json.loads(done.stdout.splitlines()[-1])
    return found["notes"], found["environment"]
