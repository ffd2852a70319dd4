"""The parts of the test, each on a course of its own, so that a stopped one goes on where it was."""

import random
import re
import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from solutions.grading.layout import ROOT
from tests.grading.dask_cluster import cluster
from tests.whole_class.course import Failed, Run, compared, made, seconds
from tests.whole_class.generator import SEED, Student, kept

_KILLS = 3
_CHANGED_STEP, _CHANGED_CLAIM = "05_inference", "inference.batches"
_CHANGE = """

from helpers.checks.missed import Missed
from helpers.checks.points.s05_inference import TASKS


def _stricter(case):
    raise Missed("more than it was", "what it was", "look at the task again")


next(point for task in TASKS for point in task.points if point.name == "inference.batches").in_grading(_stricter)
"""


@dataclass(frozen=True)
class Class:
    """The students, the folder in which the parts have their courses, and how many `beside` grades at a time."""

    students: list[Student]
    folder: Path
    jobs: int = 2

    def course(self, name: str) -> Path:
        """Return a part's course."""
        return made(self.folder / name, self.students)

    @property
    def pieces(self) -> int:
        """How many steps were handed in."""
        return sum(len(student.steps) for student in self.students)


def first(group: Class) -> dict[str, Any]:
    """One who handed in most, twice: the first time makes the references of this machine."""
    whole = max(group.students, key=lambda student: len(student.steps))
    alone = replace(group, students=[whole])
    root = alone.course("first")
    with Run(root, ("--jobs", "1", "--again")) as run:
        made_too = run.ended().seconds
    with Run(root, ("--jobs", "1", "--again")) as run:
        run.ended()
    return {
        "checked": compared(root, [whole]),
        "seconds": run.seconds,
        "seconds_with_references": made_too,
        "seconds_by_step": {step: took for (_, step), took in seconds(root).items()},
        "busy": run.busy,
        "peak_mb": run.peak_mb,
    }


def plain(group: Class) -> dict[str, Any]:
    """One after the other, nothing shared, nothing started ahead."""
    return _whole(group, "plain", ("--jobs", "1"), module="tests.whole_class.plain")


def serial(group: Class) -> dict[str, Any]:
    """One after the other; equal files are loaded once."""
    return _whole(group, "serial", ("--jobs", "1"))


def beside(group: Class) -> dict[str, Any]:
    """Several at a time."""
    return _whole(group, "beside", ("--jobs", str(group.jobs)))


def dask(group: Class) -> dict[str, Any]:
    """On a scheduler and three workers, one of which is killed."""
    with cluster(group.folder, {}, {}, {}) as there:

        def kill(run: Run) -> None:
            run.until(group.pieces // 3)
            there.workers[0].kill()

        return _whole(group, "dask", ("--scheduler", there.address), meanwhile=kill)


def killed(group: Class) -> dict[str, Any]:
    """Two at a time, killed at random moments, and gone on with."""
    draws, root, moments = random.Random(SEED), group.course("killed"), []
    for _ in range(_KILLS):
        moments.append(round(draws.uniform(20, 120), 1))
        with Run(root, ("--jobs", "2")) as run:
            time.sleep(moments[-1])
            if run.process.poll() is not None:
                raise Failed(f"it had ended before it was killed: {run.lines[-2:]}")
    with Run(root, ("--jobs", "2")) as run:
        run.ended()
    return {"checked": compared(root, group.students), "killed_after_s": moments, "graded_at_last": len(run.graded)}


def regraded(group: Class) -> dict[str, Any]:
    """A check is made stricter in a copy of the project; `regrade --diff` names exactly those whose points move."""
    source, root, code = group.course("serial"), group.folder / "regraded", group.folder / "changed"
    if not any(source.glob("autograded/*")):
        raise Failed("grade it serially first")
    for path in (root, code):
        shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(source, root, symlinks=True)
    for name in ("helpers", "trtcpu", "trtlab", "solutions", "datasets"):
        shutil.copytree(ROOT / name, code / name, ignore=shutil.ignore_patterns("__pycache__"))
    check = code / "solutions" / "checks" / f"s{_CHANGED_STEP}.py"
    check.write_text(f"{check.read_text()}{_CHANGE}")
    options = ("--diff", "--steps", _CHANGED_STEP, "--jobs", "2")
    with Run(root, options, "solutions.grading.regrade", code) as run:
        run.ended()
    entries = {student.name: student.steps.get(_CHANGED_STEP) for student in group.students}
    expected = {(name, _CHANGED_CLAIM) for name, entry in entries.items() if entry and _CHANGED_CLAIM in kept(entry)}
    rows = [re.findall(r"[^│┃]+", line) for line in run.lines if line.startswith("│")]
    found = {(row[0].strip(), row[2].strip()) for row in rows if row[0].strip()}
    if found != expected:
        raise Failed(f"named {sorted(found - expected)} too, and not {sorted(expected - found)}")
    compared(root, group.students)  # nothing is published yet
    return {"checked": f"{len(found)} students named, none else", "seconds": run.seconds}


PARTS: dict[str, Callable[[Class], dict[str, Any]]] = {
    part.__name__: part for part in (first, plain, serial, beside, dask, killed, regraded)
}


def _whole(
    group: Class,
    name: str,
    options: tuple[str, ...],
    *,
    module: str = "solutions.grading",
    meanwhile: Callable[[Run], None] = lambda run: None,
) -> dict[str, Any]:
    """Grade the class from nothing and return the figures."""
    shutil.rmtree(group.folder / name, ignore_errors=True)
    root = group.course(name)
    with Run(root, options, module) as run:
        meanwhile(run)
        run.ended()
    if len(run.graded) != group.pieces:
        raise Failed(f"{len(run.graded)} of {group.pieces} steps were graded: {run.lines[-3:]}")
    took = seconds(root)
    by_step: dict[str, list[float]] = {}
    for (_, step), value in took.items():
        by_step.setdefault(step, []).append(value)
    return {
        "checked": compared(root, group.students),
        "seconds": run.seconds,
        "submissions_an_hour": round(len(group.students) / run.seconds * 3600, 1),
        "seconds_until": {number: _until(run, number) for number in (5, 20, 40) if number <= len(group.students)},
        "besides_the_work_s": _besides(run, took),
        "seconds_by_step": {step: round(statistics.median(values), 1) for step, values in sorted(by_step.items())},
        "busy": run.busy,
        "peak_mb": run.peak_mb,
    }


def _until(run: Run, number: int) -> float:
    """Return the seconds until so many students were graded, their last steps too."""
    last = {student: at for at, student, _ in run.graded}
    return sorted(last.values())[number - 1]


def _besides(run: Run, took: dict[tuple[str, str], float]) -> dict[str, float]:
    """Return, for the first and the last ten steps of a serial run, the median seconds that were no work on a step."""
    gaps = []
    for before, after in zip([(0.0, "", ""), *run.graded], run.graded, strict=False):
        gaps.append(after[0] - before[0] - took[after[1:]])
    return {"first_ten": round(statistics.median(gaps[:10]), 2), "last_ten": round(statistics.median(gaps[-10:]), 2)}
