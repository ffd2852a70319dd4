"""A course for faults, and runs of the grading command on copies of it.

Where a case does not end as it must, they raise AssertionError. Copies lie beside the undisturbed course, `done`.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat

from solutions.grading.layout import ROOT
from tests.grading.conftest import hand_in, make_course
from tests.grading.tiny import STEP, code_of, solved

STUDENTS = 3


class Run(subprocess.Popen):
    """One run of the grading command on the course in `root`; its outputs go to files beside the course."""

    def __init__(self, root: Path, *options: str, **environment: str) -> None:
        self.root, self._before = root, grades_in(root)
        outputs = Path(tempfile.mkdtemp(dir=root.parent))
        self.out, self.err = outputs / "out", outputs / "err"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            super().__init__(
                [sys.executable, "-u", "-m", "solutions.grading", "--course", str(root), *options],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), "TRT_LAB_ENGINE": "cpu", **environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                preexec_fn=heed_signals,
            )

    def until(self, text: str, file: Path | None = None) -> "Run":
        """Wait until it has printed a text, or has written it into a file."""
        file = file or self.out
        while not file.exists() or text not in file.read_text(errors="replace"):
            assert self.poll() is None, f"it ended before {file.name} held {text!r}: {self.err.read_text()[-300:]}"
            time.sleep(0.02)
        return self

    def ended(self, code: int) -> str:
        """Wait for its end, which must have this exit code; return what it said on stderr."""
        found, said = self.wait(), self.err.read_text()
        assert found == code, f"exit code {found} in place of {code}: {said[-400:]}"
        return said

    def refused(self, pattern: str, code: int = 2) -> str:
        """Return its one line on stderr, which must match, once it has ended without touching the grades."""
        said = self.ended(code)
        assert re.fullmatch(f"{pattern}\n", said), f"not one line that matches {pattern!r}: {said[-600:]!r}"
        assert grades_in(self.root) == self._before, "grades were touched"
        return said.strip()

    def graded(self) -> None:
        """Wait for its end, which must be without a word on stderr and with the grades of the undisturbed course."""
        said, grades = self.ended(0), grades_in(self.root)
        assert not said, f"it said {said[-400:]!r}"
        assert grades == grades_in(self.root.with_name("done")), f"other grades: {grades}"


def grades_in(root: Path) -> dict[str, bytes]:
    """Return the content of the grades' files."""
    return {path.name: path.read_bytes() for path in root.glob("grades.*")}


def heed_signals() -> None:
    """Have a new process heed signals: nohup and a shell's background jobs hand them on as ignored."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.alarm(1800)  # an end that no run may need, however slow the machine is


def make_courses(folder: Path) -> float:
    """Make `fresh`, where a class has handed in, and `done`, where it is graded; return how long grading took."""
    fresh, done = folder / "fresh", folder / "done"
    fresh.mkdir()
    course = make_course(fresh)
    lab = nbformat.read(fresh / "labs" / STEP / f"{STEP}.ipynb", as_version=4)
    hand_in(course, "ada", solved(lab))
    hand_in(course, "ben", solved(lab, "cube"))
    hand_in(course, "dora", code_of(solved(lab), "cube", "def cube(x):\n    import os\n    os._exit(1)"))
    (fresh / "gradebook.db").unlink()  # grading makes it
    shutil.copytree(fresh, done)
    started = time.monotonic()
    Run(done).graded()
    seconds, grades = time.monotonic() - started, grades_in(done)["grades.csv"]
    assert b",5," in grades and b",3," in grades, f"wrong grades undisturbed: {grades}"
    Run(done).graded()  # finds all unchanged, and makes the first backup of the gradebook
    return seconds
