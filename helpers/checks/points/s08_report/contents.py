"""build_report(latency, throughput, accuracy, files): each number is the files', or follows from them."""

import json
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypedDict

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.files import needed
from helpers.checks.points.s08_report.runs import MEASUREMENTS, Part, Run
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.loads import loads
from helpers.course.artifacts import artifact_path
from helpers.course.settings import BASELINE, NAMES
from helpers.course.steps import made_by
from helpers.engine.backend import trt

FUNCTION = "build_report"
DECIMALS = 3
"""Decimals that a number may be rounded to."""

_EXAMPLES = 2
_ROUNDING = 0.6 * 10**-DECIMALS
_RELATIVE = 1e-6
_OPTIONAL = {"speedup": (BASELINE,), "accuracy_loss": (BASELINE, "fp32")}
_BY_BATCH = ("latency_ms", "throughput")
_MEMORY_NAMES = ("device_memory_size", "device_memory_size_v2")  # TensorRT 10 has both


class Built(TypedDict):
    """What `report_built` answers."""

    content: Any
    returned_type: str


@probe
def report_built(notebook: Notebook, *, latency: Any, throughput: Any, accuracy: Any, files: dict[str, str]) -> Built:
    """Call `build_report`; `files` names the artifact that each name stands for.

    Returns `content` (what it returned, as JSON would hold it; None where it cannot) and `returned_type`.
    """
    paths = {name: artifact_path(file) for name, file in files.items()}
    returned = notebook[FUNCTION](latency, throughput, accuracy, paths)
    return {"content": as_json(returned), "returned_type": type(returned).__name__}


def as_json(value: Any) -> Any:
    """Return the value after a round trip through JSON, so that 8 and "8" are one key; None where there is no way."""
    try:
        return json.loads(json.dumps(value, default=lambda number: number.item()))
    except (TypeError, ValueError, AttributeError):
        return None


def built(case: Case, run: Run) -> dict[str, Any]:
    """Return the report that the student's function makes of a run."""
    data = {"latency": run.latency, "throughput": run.throughput, "accuracy": run.accuracy, "files": run.files}
    reply = case.call(report_built, **data)
    if reply.error:  # which may be a file's fault, not the function's
        _check_files(case, run)
    value = reply.require(FUNCTION)
    content = as_json(value["content"])  # what was not the probe's answer may be no JSON
    if not isinstance(content, dict):
        found = f"a {value['returned_type']} that json.dumps does not take as a dictionary"
        raise Missed("the content of report.json, as a dictionary", found, "return the dictionary of the schema")
    return content


def _needed(case: Case, name: str) -> bytes:
    return needed(case, name, f"run step {made_by(name)}, which makes it")


def _expected(case: Case, run: Run, key: str) -> Any:
    """Return what a report of the run must hold under `key`; a set holds values of which any is right."""
    if key == "sizes_bytes":
        return {name: len(_needed(case, file)) for name, file in run.files.items()}
    if key == "memory_bytes":
        return _memories(case, run)
    return run.report[key]


def _check_files(case: Case, run: Run) -> None:
    """Raise Missed where a file is missing, is no engine, or lacks what was measured of an engine."""
    for key in ("sizes_bytes", "memory_bytes"):
        _expected(case, run, key)
    for kind in MEASUREMENTS:
        content, file = json.dumps(getattr(run, kind)), f"{kind}.json"
        if lacking := [name for name in NAMES if json.dumps(name) not in content]:
            raise Missed(f"rows of {', '.join(lacking)} in {file}", "none", f"run step {made_by(file)} again")


def _memories(case: Case, run: Run) -> dict[str, frozenset[int]]:
    """Return what each engine says of its activations, under each name that TensorRT has for that."""
    found = {name: _memory(_needed(case, file)) for name, file in run.files.items() if name != "onnx"}
    for name, memory in found.items():
        if not memory:
            file = run.files[name]
            advice = f"run step {made_by(file)} again, which makes it"
            raise Missed(f"{file} to be an engine that this TensorRT can load", "a file that it cannot load", advice)
    return found


@lru_cache(maxsize=4)
def _memory(plan: bytes) -> frozenset[int]:
    return frozenset((_memory_by_name(plan) or {}).values())


