"""`python -m solutions.grading.judge`: the judge of one notebook; solutions/grading/execute.py starts it."""

from pathlib import Path
from typing import Any

from helpers.backend import ENGINE
from helpers.data import load_dataset
from helpers.points.case import Case
from helpers.probes.student import Student
from solutions.checks.core.decide import fresh_seed, run_claims
from solutions.checks.trusted.reference import offered_environment
from solutions.checks.trusted.workspace import NEEDS, prepare
from solutions.grading.judge.process import judge

_SPLITS = ("calibration", "validation")


def _prepare(step: str, artifacts: Path) -> dict[str, Any]:
    notes = prepare(step, artifacts)
    for split in _SPLITS:  # the kernel cannot write where they are kept
        load_dataset("digits").images(split)
    environment = offered_environment([step])
    return {"notes": notes, "environment": environment, "needs": list(NEEDS[step]), "gpu": ENGINE == "tensorrt"}


def _decide(cell: str, student: Student, sandbox: str) -> None:
    run_claims(cell, Case(student, fresh_seed()), sandbox)


if __name__ == "__main__":
    judge(_prepare, _decide)
