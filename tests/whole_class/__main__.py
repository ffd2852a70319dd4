"""`python -m tests.whole_class`: the class graded serially, two at a time, on Dask, killed, and regraded.

`make class-test` runs it. Each part is on a course of its own, so that a stopped one goes on where it was. One whose
figures are there already, of the same code, is not run again.
"""

import os
import random
import re
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import Popen
from typing import Annotated, Any

import pandas as pd
import typer

os.environ["TRT_LAB_ENGINE"] = "cpu"  # read where the bank is imported

from helpers.course.steps import CELLS, STEPS
from helpers.engine.backend import DEVICE
from helpers.tools.files import read_json, write_json
from solutions.grading.layout import ROOT, code_digest
from tests.grading.dask_cluster import cluster
from tests.whole_class.course import Class, Failed, Run, compared, records
from tests.whole_class.generator import SEED, STUDENTS, generated, kept
from trtcpu.errors import LabError

_MANY, _MACHINES = 300, (1, 4, 16)
_KILLS = 3
_CHANGED_STEP, _CHANGED_CLAIM = "05_inference", "inference.batches"
_CHANGE = f"""
from helpers.checks.missed import Missed
from helpers.checks.points.s05_inference import TASKS


def _stricter(case):
    raise Missed("more than it was", "what it was", "look at the task again")


next(point for task in TASKS for point in task.points if point.name == {_CHANGED_CLAIM!r}).in_grading(_stricter)
"""


def _first(group: Class) -> dict[str, Any]:
    whole = max(group.students, key=lambda student: len(student.steps))
    root, figures = replace(group, students=[whole]).course("first"), []
    for _ in range(2):
        with Run(root, "--jobs", "1", "--again") as run:
            figures.append(run.ended())
    return {
        "checked": compared(root, [whole]),
        "seconds_with_references": figures[0]["seconds"],
        "seconds_by_step": {step: record.seconds for (_, step), record in records(root).items()},
        **figures[1],
    }


