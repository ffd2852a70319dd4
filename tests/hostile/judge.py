"""`python -m tests.hostile.judge`: the fixture course's judge, which starts in a second; and the same in the kernel.

A text is a number for it, which a process of its own reads, as engines and models are read: one that the text can take
over (loaders/reading.py). `grade_here` decides as the grader did before there was a second process: it runs where the
guard "judge" is off.
"""

import json
import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from helpers.checks.missed import Missed
from helpers.checks.probes.loads import LoadError
from helpers.checks.probes.student import Student
from helpers.tools.files import write_json
from solutions.checks.core.record import record_path
from solutions.grading.judge import child
from solutions.grading.judge.memory import Memory
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
    memory = Memory(asked.answers)
    _children.append(_loading.enter_context(child.LoadingChild(asked.sandbox, asked.loading, False, memory)))
    return {"notes": [], "needs": [], **_offers()}


def _offers() -> dict[str, Any]:
    timings = os.environ.get("HOSTILE_TIMINGS")  # a file for all kernels, as real TensorRT has one
    return {"environment": {"TRT_LAB_TIMING_CACHE": timings} if timings else {}, "gpu": False}


def _decide(cell: str, student: Student, sandbox: str) -> None:
    results = []
    for name, function, argument, expected, points in _CLAIMS[cell]:
        try:
            value = student.call("called", name=function, argument=argument).value
            kept = (_read(value) if isinstance(value, str) else value) == expected
        except (LoadError, Missed):
            kept = False
        results.append(_result(name, points, kept))
        write_json(record_path(cell), {**_record(cell, results), "sandbox": sandbox})


def _read(text: str) -> Any:
    return _children[-1].run("trtlab.reading", "evaluated", (text.encode(),), _READ_S, True)


def grade_here(cell: str, namespace: Mapping[str, Any], records: str) -> float:
    """Decide the cell's claims in this process, write the record after each, return the points."""
    results = []
    for name, function, argument, expected, points in _CLAIMS[cell]:
        try:
            kept = namespace[function](argument) == expected
        except Exception:
            kept = False
        results.append(_result(name, points, bool(kept)))
        path = Path(records, f"{cell}.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(_record(cell, results)))
    return sum(result["earned"] for result in results)


def _record(cell: str, results: list[dict[str, Any]]) -> dict[str, Any]:
    about = {"cell": cell, "step": _STEP, "criterion": "correctness", "engine": "none", "points": _POINTS[cell]}
    return {**about, "results": results}


def _result(name: str, points: float, kept: bool) -> dict[str, Any]:
    said = None if kept else {"expected": "the square", "found": "something else", "try_this": "multiply"}
    earned = points if kept else 0.0
    result = {"claim": name, "title": name, "points": points, "earned": earned, "missed": said}
    return {**result, "status": "kept" if kept else "lost", "evidence": "", "seconds": 0.0}


def main() -> None:
    """Do what stdin says."""
    with _loading:
        judge(_prepare, _decide, _offers)


if __name__ == "__main__":
    main()
