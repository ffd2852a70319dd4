"""Hidden points of step 8: every point on new runs, and this run's own report.

The solution notebook computes the right answers from a run's measurements.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from helpers.checks.points.case import Case
from helpers.checks.points.files import json_of
from helpers.checks.points.pure import agree
from helpers.checks.points.s08_report import TASKS
from helpers.checks.points.s08_report.report import EXAMPLES, MEASUREMENTS, NUMBERS, OnRuns, Run, built
from helpers.checks.points.task import Earned, shared
from helpers.course.settings import ENGINES, ONNX_FILE
from helpers.course.steps import made_by
from solutions.checks.trusted.solution_cells import solution_cell


def fresh(seed: int, kind: int) -> Run:
    """Return a recorded run with other numbers. The fastest engine, INT8's saturation and its loss stay the same."""
    random, old = np.random.default_rng([seed, kind]), EXAMPLES[kind]
    later = np.cumsum(random.integers(0, 3, len(old.batches))).tolist()  # larger batches, in the same order
    batches = {int(batch): int(batch) + more for batch, more in zip(old.batches, later, strict=True)}
    more = random.uniform(1, 9)
    rates = {name: random.uniform(9, 11) for name in old.report["throughput"]}
    head = {"engine": f"TensorRT 10.{kind}{seed % 1000}, made-up device", "model": f"net-{kind}{random.integers(1000)}"}
    contents = {
        "latency": [_changed(row, batches, random.uniform(0.5, 2)) for row in old.latency["rows"]],
        "throughput": [_changed(row, batches, rates[row["name"]]) for row in old.throughput["rows"]],
        "accuracy": [{**row, "top1": row["top1"] + more, "top5": row["top5"] + more} for row in old.accuracy["rows"]],
    }
    files = {
        kind: {**head, "num_samples": 500, "rows": random.permutation(rows).tolist()} for kind, rows in contents.items()
    }
    sizes = {name: int(random.integers(3_000_000, 900_000_000)) for name in old.files}
    memory = {name: size // 9 for name, size in sizes.items() if name != "onnx"}
    report = _solution("build_report")(**files, files={}) | {"sizes_bytes": sizes, "memory_bytes": memory}
    report["accuracy_loss"] = dict(reversed(report["accuracy_loss"].items()))  # another order: numbers belong to names
    return Run(**files, files=old.files, report=report, figures=_solution("key_figures")(report))


def _changed(row: dict[str, Any], batches: dict[int, int], factor: float) -> dict[str, Any]:
    numbers = {key: value * factor for key, value in row.items() if key not in ("name", "batch")}
    return numbers | {"name": row["name"], "batch": batches[row["batch"]]}


def _solution(name: str) -> Callable[..., dict[str, Any]]:
    """Return a function of the solution notebook."""
    exec(solution_cell("08_report", name), namespace := {})
    return namespace[name]


def _on_new_runs(judge: OnRuns, case: Case) -> Earned:
    """Judge a point on runs drawn from the case's seed; each piece earns the same share."""
    runs = [fresh(case.number("report.runs"), kind) for kind in range(len(EXAMPLES[: judge.most]))]
    return shared([partial(judge.on, case, runs, piece) for piece in judge.pieces])


for _point in (point for task in TASKS for point in task.points):
    _point.in_grading(partial(_on_new_runs, _point.judge))


@NUMBERS.hidden("report.this_run", 0.5, "report.json belongs to this run")
def this_run(case: Case) -> str:
    contents = {name: json_of(case, f"{name}.json", f"run step {made_by(f'{name}.json')}") for name in MEASUREMENTS}
    advice = "run build_report's cell, then the cell that writes report.json"
    right = built(case, Run(**contents, files={"onnx": ONNX_FILE, **ENGINES}, report={}, figures={}))
    agree(json_of(case, "report.json", advice), right, "report.json, as build_report makes it from this run", advice)
    return "report.json is what build_report makes from this run's files"