def _whole(name: str, group: Class, *options: str, victim: Popen[bytes] | None = None, **of_run: Any) -> dict[str, Any]:
    """Grade the class from nothing and return the figures; a `victim` is killed when a third is graded."""
    shutil.rmtree(group.folder / name, ignore_errors=True)
    root = group.course(name)
    with Run(root, *options, **of_run) as run:
        if victim:
            run.until(group.pieces // 3)
            victim.kill()
        figures = run.ended()
    if run.graded != group.pieces:
        raise Failed(f"{run.graded} of {group.pieces} steps were graded: {run.lines[-3:]}")
    at = pd.DataFrame(run.moments(), columns=["at", "student", "step"])
    at["took"] = [records(root)[key].seconds for key in zip(at.student, at.step, strict=True)]
    last = at.groupby("student")["at"].max().sort_values().tolist()
    besides = at["at"].diff().fillna(at["at"]) - at.took
    return {
        "checked": compared(root, group.students),
        "submissions_an_hour": round(len(group.students) / figures["seconds"] * 3600, 1),
        "seconds_until": {number: round(last[number - 1], 1) for number in (5, 20, 40) if number <= len(last)},
        # of a serial run, the seconds between its steps
        "besides_the_work_s": {
            "first_ten": round(float(besides[:10].median()), 2),
            "last_ten": round(float(besides[-10:].median()), 2),
        },
        "seconds_by_step": at.groupby("step").took.median().round(1).to_dict(),
        **figures,
    }


def _dask(group: Class) -> dict[str, Any]:
    with cluster(group.folder, 3) as (address, processes):
        return _whole("dask", group, "--scheduler", address, victim=processes[1])


def _killed(group: Class) -> dict[str, Any]:
    draws, root = random.Random(SEED), group.course("killed")
    moments = [round(draws.uniform(20, 120), 1) for _ in range(_KILLS)]
    for moment in moments:
        with Run(root, "--jobs", "2") as run:
            time.sleep(moment)
            if run.poll() is not None:
                raise Failed(f"it had ended before it was killed: {run.lines[-2:]}")
    with Run(root, "--jobs", "2") as run:
        run.ended()
    return {"checked": compared(root, group.students), "killed_after_s": moments, "graded_at_last": run.graded}


def _regraded(group: Class) -> dict[str, Any]:
    source, root, code = group.course("serial"), group.folder / "regraded", group.folder / "changed"
    if not any(source.glob("autograded/*")):
        raise Failed("grade it serially first")
    for path in (root, code):
        shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(source, root, symlinks=True)
    for name in ("helpers", "trtcpu", "trtlab", "solutions", "datasets"):
        shutil.copytree(ROOT / name, code / name, ignore=shutil.ignore_patterns("__pycache__"))
    (code / "solutions" / "checks" / f"s{_CHANGED_STEP}.py").write_text(_CHANGE)  # the step has no hidden points else
    options = ("--diff", "--steps", _CHANGED_STEP, "--jobs", "2")
    with Run(root, *options, module="solutions.grading.regrade", code=code) as run:
        figures = run.ended()
    entries = {student.name: student.steps.get(_CHANGED_STEP) for student in group.students}
    expected = {(name, _CHANGED_CLAIM) for name, entry in entries.items() if entry and _CHANGED_CLAIM in kept(entry)}
    rows = [re.findall(r"[^│┃]+", line) for line in run.lines if line.startswith("│")]
    found = {(row[0].strip(), row[2].strip()) for row in rows if row[0].strip()}
    if found != expected:
        raise Failed(f"named {sorted(found - expected)} too, and not {sorted(expected - found)}")
    compared(root, group.students)  # nothing is published yet
    return {"checked": f"{len(found)} students named, none else", "seconds": figures["seconds"]}


# Each part: what it is, and what grades the class that way and returns the figures.
PARTS: dict[str, tuple[str, Callable[[Class], dict[str, Any]]]] = {
    "first": ("One who handed in most, twice: the first time makes the references of this machine.", _first),
    "plain": (
        "One after the other, nothing shared, nothing started ahead.",
        lambda group: _whole("plain", group, "--jobs", "1", module="tests.whole_class.plain"),
    ),
    "serial": (
        "One after the other; equal files are loaded once.",
        lambda group: _whole("serial", group, "--jobs", "1"),
    ),
    "beside": ("Several at a time.", lambda group: _whole("beside", group, "--jobs", str(group.jobs))),
    "dask": ("On a scheduler and three workers, one of which is killed.", _dask),
    "killed": ("Two at a time, killed at random moments, and gone on with.", _killed),
    "regraded": (
        "A check is made stricter in a copy of the project; `regrade --diff` names exactly those whose points move.",
        _regraded,
    ),
}


def main(
    out: Annotated[Path, typer.Option(help="Where the figures of all parts are written.")] = Path("results/class.json"),
    folder: Annotated[Path, typer.Option(help="Where courses and parts are kept.")] = Path("results/class"),
    only: Annotated[str, typer.Option(help=f"One part: {', '.join(PARTS)}.")] = "",
    students: Annotated[int, typer.Option(min=9, help="How many; fewer, to try the test itself.")] = STUDENTS,
    jobs: Annotated[int, typer.Option(min=2, help="How many are graded at a time in `beside`; on two cores 2.")] = 2,
    short: Annotated[bool, typer.Option(help="Without those who hand in all eight steps.")] = False,
) -> None:
    """Grade the class in every way; exit code 1 where points differ from those predicted."""
    if only not in ("", *PARTS):
        sys.exit(f"error: no part {only!r}; there are {', '.join(PARTS)}")
    drawn = [one for one in generated(number=students) if not short or len(one.steps) < len(STEPS)]
    group = Class(drawn, folder.resolve(), jobs)
    of = {"code": code_digest(), "class": [len(drawn), jobs]}
    chosen = [only] if only else list(PARTS)
    for name in chosen:
        if not _known(group, name, of):
            _try(group, name, of)
    parts = {name: found for name in PARTS if (found := _known(group, name, of))}
    about = {"machine": DEVICE, "seed": SEED, "students": len(drawn), "steps": group.pieces, "jobs": jobs}
    write_json(out, {**about, **_ratios(parts), **_foretold(parts), **parts})
    print(f"{len(parts)} of {len(PARTS)} parts → {out}")
    sys.exit(any(name not in parts for name in chosen))


def _try(group: Class, name: str, of: dict[str, Any]) -> None:
    """Run a part and write its figures where it ends as it must; `of` says of which code and class they are."""
    started, (about, part) = time.monotonic(), PARTS[name]
    print(f"{name} · {about}", flush=True)
    try:
        found = part(group)
    except (Failed, LabError) as error:
        print(f"{name} · FAILED after {time.monotonic() - started:.0f} s · {error}", flush=True)
    else:
        write_json(group.folder / f"{name}.json", of | found)
        if name not in ("serial", "first"):  # the others' courses are not needed again
            shutil.rmtree(group.folder / name, ignore_errors=True)
        print(f"{name} · {time.monotonic() - started:.0f} s · {found['checked']}", flush=True)


def _known(group: Class, name: str, of: dict[str, Any]) -> dict[str, Any]:
    path = group.folder / f"{name}.json"
    found = read_json(path) if path.is_file() else {}
    return {key: value for key, value in found.items() if key not in of} if of.items() <= found.items() else {}


def _ratios(parts: dict[str, Any]) -> dict[str, float]:
    """Return how many times the plain run's submissions an hour the others do."""
    ways = [name for name in ("serial", "beside", "dask") if {"plain", name} <= parts.keys()]
    return {f"{name}_against_plain": round(parts["plain"]["seconds"] / parts[name]["seconds"], 2) for name in ways}


def _foretold(parts: dict[str, Any]) -> dict[str, Any]:
    """Return the hours that 300 submissions of all eight steps take on some machines like this one.

    The model: a step that measures time has its machine to itself, for as long as it took alone; of the others two are
    graded beside each other, as much faster as the class was; at the end one submission is waited for.
    """
    alone = parts.get("first", {}).get("seconds_by_step", {})
    if not {"serial", "beside"} <= parts.keys() or set(alone) != set(STEPS):
        return {}
    timed = {about.step for about in CELLS.values() if about.timed}
    faster = parts["serial"]["seconds"] / parts["beside"]["seconds"]
    each = sum(took / (1 if step in timed else faster) for step, took in alone.items())
    hours = {number: (_MANY / number * each + parts["first"]["seconds"]) / 3600 for number in _MACHINES}
    return {"hours_for_300_by_machines": {number: round(value, 1) for number, value in hours.items()}}


if __name__ == "__main__":
    typer.run(main)
