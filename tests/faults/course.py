"""A course for faults: made once, copied for each case; runs of the grading command on a copy; what they left."""

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import nbformat

from solutions.grading.course import Course
from solutions.grading.labs import make_labs
from solutions.grading.layout import ROOT
from tests.grading.tiny import CONFIG, STEP, code_of, solved, source_notebook

GRADES = ("grades.csv", "grades.json")
STUDENTS = 3
LONGEST_RUN_S = 1800
"""An end that no run may need, however slow the machine is."""


class Failed(Exception):
    """A case did not end as it must; the text says how."""


def require(right: bool, said: str) -> None:
    """Raise Failed with `said` where `right` is false."""
    if not right:
        raise Failed(said)


@dataclass
class Run:
    """One run of the grading command on the course in `root`; its outputs go to files beside the course."""

    root: Path
    options: tuple[str, ...] = ()
    process: subprocess.Popen = field(init=False)

    def __post_init__(self) -> None:
        self._files = [self.root.with_name(f"{self.root.name}.{time.monotonic_ns()}.{name}") for name in ("out", "err")]
        command = [sys.executable, "-m", "solutions.grading", "--course", str(self.root), *self.options]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TRT_LAB_ENGINE": "cpu", "PYTHONUNBUFFERED": "1"}
        with self._files[0].open("wb") as out, self._files[1].open("wb") as err:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                preexec_fn=_as_from_a_terminal,
            )

    @property
    def out(self) -> str:
        """What it has printed so far."""
        return self._files[0].read_text(errors="replace")

    @property
    def err(self) -> str:
        """What it has said on stderr so far."""
        return self._files[1].read_text(errors="replace")

    def ended(self) -> int:
        """Wait for its end and return its exit code."""
        try:
            return self.process.wait(LONGEST_RUN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Failed(f"it did not end in {LONGEST_RUN_S} s") from None

    def until(self, text: str, *, count: int = 1) -> None:
        """Wait until it has printed a text `count` times."""
        ends = time.monotonic() + LONGEST_RUN_S
        while self.out.count(text) < count:
            require(self.process.poll() is None, f"it ended before it said {text!r}: {self.err[-300:]}")
            require(time.monotonic() < ends, f"it never said {text!r}")
            time.sleep(0.02)

    def until_locked(self) -> None:
        """Wait until it holds the course's lock."""
        ends, lock = time.monotonic() + LONGEST_RUN_S, self.root / ".grading.lock"
        while not (lock.is_file() and str(self.process.pid) in lock.read_text()):
            require(self.process.poll() is None and time.monotonic() < ends, f"it took no lock: {self.err[-300:]}")
            time.sleep(0.02)

    def refused(self, *words: str) -> str:
        """Return its one line, once it has ended with exit code 2 and that line holds `words`."""
        code, said = self.ended(), self.err
        require(code == 2, f"exit code {code} in place of 2: {said[-300:]}")
        require(said.startswith("error: ") and said.count("\n") == 1, f"not one line: {said[-600:]!r}")
        missing = [word for word in words if word not in said]
        require(not missing, f"the line does not name {missing}: {said}")
        return said.strip()

    def graded(self) -> None:
        """Wait for its end, which must be exit code 0 without a word on stderr."""
        code = self.ended()
        require(code == 0 and not self.err.strip(), f"exit code {code}: {self.err[-400:]}")


class Copies:
    """A course whose class was handed in, the same graded undisturbed, and copies of both to break."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._number = folder, 0
        self.fresh = folder / "fresh"
        _make(self.fresh)
        self.done = self.copy(graded=False, name="done")
        started = time.monotonic()
        Run(self.done).graded()
        self.seconds = time.monotonic() - started
        self.grades = grades_in(self.done)
        Run(self.done).graded()  # finds all unchanged, and makes the first backup of the gradebook
        require(b",5," in self.grades[0] and b",3," in self.grades[0], f"wrong grades undisturbed: {self.grades[0]!r}")

    def copy(self, *, graded: bool, name: str = "") -> Path:
        """Return a new copy of the course, ungraded or graded."""
        self._number += 1
        target = self.folder / (name or f"copy{self._number}")
        shutil.copytree(self.done if graded else self.fresh, target, symlinks=True)
        return target

    def require_same(self, root: Path) -> None:
        """Fail where the grades in `root` are not those of the undisturbed run."""
        found = grades_in(root)
        require(found == self.grades, f"other grades: {(found[0] or b'none').decode()!r}")


def _as_from_a_terminal() -> None:
    """Have these signals end the run: nohup and a shell's background jobs hand them on as ignored."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def grades_in(root: Path) -> list[bytes | None]:
    """Return the content of the grades' files, None where there is none."""
    return [(root / name).read_bytes() if (root / name).exists() else None for name in GRADES]


def _make(root: Path) -> None:
    (root / "solutions" / STEP).mkdir(parents=True)
    (root / "nbgrader_config.py").write_text((ROOT / "nbgrader_config.py").read_text() + CONFIG)
    nbformat.write(source_notebook(), root / "solutions" / STEP / f"{STEP}.ipynb")
    course = Course.at(root)
    make_labs(course, root / "labs")
    lab = nbformat.read(root / "labs" / STEP / f"{STEP}.ipynb", as_version=4)
    dies = code_of(solved(lab), "cube", "def cube(x):\n    import os\n    os._exit(1)")
    for student, notebook in {"ada": solved(lab), "ben": solved(lab, "cube"), "dora": dies}.items():
        path = course.submitted(student, STEP)
        path.parent.mkdir(parents=True)
        nbformat.write(notebook, path)
