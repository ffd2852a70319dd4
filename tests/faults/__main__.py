"""`python -m tests.faults`: every fault in turn, what became of it, and results/faults.json. `make faults` runs it."""

import platform
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from unittest import SkipTest

import typer

from helpers.tools.files import write_json
from tests.faults import cases, disks
from tests.faults.course import STUDENTS, make_courses

SEED = 14


def all_cases(kills: int, seconds: float) -> list[tuple[str, str, Callable[[Path], str]]]:
    """Return every case: its name, the course that it gets a copy of, and what is done to that."""
    moments = random.Random(SEED)
    return [
        ("broken zip", "fresh", cases.broken_zip),
        *(
            (f"told to stop by {number.name}", "fresh", partial(cases.told_to_stop, number=number))
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
        ),
        ("two at once", "fresh", cases.two_at_once),
        ("two at once, --wait", "fresh", cases.waits),
        *((f"gradebook {how}", "done", partial(cases.lost, how=how)) for how in cases.DAMAGES),
        ("gradebook another database", "done", cases.another_database),
        ("gradebook locked", "done", cases.locked_at_start),
        ("gradebook locked under way", "fresh", cases.locked_under_way),
        ("gradebook and grades gone, --rebuild", "done", cases.rebuilt),
        ("disk full at the start", "done", partial(disks.disk, case="full at the start")),
        ("disk full under way", "fresh", partial(disks.disk, case="full under way")),
        ("disk of submissions full under way", "fresh", partial(disks.disk, case="of submissions full under way")),
        ("disk read-only course", "done", partial(disks.disk, case="read-only course")),
        ("disk read-only autograded/", "done", partial(disks.disk, case="read-only autograded/")),
        *(
            (f"killed {number}", "fresh", partial(cases.killed, after=moments.uniform(0.02, 0.98) * seconds))
            for number in range(1, kills + 1)
        ),
    ]


def tried(root: Path, name: str, course: str, case: Callable[[Path], str]) -> dict[str, Any]:
    """Try a case on a copy in `root` of the course beside it; print what became of it, and return that."""
    started = time.monotonic()
    shutil.copytree(root.with_name(course), root, symlinks=True)
    try:
        state, said = "held", case(root)
    except AssertionError as error:
        state, said = "failed", str(error)
    except SkipTest as error:
        state, said = "not here", str(error)
    said = said.replace(f"{root.parent}/", "")
    print(f"{state:8} {name}: {said}", flush=True)
    return {"case": name, "state": state, "said": said, "seconds": round(time.monotonic() - started, 1)}


def main(
    out: Annotated[Path, typer.Option(help="Where the record of this run is written.")] = Path("results/faults.json"),
    only: Annotated[str, typer.Option(help="Only cases whose names hold this.")] = "",
    kills: Annotated[int, typer.Option(help="How many random moments grading is killed at.")] = 20,
) -> None:
    """Try every fault; exit code 1 where one of them changed a grade or was not told in one line."""
    began = time.monotonic()
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "seed": SEED,
        "seconds": 0,
        "held": 0,
        "failed": 0,
        "not here": 0,
        "cases": [],
    }
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        seconds = make_courses(Path(folder))
        print(f"undisturbed: {seconds:.1f} s for {STUDENTS} submissions", flush=True)
        for number, case in enumerate(all_cases(kills, seconds)):
            if only in case[0]:
                row = tried(Path(folder, f"copy{number}"), *case)
                found["cases"].append(row)
                found[row["state"]] += 1
                found["seconds"] = round(time.monotonic() - began)
                write_json(out, found)  # a run that is stopped has its part
    print(f"{found['held']} held, {found['failed']} failed, {found['not here']} not possible here; {out}")
    sys.exit(1 if found["failed"] else 0)


if __name__ == "__main__":
    typer.run(main)
