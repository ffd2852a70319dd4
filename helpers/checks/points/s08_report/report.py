"""Made-up runs, and build_report(latency, throughput, accuracy, files) judged on them.

The visible checks' runs are recorded data with their right answers. The grader draws new ones, with code that students
do not have. Each run has other batches, devices, names and winners.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers.checks.points.builders import facts_of
from helpers.checks.points.case import Case
from helpers.checks.points.files import needed
from helpers.checks.points.pure import OneOf, agree, plain
from helpers.checks.points.task import Task
from helpers.checks.probes.answer import Notebook, probe
from helpers.course.artifacts import artifact_path
from helpers.course.settings import BASELINE
from helpers.course.steps import made_by

MEASUREMENTS = ("latency", "throughput", "accuracy")


@dataclass(frozen=True)
class Run:
    """A run: the contents of the three measurement files, and the artifact for each name of `files`.

    `report` is the right report, except for made-up sizes and memory; the functions that take a report get it.
    `figures` are its key figures.
    """

    latency: dict[str, Any]
    throughput: dict[str, Any]
    accuracy: dict[str, Any]
    files: dict[str, str]
    report: dict[str, Any]
    figures: dict[str, Any]

    @property
    def batches(self) -> list[str]:
        """The batches, as a report's keys."""
        return list(self.report["throughput"][BASELINE])


EXAMPLES = [Run(**raw) for raw in json.loads((Path(__file__).parent / "examples.json").read_text())]


@dataclass(frozen=True)
class OnRuns:
    """Judges a point on runs, piece by piece: `judge(case, run, piece)` returns evidence or raises Missed.

    A call judges every piece on recorded runs, as a visible check does. `most` is the number of runs: few if each
    takes a second.
    """

    judge: Callable[[Case, Run, str], str]
    pieces: Sequence[str]
    most: int = 2

    def on(self, case: Case, runs: Sequence[Run], piece: str) -> str:
        """Judge one piece on each of some runs, and return the last one's evidence."""
        return [self.judge(case, run, piece) for run in runs][-1]

    def __call__(self, case: Case) -> str:
        said = [self.on(case, EXAMPLES[: self.most], piece) for piece in self.pieces]
        return "; ".join(dict.fromkeys(said))


FUNCTION = "build_report"
DECIMALS = 3  # of a rounded number, at least
ROUNDING = 0.6 * 10**-DECIMALS
_IN_ORDER = ("latency_ms", "throughput")

_ADVICE = "compare with the task's schema; batches are text keys, sorted as numbers"

NUMBERS = Task("report_numbers", check="check_report", takes=(FUNCTION,))


@probe
def report_built(
    notebook: Notebook, *, latency: Any, throughput: Any, accuracy: Any, files: dict[str, str]
) -> dict[str, Any]:
    """Return the report that `build_report` makes; `files` gives the artifact for each name."""
    paths = {name: artifact_path(file) for name, file in files.items()}
    return dict(plain(notebook[FUNCTION](latency, throughput, accuracy, paths)))


def built(case: Case, run: Run) -> dict[str, Any]:
    """Return the report that the student's function makes of a run."""
    given = {"latency": run.latency, "throughput": run.throughput, "accuracy": run.accuracy, "files": run.files}
    return case.call(report_built, **given).require(FUNCTION)


def _expected(case: Case, run: Run, key: str) -> Any:
    if key not in ("sizes_bytes", "memory_bytes"):
        return run.report[key]
    files = {name: (needed(case, file, f"run step {made_by(file)}"), file) for name, file in run.files.items()}
    if key == "sizes_bytes":
        return {name: len(content) for name, (content, _) in files.items()}
    return {name: OneOf(tuple(facts_of(*file)["memory"])) for name, file in files.items() if name != "onnx"}


def _agrees(case: Case, run: Run, key: str) -> str:
    found, right = built(case, run).get(key), _expected(case, run, key)
    agree({key: found}, {key: right}, "build_report on a made-up run", _ADVICE, atol=ROUNDING)
    if key in _IN_ORDER:
        batches = {name: list(row) for name, row in right.items()}
        agree({name: list(found[name]) for name in right}, batches, f"{key} with its batches in order", _ADVICE)
    return f"{key} right"


for _name, _worth, _title, _keys in (
    ("sizes", 0.5, "The sizes are the files' sizes", ("sizes_bytes",)),
    ("memory", 0.5, "The memory is what each engine reports", ("memory_bytes",)),
    ("measurements", 1, "Engine, model, latency and throughput come from the files", ("engine", "model", *_IN_ORDER)),
    ("speedup", 0.75, "The speed-up is over PyTorch FP32 at the same batch", ("speedup",)),
    ("accuracy", 0.75, "Accuracy in percent, loss in points below FP32", ("accuracy", "accuracy_loss")),
):
    NUMBERS.point(f"report.{_name}", _worth, _title)(OnRuns(_agrees, _keys))
