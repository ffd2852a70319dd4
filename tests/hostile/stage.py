"""Grades one class in the throw-away namespace, as process 1 there, and tells what it saw."""

import contextlib
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat
import typer

from helpers.tools.signals import clean_ends
from solutions.grading import __main__ as grading
from solutions.grading.course import Course
from solutions.grading.work.pool import HERE
from tests.grading.tiny import STEP
from tests.hostile.attack import SECRET, Attack, Seen
from tests.hostile.course import HONEST, TIMINGS, hand_in
from tests.hostile.guards import GUARDS
from tests.hostile.observe import Listeners, Peaks, changed, others, snapshot
from tests.hostile.outer import HOME, STAGE

_COURSE = STAGE / "course"
_SHOWN = 400_000


@dataclass(frozen=True)
class Class:
    """Attackers between two honest students, the guards that are off, the sandbox, and a limit on the whole.

    With guards off it is graded in one process, that in which they are.
    """

    template: Path
    attacks: Sequence[Attack]
    off: Sequence[str] = ()
    sandbox: str = ""
    timeout_s: float = 300.0
    jobs: int = 1

    def graded(self) -> Seen:
        """Grade the class and return what was seen; for `outer.begin`."""
        for name, text in {".ssh/id": SECRET, "thesis.txt": "three years of work", ".profile": "# mine"}.items():
            (HOME / name).parent.mkdir(parents=True, exist_ok=True)
            (HOME / name).write_text(text)
        hand_in(self.template, _COURSE, self.attacks, "".join(GUARDS[name].config for name in self.off))
        students, seen = [attack.student for attack in self.attacks], Seen()
        with Listeners(seen):
            before, niceness = snapshot(), os.getpriority(os.PRIO_PROCESS, 0)
            self._grade(seen)
            seen.slowed = os.getpriority(os.PRIO_PROCESS, 0) - niceness
            time.sleep(0.5)  # what was killed has ended
            seen.survivors = [text for _, text in others()]
        seen.touched = changed(before, students)
        _read(seen, students)
        return seen

    def _grade(self, seen: Seen) -> None:
        started, said = time.monotonic(), STAGE / "said.txt"
        said.touch()
        pid = os.fork()
        if not pid:
            self._grader(said)
        status, watch = None, Peaks(seen, pid)
        while status is None and time.monotonic() - started < self.timeout_s and not _stopped(pid):
            time.sleep(0.1)
            ended, found = os.waitpid(pid, os.WNOHANG)
            status = os.waitstatus_to_exitcode(found) if ended else None
        watch.end()
        if status is None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        seen.exit_code, seen.seconds = status, round(time.monotonic() - started, 1)
        seen.said = said.read_text(errors="replace")[:_SHOWN]

    def _grader(self, said: Path) -> None:
        """`python -m solutions.grading` with guards off, in this process; it does not return."""
        code = 70
        try:
            os.setpgid(0, 0)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup had it ignored
            nothing, out = os.open(os.devnull, os.O_RDONLY), os.open(said, os.O_WRONLY)
            for old, new in ((nothing, 0), (out, 1), (out, 2)):
                os.dup2(old, new)
            sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
            self._environment()
            for name in self.off:
                GUARDS[name].off()
            if self.off:
                grading.chosen_pool = lambda *options: contextlib.nullcontext(HERE)
            sys.argv = ["grading", "--course", str(_COURSE), "--jobs", str(self.jobs)]
            with clean_ends():
                typer.run(grading.main)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc()
            code = 1
        finally:
            with contextlib.suppress(OSError):  # an attack may have limited what can be written
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _environment(self) -> None:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
        os.environ.clear()
        os.environ |= {
            **{**kept, "HOME": str(HOME), "TMPDIR": str(STAGE / "tmp"), "PYTHONPATH": os.getcwd()},
            **{"HOSTILE_TOKEN": SECRET, "TRT_LAB_ENGINE": "cpu", "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"},
            "HOSTILE_TIMINGS": str(_COURSE / TIMINGS),
            **({"TRT_LAB_SANDBOX": self.sandbox} if self.sandbox else {}),
        }
        tempfile.tempdir = None


def _stopped(pid: int) -> bool:
    """Return whether a process is stopped by a signal: it would never go on."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


def _booked() -> dict[str, float]:
    """Return each student's score as the gradebook has it; empty where it cannot be read."""
    try:
        with Course.at(_COURSE).gradebook() as gradebook:
            return {row["student"]: row["score"] for row in gradebook.submission_dicts(STEP)}
    except Exception:  # whatever an attack made of it
        return {}


def _read(seen: Seen, students: list[str]) -> None:
    try:
        grades = json.loads((_COURSE / "grades.json").read_text())["students"]
        seen.points = {row["student"]: row["total"] or 0.0 for row in grades}
        seen.notes = {row["student"]: row["notes"] for row in grades}
    except (OSError, ValueError, KeyError, TypeError):
        return
    seen.booked, seen.grades = _booked(), (_COURSE / "grades.csv").read_text()
    for student in (*students, *HONEST):
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
