"""Grades one class in the throw-away namespace, as process 1 there, and tells what it saw."""

import contextlib
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import nbformat
import psutil
import typer

from helpers.tools.signals import clean_ends
from solutions.grading import __main__ as grading
from solutions.grading import run
from solutions.grading.course import Course
from solutions.grading.work.pool import HERE
from tests.grading.tiny import STEP
from tests.hostile.attack import SECRET, Seen
from tests.hostile.attacks import ATTACKS
from tests.hostile.course import TIMINGS, hand_in
from tests.hostile.guards import GUARDS, switch_off
from tests.hostile.observe import Peaks, changed, listening, snapshot, survivors
from tests.hostile.outer import HOME, STAGE

_COURSE, _SAID = STAGE / "course", STAGE / "said.txt"
_SHOWN = 400_000
_CLASS_S, _ATTACK_S = 120, 60
"""Seconds for a class, and for each attacker in it, on a busy machine."""


def graded(template: Path, names: Sequence[str], off: Sequence[str], sandbox: str, jobs: int) -> Seen:
    """Grade these attackers between two honest students, and return what was seen.

    With guards `off` it is graded in one process, that in which they are.
    """
    for name, text in {".ssh/id": SECRET, "thesis.txt": "three years of work", ".profile": "# mine"}.items():
        (HOME / name).parent.mkdir(parents=True, exist_ok=True)
        (HOME / name).write_text(text)
    attacks = [ATTACKS[name] for name in names]
    hand_in(template, _COURSE, attacks, "".join(GUARDS[name].config for name in off))
    students, seen = [attack.student for attack in attacks], Seen()
    grader = multiprocessing.Process(target=_grader, args=(off, sandbox, jobs))
    with listening(seen.heard):
        before, niceness = snapshot(), os.nice(0)
        _watch(grader, seen, _CLASS_S + _ATTACK_S * len(attacks))
        seen.slowed = os.nice(0) - niceness
        seen.survivors = survivors()
    seen.touched = changed(before, students)
    _read(seen, students)
    return seen


def _watch(grader: multiprocessing.Process, seen: Seen, timeout_s: float) -> None:
    """Look at the grader ten times a second until it ends, is stopped by a signal, or takes too long."""
    ends = time.monotonic() + timeout_s
    grader.start()
    process, peaks = psutil.Process(grader.pid), Peaks(grader.pid)
    while grader.exitcode is None and process.status() != "stopped" and time.monotonic() < ends:
        time.sleep(0.1)
        peaks.look()
    seen.exit_code, seen.peaks = grader.exitcode, peaks.found
    grader.kill()
    grader.join()
    seen.said = _SAID.read_text(errors="replace")[:_SHOWN]


def _grader(off: Sequence[str], sandbox: str, jobs: int) -> None:
    """`python -m solutions.grading` with guards off, in this process."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup had it ignored
    said = os.open(_SAID, os.O_WRONLY | os.O_CREAT)
    os.dup2(said, 1)
    os.dup2(said, 2)
    _set_environment(sandbox)
    if off:
        switch_off(off)
        run.chosen_pool = lambda *options: contextlib.nullcontext(HERE)
    sys.argv = ["grading", "--course", str(_COURSE), "--jobs", str(jobs)]
    with clean_ends():
        typer.run(grading.main)


def _set_environment(sandbox: str) -> None:
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    os.environ.clear()
    os.environ |= {
        **{**kept, "HOME": str(HOME), "TMPDIR": str(STAGE / "tmp"), "PYTHONPATH": os.getcwd()},
        **{"HOSTILE_TOKEN": SECRET, "TRT_LAB_ENGINE": "cpu", "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"},
        "HOSTILE_TIMINGS": str(_COURSE / TIMINGS),
        **({"TRT_LAB_SANDBOX": sandbox} if sandbox else {}),
    }
    tempfile.tempdir = None


def _read(seen: Seen, students: list[str]) -> None:
    """Read what was written of the class and of these students; nothing if it has no grades."""
    try:
        grades = json.loads((_COURSE / "grades.json").read_text())["students"]
        seen.points = {row["student"]: row["total"] or 0.0 for row in grades}
        seen.notes = {row["student"]: row["notes"] for row in grades}
    except (OSError, ValueError, KeyError, TypeError):
        return
    seen.grades = (_COURSE / "grades.csv").read_text()
    with contextlib.suppress(Exception), Course.at(_COURSE).gradebook() as gradebook:  # whatever an attack made of it
        seen.booked = {row["student"]: row["score"] for row in gradebook.submission_dicts(STEP)}
    for student in students:
        notebook = _COURSE / "autograded" / student / STEP / f"{STEP}.ipynb"
        page = _COURSE / "feedback" / student / STEP / f"{STEP}.html"
        for name, path, kept in (("notebook", notebook, seen.notebooks), ("page", page, seen.pages)):
            if path.is_file() and not path.is_symlink():
                kept[student] = path.read_text(errors="replace")[:_SHOWN]
                seen.sizes[f"{student} {name}"] = path.stat().st_size
        if student in seen.notebooks and seen.sizes[f"{student} notebook"] < 50 << 20:
            cells = nbformat.read(notebook, as_version=nbformat.NO_CONVERT).cells
            seen.sizes[f"{student} cells"] = len(cells)
            seen.sizes[f"{student} outputs"] = max((len(cell.get("outputs", [])) for cell in cells), default=0)
