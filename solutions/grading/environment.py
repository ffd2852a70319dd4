"""Where a student's artifacts and records are, and what the judge's and the kernel's processes are told of it."""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from solutions.grading.layout import ROOT

# The settings of whoever grades.
QUICK = {"TRT_LAB_QUICK": "1"}

_ANSWERS = ".answers"


def artifacts_of(student_folder: Path) -> Path:
    """Return where a student's artifacts are kept between steps; `student_folder` is autograded/<student>."""
    return student_folder / "artifacts"


def records_of(student_folder: Path) -> Path:
    """Return where the records of a student's test cells are kept."""
    return student_folder / "records"


@contextmanager
def answers_kept(root: Path) -> Iterator[None]:
    """Let the judges of a course share what they are answered in the block; nothing of it outlives a run."""
    folder = root / _ANSWERS
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def judge_environment() -> dict[str, str]:
    """Return the environment that a judge is started with: this process's, and quick settings."""
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, **QUICK, "PYTHONPATH": os.pathsep.join(path)}


def answers_of(student_folder: Path) -> Path | None:
    """Return where the answers are that are known in this run (judge/memory.py); None where nothing is kept."""
    answers = student_folder.parents[1] / _ANSWERS
    return answers if answers.is_dir() else None


def kernel_environment(offered: Mapping[str, str]) -> dict[str, str]:
    """Return what a kernel that grades is told besides the sandbox's allow-list, and what is `offered`."""
    return {**QUICK, "NBGRADER_EXECUTION": "autograde", **offered}
