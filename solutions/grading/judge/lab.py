"""The lab's own judge of one notebook: `main` is what its process does."""

from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import Any

from helpers.checks.points.case import Case
from helpers.checks.probes.student import Student
from helpers.course.steps import BY_NAME
from helpers.data.datasets import SHARED_SPLITS, load_dataset
from helpers.engine.backend import API, DEVICE, ENGINE, load_ahead
from solutions.checks.core.decide import run_points
from solutions.checks.core.seed import cell_seed
from solutions.checks.trusted.reference import offered_environment
from solutions.checks.trusted.workspace import prepare
from solutions.grading.judge.child import LoadingChild, Memory
from solutions.grading.judge.process import Asked, judge

_child = ExitStack()


def _prepare(asked: Asked) -> dict[str, Any]:
    memory = Memory(asked.answers, f"{DEVICE}, API {API}")
    _child.enter_context(LoadingChild(asked.sandbox, asked.loading, ENGINE == "tensorrt", memory))
    notes = prepare(asked.step, asked.artifacts, sandbox=asked.sandbox)
    for split in SHARED_SPLITS if BY_NAME[asked.step].images else ():  # the kernel cannot write where they are kept
        load_dataset("digits").images(split)
    return {
        "notes": notes,
        "environment": offered_environment([asked.step]),
        "needs": list(BY_NAME[asked.step].needs),
        "gpu": ENGINE == "tensorrt",
    }


def _offers() -> dict[str, Any]:
    return {"environment": offered_environment([]), "gpu": ENGINE == "tensorrt"}


def _decide(cell: str, student: Student, sandbox: str) -> None:
    run_points(cell, Case(student, cell_seed(cell)), sandbox)


def main(line: Connection) -> None:
    """Decide what is asked over `line`."""
    with _child:
        judge(line, _prepare, _decide, _offers, load_ahead)
