"""Takes in what a learning platform gave: nbgrader's zip_collect for each step that has a folder in downloaded/."""

import os
import re
import subprocess
import sys
from pathlib import Path

from solutions.grading.course import Course
from solutions.grading.layout import ROOT

__all__ = ["collect"]

_SKIPPED = re.compile(r"Skipped submission with no match information provided: (.*)")


def collect(course: Course) -> list[str]:
    """Run `nbgrader zip_collect` for each downloaded/<step>/archive/ and say a line a step: collected, or why not."""
    lines: list[str] = []
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for step in course.present:
        archive = course.root / "downloaded" / step / "archive"
        if not archive.is_dir() or not any(archive.iterdir()):
            continue
        command = [sys.executable, "-m", "nbgrader", "zip_collect", step, "--force"]
        done = subprocess.run(command, cwd=course.root, env=environment, capture_output=True, text=True)
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
            lines.append(f"downloaded/{step} could not be collected, submitted/ is graded as it is: {said[-1]}")
        else:
            skipped = [Path(found).name for found in _SKIPPED.findall(done.stderr)]
            without = f"; no student's name in {', '.join(skipped)}" if skipped else ""
            lines.append(f"downloaded/{step}: collected into submitted/{without}")
    return lines
