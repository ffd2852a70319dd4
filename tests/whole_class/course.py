"""The class's course, runs of the grading command on it with the moments at which steps were graded, and the points."""

import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

import psutil

from solutions.grading.layout import ROOT
from solutions.grading.step_record import StepRecord
from tests.whole_class.generator import Student, hand_in
from trtcpu.errors import LabError

Points = dict[str, dict[str, dict[str, float | None]]]
"""By student, step and cell."""

_SAMPLE_S = 2.0
_SHARED_VARIABLES = {"TRT_LAB_ENGINE": "cpu", "TRT_LAB_MODEL": "resnet18", "TRT_LAB_QUICK": "1", "COLUMNS": "220"}


class Failed(Exception):
    """A part did not end as it must; the text says how."""


def made(root: Path, students: list[Student]) -> Path:
    """Make the course in `root` where it is not there yet, with what the students handed in; return `root`."""
    if not root.is_dir():
        making = root.with_name(f"{root.name}.part")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        shutil.copyfile(ROOT / "nbgrader_config.py", making / "nbgrader_config.py")
        (making / "solutions").symlink_to(ROOT / "solutions")
        hand_in(students, making / "submitted")
        making.rename(root)
    return root


@dataclass
class Run:
    """One run of a grading module on the course in `root`, with the code of a checkout; used as a context manager.

    `graded` are seconds since its start with student and step, as they were graded, `lines` all that it printed, and
    `peak_mb` what it and all that it started held together at most, shared pages counted once (PSS), and `busy` the
    share of its processors' time that was in use: what is left is all that more at a time can gain.
    """

    root: Path
    options: tuple[str, ...] = ()
    module: str = "solutions.grading"
    code: Path = ROOT
    lines: list[str] = field(default_factory=list)
    graded: list[tuple[float, str, str]] = field(default_factory=list)
    peak_mb: float = 0.0
    seconds: float = 0.0
    busy: float = 0.0

    def __enter__(self) -> "Run":
        self._began, self._over, self._idle_s = time.monotonic(), Event(), _idle_s()
        reference = self.root.parent / "reference"
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-m", self.module, "--course", str(self.root), *self.options],
            cwd=self.code,
            env={
                **os.environ,
                **_SHARED_VARIABLES,
                "PYTHONPATH": str(self.code),
                "TRT_LAB_REFERENCE": str(reference),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._threads = [Thread(target=self._read), Thread(target=self._sample)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._over.set()
        for thread in self._threads:
            thread.join()

    def ended(self) -> "Run":
        """Wait for its end, which must be exit code 0."""
        code = self.process.wait()
        self.seconds = round(time.monotonic() - self._began, 1)
        self.busy = round(1 - (_idle_s() - self._idle_s) / self.seconds / len(os.sched_getaffinity(0)), 2)
        self._threads[0].join()
        if code:
            raise Failed(f"exit code {code}: {self.lines[-3:]}")
        return self

    def until(self, number: int) -> None:
        """Wait until so many steps are graded, or it has ended."""
        while len(self.graded) < number and self.process.poll() is None:
            time.sleep(0.1)

    def _read(self) -> None:
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if found := re.match(r"(\S+) · (\S+) · graded$", line):
                self.graded.append((round(time.monotonic() - self._began, 1), *found.groups()))

    def _sample(self) -> None:
        while not self._over.wait(_SAMPLE_S):
            total = 0
            try:
                of = psutil.Process(self.process.pid)
                processes = [of, *of.children(recursive=True)]
            except psutil.Error:
                continue
            for process in processes:
                try:
                    total += process.memory_full_info().pss
                except psutil.Error:
                    continue
            self.peak_mb = max(self.peak_mb, round(total / 1e6))


def _idle_s() -> float:
    """Return the seconds that the processors that may be used here had nothing to do since the machine started."""
    times = psutil.cpu_times(percpu=True)
    return sum(times[core].idle + times[core].iowait for core in os.sched_getaffinity(0))


def points(root: Path) -> Points:
    """Return the points that the checks gave, as the records have them."""
    found: Points = {}
    for path in sorted((root / "autograded").glob("*/grades/[0-9]*.json")):
        student, step = path.parents[1].name, path.stem
        try:
            found.setdefault(student, {})[step] = StepRecord.read(path.parents[1], student, step).given
        except LabError as error:
            raise Failed(f"{student}, {step}: {error}") from error
    return found


def seconds(root: Path) -> dict[tuple[str, str], float]:
    """Return what grading each step of each student took, by its record."""
    found = {}
    for path in sorted((root / "autograded").glob("*/grades/[0-9]*.json")):
        student, step = path.parents[1].name, path.stem
        found[student, step] = StepRecord.read(path.parents[1], student, step).seconds or 0.0
    return found


def compared(root: Path, students: list[Student]) -> str:
    """Return a line where all points are as predicted.

    Raises:
        Failed: they are not; the text names the cells.
    """
    found, wrong, cells = points(root), [], 0
    for student in students:
        for step, expected in student.points.items():
            given = found.get(student.name, {}).get(step, {})
            for cell, value in expected.items():
                cells += 1
                if given.get(cell) != value:
                    wrong.append(f"{student.name} {step} {cell}: {given.get(cell)}, predicted {value}")
    if wrong:
        raise Failed(f"{len(wrong)} of {cells} cells: {'; '.join(wrong[:8])}")
    return f"{cells} cells of {len(students)} students as predicted"
