"""`python -m tests.faults`: every fault in turn, what became of it, and results/faults.json. `make faults` runs it."""

import platform
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from helpers.tools.files import write_json
from tests.faults import archives, disks, gradebooks, stops
from tests.faults.course import Copies, Failed

Case = Callable[[Copies], str]


def cases(kills: int) -> dict[str, Case]:
    """Return every case by its name."""
    found: dict[str, Case] = {"broken zip": archives.broken_zip}
    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"):
        found[f"told to stop by {name}"] = partial(_with, stops.told_to_stop, name)
    found |= {"two at once": stops.two_at_once, "two at once, --wait": stops.waits}
    for how in gradebooks.DAMAGES:
        found[f"gradebook {how}"] = partial(_with, gradebooks.damaged, how)
    for how in ("missing", "garbage"):
        found[f"gradebook {how}, --new-gradebook"] = partial(_with, gradebooks.begun_anew, how)
    found |= {
        "gradebook locked": gradebooks.locked_at_start,
        "gradebook locked under way": gradebooks.locked_under_way,
        "gradebook and grades gone, --rebuild": gradebooks.rebuilt,
    }
    for name in disks.CASES:
        found[f"disk {name}"] = partial(_with, disks.disk, name)
    return found | {f"killed {number + 1}": partial(_with, stops.killed, number) for number in range(kills)}


def _with(case: Callable[..., str], argument: object, copies: Copies) -> str:
    return case(copies, argument)


def main(
    out: Annotated[Path, typer.Option(help="Where the record of this run is written.")] = Path("results/faults.json"),
    only: Annotated[str, typer.Option(help="Only cases whose names hold this.")] = "",
    kills: Annotated[int, typer.Option(help="How many random moments grading is killed at.")] = 20,
) -> None:
    """Try every fault; exit code 1 where one of them changed a grade or was not told in one line."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        copies = Copies(Path(folder))
        print(
            f"undisturbed: {copies.seconds:.1f} s for {len(copies.grades[0].splitlines()) - 1} submissions", flush=True
        )
        rows: list[dict[str, object]] = []
        for name, case in cases(kills).items():
            if only in name:
                rows.append(_tried(name, case, copies))
                write_json(out, _record(rows, time.monotonic() - began))  # a run that is stopped has its part
    record = _record(rows, time.monotonic() - began)
    print(f"{record['held']} held, {record['failed']} failed, {record['not here']} not possible here; {out}")
    sys.exit(1 if record["failed"] else 0)


def _record(rows: list[dict[str, object]], seconds: float) -> dict[str, object]:
    count = {state: sum(row["state"] == state for row in rows) for state in ("held", "failed", "not here")}
    return {"python": platform.python_version(), "seed": stops.SEED, "seconds": round(seconds), **count, "cases": rows}


def _tried(name: str, case: Case, copies: Copies) -> dict[str, object]:
    started = time.monotonic()
    try:
        state, said = "held", case(copies)
    except Failed as error:
        state, said = "failed", str(error)
    except disks.NotHere as error:
        state, said = "not here", str(error)
    said = said.replace(f"{copies.folder}/", "")
    print(f"{state:8} {name}: {said}", flush=True)
    return {"case": name, "state": state, "said": said, "seconds": round(time.monotonic() - started, 1)}


if __name__ == "__main__":
    typer.run(main)
