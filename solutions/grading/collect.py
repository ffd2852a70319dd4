"""Takes in what a learning platform gave: nbgrader's zip_collect for each step that has a folder in downloaded/."""

import subprocess
import sys

from helpers.errors import InputError
from solutions.grading.course import Course

__all__ = ["collect"]


def collect(course: Course) -> list[str]:
    """Run `nbgrader zip_collect` for downloaded/<step>/archive/ and return the steps that were collected.

    Raises:
        InputError: nbgrader refused; the message ends with the reason.
    """
    collected = []
    for step in course.present:
        archive = course.root / "downloaded" / step / "archive"
        if not archive.is_dir() or not any(archive.iterdir()):
            continue
        command = [sys.executable, "-m", "nbgrader", "zip_collect", step, "--force"]
        done = subprocess.run(command, cwd=course.root, capture_output=True, text=True)
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
            raise InputError(f"cannot collect downloaded/{step}: {said[-1]}")
        collected.append(step)
    return collected
