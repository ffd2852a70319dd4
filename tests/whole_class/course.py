"""The class's course, runs of the grading command on it with the moments at which steps were graded, and the points."""

import math
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from solutions.grading.layout import ROOT
from solutions.grading.step_record import StepRecord
from tests.whole_class.generator import Student, hand_in

_SAMPLE_S = 2.0
_RECORDS = "autograded/*/grades/[0-9]*.json"
_SHARED_VARIABLES = {"TRT_LAB_ENGINE": "cpu", "TRT_LAB_MODEL": "resnet18", "TRT_LAB_QUICK": "1", "COLUMNS": "220"}


class Failed(Exception):
    """A part did not end as it must; the text says how."""


@dataclass(frozen=True)
class Class:
    """The students, the folder in which the parts have their courses, and how many `beside` grades at a time."""

    students: list[Student]
    folder: Path
    jobs: int = 2

    def course(self, name: str) -> Path:
        """Return a part's course; it is made, with what the students handed in, where it is not there yet."""
        root = self.folder / name
        if not root.is_dir():
            making = root.with_name(f"{name}.part")
            shutil.rmtree(making, ignore_errors=True)
            hand_in(self.students, making / "submitted")
            shutil.copyfile(ROOT / "nbgrader_config.py", making / "nbgrader_config.py")
            (making / "solutions").symlink_to(ROOT / "solutions")
            making.rename(root)
        return root

    @property
    def pieces(self) -> int:
        """How many steps were handed in."""
        return sum(len(student.steps) for student in self.students)


class Run(subprocess.Popen):
    """One run of a grading module on the course in `root`, with the code of a checkout; used as a context manager."""

    def __init__(self, root: Path, *options: str, module: str = "solutions.grading", code: Path = ROOT) -> None:
        self._root, self._log = root, root.with_suffix(".log")
        self._began, self._idle_s, self._peak_mb = time.time(), _idle_s(), 0
        reference = {"TRT_LAB_REFERENCE": str(root.parent / "reference"), "PYTHONPATH": str(code)}
        with self._log.open("wb") as log:
            super().__init__(
                [sys.executable, "-u", "-m", module, "--course", str(root), *options],
                cwd=code,
                env={**os.environ, **_SHARED_VARIABLES, **reference},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def __exit__(self, *error: object) -> None:
        self.kill()
        super().__exit__(*error)

    @property
    def lines(self) -> list[str]:
        """All that it printed."""
        return self._log.read_text().splitlines()

    @property
    def graded(self) -> int:
        """How many steps it said are graded."""
        return sum(line.endswith(" · graded") for line in self.lines)

    def moments(self) -> list[tuple[float, str, str]]:
        """Return seconds since its start, student and step, as the steps were graded."""
        paths = self._root.glob(_RECORDS)
        return sorted((path.stat().st_mtime - self._began, path.parents[1].name, path.stem) for path in paths)

    def ended(self) -> dict[str, float]:
        """Wait for its end, which must be exit code 0, and return its figures.

        Returns:
            Its `seconds`; `peak_mb`, what it and all that it started held together at most, shared pages counted once
            (PSS); and `busy`, the share of its processors' time that was in use: what is left is all that more at a
            time can gain.
        """
        self.until(math.inf)
        seconds = round(time.time() - self._began, 1)
        busy = round(1 - (_idle_s() - self._idle_s) / seconds / len(os.sched_getaffinity(0)), 2)
        if self.returncode:
            raise Failed(f"exit code {self.returncode}: {self.lines[-3:]}")
        return {"seconds": seconds, "busy": busy, "peak_mb": self._peak_mb}

    def until(self, number: float) -> None:
        """Wait until so many steps are graded, or it has ended; look at its memory meanwhile."""
        while self.graded < number and self.poll() is None:
            with suppress(psutil.Error):  # of a process that ended just now: the next look has the others
                of = psutil.Process(self.pid)
                held = sum(one.memory_full_info().pss for one in (of, *of.children(recursive=True)))
                self._peak_mb = max(self._peak_mb, round(held / 1e6))
            with suppress(subprocess.TimeoutExpired):
                self.wait(_SAMPLE_S)


def _idle_s() -> float:
    """Return the seconds that the processors that may be used here had nothing to do since the machine started."""
    times = psutil.cpu_times(percpu=True)
    return sum(times[core].idle + times[core].iowait for core in os.sched_getaffinity(0))


def records(root: Path) -> dict[tuple[str, str], StepRecord]:
    """Return the records of all graded steps, by student and step.

    Raises:
        LabError: one cannot be used.
    """
    paths = sorted(root.glob(_RECORDS))
    names = [(path.parents[1].name, path.stem) for path in paths]
    return {(student, step): StepRecord.read(root / "autograded" / student, student, step) for student, step in names}


def compared(root: Path, students: list[Student]) -> str:
    """Return a line where the checks gave all points as predicted.

    Raises:
        Failed: they did not; the text names the cells.
    """
    expected = {(one.name, cell): points for one in students for cell, points in one.points.items()}
    graded = [(student, record) for (student, _), record in records(root).items()]
    found = {(student, cell): points for student, record in graded for cell, points in record.given.items()}
    wrong = [key for key, points in expected.items() if found.get(key) != points]
    if wrong:
        said = "; ".join(f"{' '.join(key)}: {found.get(key)}, predicted {expected[key]}" for key in wrong[:8])
        raise Failed(f"{len(wrong)} of {len(expected)} cells: {said}")
    return f"{len(expected)} cells of {len(students)} students as predicted"
