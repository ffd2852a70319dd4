"""The fixture course's judge, which starts in a second; and the same in the kernel.

A text is a number for it, which a process of its own reads, as engines and models are read: one that the text can take
over (loaders/reading.py). `grade_here` decides as the grader did before there was a second process: it runs where the
guard "judge" is off.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from helpers.checks.missed import Missed
from helpers.checks.probes.loads import LoadError
from helpers.checks.probes.student import Student
from helpers.tools.files import write_json
from solutions.checks.core.record import record_path
from solutions.grading.judge import child
from solutions.grading.judge.process import Asked, judge

_LOADERS = Path(__file__).parent / "loaders"
_READ_S = 20
_loading = ExitStack()
_children: list[child.LoadingChild] = []

_STEP, _POINTS = "01_export", {"export_model": 3.0, "simplify_model": 2.0}  # tests/grading/tiny.py loads the engine

_CLAIMS = {
    "export_model": [("square.two", "square", 2, 4, 2.0), ("square.three", "square", 3, 9, 1.0)],
    "simplify_model": [("cube.two", "cube", 2, 8, 2.0)],
}


def _prepare(asked: Asked) -> dict[str, Any]:
    child._TRTLAB = _LOADERS  # what stands there can be taken over by what it loads
    memory = child.Memory(asked.answers)
    _children.append(_loading.enter_context(child.LoadingChild(asked.sandbox, asked.loading, False, memory)))
    return {"notes": [], "needs": [], **_offers()}


def _offers() -> dict[str, Any]:
    timings = os.environ.get("HOSTILE_TIMINGS")  # a file for all kernels, as real TensorRT has one
    return {"environment": {"TRT_LAB_TIMING_CACHE": timings} if timings else {}, "gpu": False}


def _decide(cell: str, student: Student, sandbox: str) -> None:
    def called(function: str, argument: int) -> Any:
        value = student.call("called", name=function, argument=argument).value
        if isinstance(value, str):
            return _children[-1].run("trtlab.reading", "evaluated", (value.encode(),), _READ_S, True)
        return value

    _decided(cell, called, record_path(cell), sandbox, (LoadError, Missed))


def grade_here(cell: str, namespace: Mapping[str, Any], records: str) -> float:
    """Decide the cell's claims in this process, write the record after each, return the points."""

    def called(function: str, argument: int) -> Any:
        return namespace[function](argument)

    return _decided(cell, called, Path(records, f"{cell}.json"), "none", (Exception,))


def _decided(
    cell: str,
    called: Callable[[str, int], Any],
    path: Path,
    sandbox: str,
    missed: tuple[type[Exception], ...],
) -> float:
    results = []
    about = {"cell": cell, "step": _STEP, "criterion": "correctness", "engine": "none", "points": _POINTS[cell]}
    for name, function, argument, expected, points in _CLAIMS[cell]:
        try:
            kept = bool(called(function, argument) == expected)
        except missed:
            kept = False
        said = None if kept else {"expected": "the square", "found": "something else", "try_this": "multiply"}
        result = {"claim": name, "title": name, "points": points, "earned": points * kept, "missed": said}
        results.append({**result, "status": "kept" if kept else "lost", "evidence": "", "seconds": 0.0})
        write_json(path, {**about, "results": results, "sandbox": sandbox})
    return sum(result["earned"] for result in results)


def main(line: Connection) -> None:
    """Decide what is asked over `line`."""
    with _loading:
        judge(line, _prepare, _decide, _offers)