@loads
def _memory_by_name(plan: bytes) -> dict[str, int] | None:
    engine = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(plan)
    if engine is None:
        return None
    return {name: int(getattr(engine, name)) for name in _MEMORY_NAMES if hasattr(engine, name)}


def _agrees(case: Case, runs: Sequence[Run], key: str) -> str:
    for run in runs:
        content = built(case, run)
        if wrong := _differences(content.get(key), _expected(case, run, key), key, _OPTIONAL.get(key, ())):
            place, should, found = wrong[0]
            more = f" (and {len(wrong) - 1} more that differ)" if len(wrong) > 1 else ""
            raise Missed(f"{place} to be {should}", f"{found}{more}", "compare with the schema in the task")
        if key in _BY_BATCH or (key == "speedup" and _misplaced(content.get("throughput"), run.batches) is None):
            _check_order(content[key], run.batches, key)
    return f"{key} right in {len(runs)} runs that were made up"


def _check_order(table: dict[str, Any], batches: list[str], key: str) -> None:
    rows = {name: row for name, row in table.items() if isinstance(row, dict)}  # what nobody asked for is free
    if name := _misplaced(rows, batches):
        expected = f"the batches of {key}[{name!r}] in rising order: {', '.join(batches)}"
        raise Missed(expected, ", ".join(rows[name]), "sort them as numbers, not as text")


def _misplaced(table: Any, batches: list[str]) -> str | None:
    """Return the first name of a table whose batches stand in another order, or do not all stand there."""
    series = table if isinstance(table, dict) else {"": {}}
    rows = {name: row if isinstance(row, dict) else {} for name, row in series.items()}
    return next((name for name, row in rows.items() if [batch for batch in row if batch in batches] != batches), None)


def _differences(found: Any, expected: Any, where: str, optional: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return (place, expected, found) for every value that is missing or differs; keys that nobody asked for are free.

    Keys named in `optional` may be left out, but must be right where they are there.
    """
    if not isinstance(expected, dict):
        return [] if equal(found, expected) else [(where, *_shown(expected, found))]
    if not isinstance(found, dict):
        return [(where, f"a dictionary of {', '.join(expected)}", _short(found))]
    lines = []
    for key, value in expected.items():
        if key in found:
            lines += _differences(found[key], value, f"{where}[{key!r}]", ())
        elif key not in optional:
            lines.append((f"{where}[{key!r}]", _short(value), "nothing"))
    return lines


def equal(found: Any, expected: Any) -> bool:
    """Return whether a value is the expected one (one of a set's), numbers rounded to three decimals or more."""
    if isinstance(expected, frozenset):
        return any(equal(found, value) for value in expected)
    if isinstance(expected, str) or type(found) not in (int, float):
        return type(found) is type(expected) and found == expected
    return math.isclose(found, expected, rel_tol=_RELATIVE, abs_tol=_ROUNDING)


def _shown(expected: Any, found: Any) -> tuple[str, str]:
    """Return two values as text; numbers that differ beyond what is usually shown are shown in full."""
    should, was = _short(expected), _short(found)
    return (should, was) if should != was else (repr(expected), repr(found))


def _short(value: Any) -> str:
    if isinstance(value, frozenset):
        return " or ".join(map(str, sorted(value)))
    if isinstance(value, float):
        return f"{value:.6g}"
    if value is None:
        return "nothing"
    return f"a dictionary of {', '.join(map(str, value))[:60]}" if isinstance(value, dict) else repr(value)[:80]


def _part(title: str, *keys: str) -> Part:
    return Part(title, keys, _agrees, _EXAMPLES)


PARTS = {
    "report.sizes": _part("The sizes are those of the files", "sizes_bytes"),
    "report.memory": _part("The memory is what each engine says", "memory_bytes"),
    "report.measurements": _part("Engine, model, latency and throughput are the files'", "engine", "model", *_BY_BATCH),
    "report.speedup": _part("The speed-up is over PyTorch FP32 at the same batch", "speedup"),
    "report.accuracy": _part("Accuracy in percent, loss in points below FP32", "accuracy", "accuracy_loss"),
}
