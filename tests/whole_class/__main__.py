"""`python -m tests.whole_class`: the class graded serially, two at a time, on Dask, killed, and regraded.

`make class-test` runs it. A part whose figures are there already, of the same code, is not run again.
"""

import os
import shutil
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

os.environ["TRT_LAB_ENGINE"] = "cpu"  # read where the bank is imported

from helpers.course.steps import CELLS, STEPS
from helpers.engine.backend import DEVICE
from helpers.tools.files import read_json, write_json
from solutions.grading.journal import code_digest
from tests.whole_class.course import Failed
from tests.whole_class.generator import SEED, STUDENTS, generated
from tests.whole_class.parts import PARTS, Class
from trtcpu.errors import LabError

_MANY, _MACHINES = 300, (1, 4, 16)


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
    failed = 0
    for name, part in PARTS.items():
        if only in ("", name) and _known(group, name) is None:
            failed += not _tried(name, part, group)
    parts = {name: found for name in PARTS if (found := _known(group, name))}
    about = {"machine": DEVICE, "seed": SEED, "students": len(drawn), "steps": group.pieces, "jobs": jobs}
    write_json(out, {**about, **_ratios(parts), **_foretold(parts), **parts})
    print(f"{len(parts)} of {len(PARTS)} parts → {out}")
    sys.exit(1 if failed else 0)


def _tried(name: str, part: Any, group: Class) -> bool:
    started = time.monotonic()
    print(f"{name} · {' '.join((part.__doc__ or '').split())}", flush=True)
    try:
        found = part(group)
    except (Failed, LabError) as error:
        print(f"{name} · FAILED after {time.monotonic() - started:.0f} s · {error}", flush=True)
        return False
    about = {"code": code_digest(), "class": [len(group.students), group.jobs]}
    write_json(group.folder / f"{name}.json", about | found)
    if name not in ("serial", "first"):  # the others' courses are not needed again
        shutil.rmtree(group.folder / name, ignore_errors=True)
    print(f"{name} · {time.monotonic() - started:.0f} s · {found['checked']}", flush=True)
    return True


def _known(group: Class, name: str) -> dict[str, Any] | None:
    try:
        found = read_json(group.folder / f"{name}.json")
    except LabError:
        return None
    same = (found.pop("code"), found.pop("class")) == (code_digest(), [len(group.students), group.jobs])
    return found if same else None


def _ratios(parts: dict[str, Any]) -> dict[str, float]:
    """Return how many times the plain run's submissions an hour the others do."""
    if "plain" not in parts:
        return {}
    took = {name: parts[name]["seconds"] for name in ("plain", "serial", "beside", "dask") if name in parts}
    return {f"{name}_against_plain": round(took["plain"] / value, 2) for name, value in took.items() if name != "plain"}


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
