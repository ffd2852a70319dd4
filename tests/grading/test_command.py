"""`python -m solutions.grading`: collects what was downloaded, grades, and says what went wrong in one line."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from solutions.grading.collect import collect
from solutions.grading.course import Course
from solutions.grading.layout import ROOT
from tests.grading.tiny import STEP, solved


def _grade(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TRT_LAB_ENGINE": "cpu"}
    command = [sys.executable, "-m", "solutions.grading", *options]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_what_a_learning_platform_gave_is_collected(course: Course, lab: NotebookNode) -> None:
    archive = course.root / "downloaded" / STEP / "archive"
    archive.mkdir(parents=True)
    text = nbformat.writes(solved(lab))
    with zipfile.ZipFile(archive / "jane.doe.zip", "w") as file:
        file.writestr(f"{STEP}.ipynb", text)
    with zipfile.ZipFile(archive / "Zoë A_attempt 2.zip", "w") as file:
        file.writestr(f"work/{STEP}.ipynb", text)
    (archive / f"bob_late_{STEP}.ipynb").write_text(text)
    (archive / "unnamed.ipynb").write_text(text)
    assert collect(course) == [f"downloaded/{STEP}: collected into submitted/; no student's name in unnamed.ipynb"]
    found = sorted(path.parent.parent.name for path in (course.root / "submitted").glob(f"*/{STEP}/{STEP}.ipynb"))
    assert found == ["Zoë A", "bob", "jane.doe"]


def test_a_broken_archive_is_named_and_does_not_stop_the_grading(course: Course) -> None:
    broken = course.root / "downloaded" / STEP / "archive" / "eve.zip"
    broken.parent.mkdir(parents=True, exist_ok=True)
    broken.write_bytes(b"PK not really")
    try:
        assert "could not be collected" in collect(course)[0]
    finally:
        broken.unlink()


def test_the_command_prints_the_class_and_writes_the_grades(course: Course, lab: NotebookNode) -> None:
    path = course.submitted("Ada B", STEP)
    path.parent.mkdir(parents=True)
    nbformat.write(solved(lab, "square"), path)
    done = _grade(course.root, "--student", "Ada B")
    assert done.returncode == 0, done.stderr
    assert "Ada B · 01_export · graded" in done.stdout and "correctness" in done.stdout
    assert "Traceback" not in done.stderr


def test_an_empty_course_is_one_clear_line(course: Course, tmp_path: Path) -> None:
    (tmp_path / "nbgrader_config.py").write_text((ROOT / "nbgrader_config.py").read_text())
    done = _grade(tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: nothing to grade: expected") and done.stderr.count("\n") == 1
