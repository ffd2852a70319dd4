"""Takes in what a learning platform gave: nbgrader's zip_collect for each step that has a folder in downloaded/."""

import os
import re
import subprocess
import sys
from pathlib import Path, PurePath

from helpers.tools.files import sha256
from solutions.grading.archives import REFUSED
from solutions.grading.collected import Collected, digest_of
from solutions.grading.collector import candidates, doubles, is_copy, is_linked, student_of
from solutions.grading.course import Course
from solutions.grading.faults import DISK_FULL, CourseError
from solutions.grading.layout import ROOT
from solutions.grading.roster import Student, read_roster
from trtcpu.errors import InputError

_LABEL = re.compile(r"^\[ZipCollectApp \| \w+\] ", re.MULTILINE)
_SKIPPED = re.compile(rf"{_LABEL.pattern}Skipped submission with no match information provided: (.*)", re.MULTILINE)
_REFUSED = re.compile(rf"{_LABEL.pattern}{REFUSED} (.*)", re.MULTILINE)


def collect(course: Course) -> list[str]:
    """Run `nbgrader zip_collect` for each downloaded/<step>/archive/ that has something new.

    It empties the folder of a submission that it takes: StudentCollector leaves out those that were taken before.

    Returns:
        A line for each of these steps, and one for each notebook that was left out.

    Raises:
        InputError: students.csv cannot be read.
        CourseError: the disk is full or cannot be written.
    """
    lines: list[str] = []
    roster = read_roster(course.root)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for step in course.graded:
        archive = course.root / "downloaded" / step / "archive"
        if not archive.is_dir() or not any(archive.iterdir()):
            continue
        now, before = digest_of(archive, course.root), Collected.read(archive.parent)
        if now == before.whole and all(course.submitted(student, step).is_file() for student in before.students):
            lines.append(f"downloaded/{step}: collected before")
            continue
        command = [sys.executable, "-m", "nbgrader", "zip_collect", step, "--force"]
        done = subprocess.run(command, cwd=course.root, env=environment, capture_output=True, text=True)
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
            reason = _LABEL.sub("", said[-1])
            if any(text in reason for text in DISK_FULL):
                raise CourseError(f"downloaded/{step} could not be unpacked: {reason}; nothing was graded")
            lines.append(f"downloaded/{step} could not be collected, submitted/ is graded as it is: {reason}")
            continue
        lines.append(f"downloaded/{step}: collected into submitted/")
        left = [f"refused: {line}" for line in _REFUSED.findall(done.stderr)]
        extracted = archive.with_name("extracted").resolve()
        files = candidates(extracted, step)
        twice = doubles(files, roster)
        for file in sorted(Path(found).resolve().relative_to(extracted) for found in _SKIPPED.findall(done.stderr)):
            if reason := twice.get(file) or _left_out(course, file, step, roster):
                left.append(f"{file} left out: {reason}")
        lines += [f"downloaded/{step}: {line}" for line in left]
        students = dict(before.students)
        for file in files:
            if file not in twice and not _left_out(course, file, step, roster):
                students[student_of(file, roster)] = sha256(extracted / file)
        Collected("" if left else now, students).write(archive.parent)
    return lines


def _left_out(course: Course, file: PurePath, step: str, roster: list[Student]) -> str | None:
    """Return why a file was not taken; None for one that is nobody's work."""
    if file.suffix != ".ipynb" or is_copy(file):
        return None
    if step not in file.name.lower():
        return f"its name holds no {step}"
    try:
        student = student_of(file, roster)
    except InputError as error:
        return str(error)
    linked = is_linked(course.root, student, step)
    return f"submitted/{student}/{step} is a link, and links are not followed" if linked else None
