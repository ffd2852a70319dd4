"""`python -m solutions.grading`: collects what was downloaded, grades, and says what went wrong in one line."""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from solutions.grading.collect import collect
from solutions.grading.course import Course
from solutions.grading.layout import ROOT
from solutions.grading.roster import ROSTER
from tests.grading.conftest import hand_in
from tests.grading.tiny import STEP, solved

pytestmark = pytest.mark.slow


def _grade(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TRT_LAB_ENGINE": "cpu"}
    command = [sys.executable, "-m", "solutions.grading", "--unsafe-no-sandbox", *options]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.fixture
def archive(course: Course) -> Iterator[Path]:
    """An empty downloaded/<step>/archive/; what was collected from it and the class list are gone afterwards."""
    folder = course.root / "downloaded" / STEP / "archive"
    folder.mkdir(parents=True)
    yield folder
    shutil.rmtree(course.root / "downloaded")
    shutil.rmtree(course.root / "submitted", ignore_errors=True)
    (course.root / ROSTER).unlink(missing_ok=True)


def _zip(path: Path, files: dict[str, str]) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for name, text in files.items():
            file.writestr(name, text)


def _collected(course: Course) -> dict[str, str]:
    """Return the text of each student's notebook in submitted/, by student."""
    paths = (course.root / "submitted").glob(f"*/{STEP}/{STEP}.ipynb")
    return {path.parent.parent.name: path.read_text() for path in paths}


def test_what_a_learning_platform_gave_is_collected(course: Course, archive: Path) -> None:
    _zip(archive / "jane.doe.zip", {f"{STEP}.ipynb": "jane", f".ipynb_checkpoints/{STEP}-checkpoint.ipynb": "old"})
    (archive / f"bob_{STEP}.ipynb").write_text("bob")
    (archive / "unnamed.ipynb").write_text("?")
    said = collect(course)
    assert _collected(course) == {"jane.doe": "jane", "bob": "bob"}
    assert said[1:] == [f"downloaded/{STEP}: unnamed.ipynb left out: its name holds no {STEP}"]


def test_without_a_class_list_an_underscore_is_asked_about_and_nobodys_work_is_taken_for_anothers(
    course: Course, archive: Path
) -> None:
    _zip(archive / "ada_k.zip", {f"{STEP}.ipynb": "k"})
    (archive / f"ada_l_{STEP}.ipynb").write_text("l")
    said = collect(course)
    assert _collected(course) == {}
    assert "'ada_k' may be a student, or a file of 'ada': students.csv must say" in said[1]
    assert f"ada_l_{STEP}.ipynb left out" in said[2]


def test_with_a_class_list_ids_may_hold_underscores_and_files_may_have_a_platforms_names(
    course: Course, archive: Path
) -> None:
    roster = "id,first_name,last_name\nada,Ada,B\nada_k,Ada,King\nada_l,Ada,Lovelace\nz1,Zoë,Ångström\n"
    (course.root / ROSTER).write_text(roster)
    _zip(archive / "ada_k.zip", {f"{STEP}.ipynb": "k"})
    (archive / "ada_l_late_01_Export-1.IPYNB").write_text("l")
    everybody = {f"Zoe\u0308 Ångström_4711_file_/{STEP}.ipynb": "z", f"ada_99/work/{STEP}.ipynb": "a"}
    _zip(archive / "all of them.zip", everybody | {f"eve_1/{STEP}.ipynb": "e"})
    said = collect(course)
    assert _collected(course) == {"ada": "a", "ada_k": "k", "ada_l": "l", "z1": "z"}
    assert len(said) == 2 and f"eve_1/{STEP}.ipynb left out: no student of students.csv in its name" in said[1]


def test_two_files_of_one_student_are_both_named_and_cost_nobody_else(course: Course, archive: Path) -> None:
    (course.root / ROSTER).write_text("id\nada\nben\neve\n")
    hand_in(course, "ada", "handed in before")
    for attempt in ("1", "2"):
        _zip(archive / f"ada_attempt {attempt}.zip", {f"{STEP}.ipynb": attempt})
    _zip(archive / "ben.zip", {f"{STEP}.ipynb": "b", f"../{STEP}.ipynb": "out", "data.bin": "0" * 1000})
    (archive / "eve.zip").write_bytes(b"PK not really")
    said = collect(course)
    both = f"ada_attempt 1/{STEP}.ipynb and ada_attempt 2/{STEP}.ipynb would both be the work of ada: keep one of them"
    assert said[1:3] == [
        f"downloaded/{STEP}: refused: ben.zip: '../{STEP}.ipynb' would leave the archive's folder",
        f"downloaded/{STEP}: refused: eve.zip: it cannot be unpacked: File is not a zip file",
    ]
    assert said[3:] == [f"downloaded/{STEP}: ada_attempt {n}/{STEP}.ipynb left out: {both}" for n in (1, 2)]
    assert _collected(course) == {"ada": "handed in before", "ben": "b"}


def test_what_was_put_into_submitted_since_stays_until_a_download_has_another_notebook(
    course: Course, archive: Path
) -> None:
    for student in ("ada", "ben"):
        _zip(archive / f"{student}.zip", {f"{STEP}.ipynb": student})
    collect(course)
    when = {one: course.submitted(one, STEP).with_name("timestamp.txt") for one in ("ada", "ben")}
    for path in when.values():
        path.write_text("2026-11-01 12:00:00 UTC")
    hand_in(course, "ada", "put there by hand")
    assert collect(course) == [f"downloaded/{STEP}: collected before"]

    _zip(archive / "ben.zip", {f"{STEP}.ipynb": "ben's second"})
    (archive / "unnamed.ipynb").write_text("?")
    assert "left out" in collect(course)[1]
    assert _collected(course) == {"ada": "put there by hand", "ben": "ben's second"}
    assert when["ada"].is_file() and not when["ben"].exists()  # the time of his first
    assert "left out" in collect(course)[1]  # it is said each time, and costs nobody anything
    assert _collected(course)["ada"] == "put there by hand" and when["ada"].is_file()

    course.submitted("ada", STEP).unlink()
    collect(course)
    assert _collected(course)["ada"] == "ada"


def test_the_command_prints_the_class_and_writes_the_grades(course: Course, lab: NotebookNode) -> None:
    path = course.submitted("Ada B", STEP)
    path.parent.mkdir(parents=True)
    nbformat.write(solved(lab, "square"), path)
    done = _grade(course.root, "--students", "Ada B")
    assert done.returncode == 0, done.stderr
    assert "Ada B · 01_export · graded" in done.stdout and "correctness" in done.stdout
    assert "Traceback" not in done.stderr
    assert (
        "grades.csv comes when the whole class is graded" in done.stdout and not (course.root / "grades.csv").exists()
    )


def test_an_empty_course_is_one_clear_line(course: Course, tmp_path: Path) -> None:
    (tmp_path / "nbgrader_config.py").write_text((ROOT / "nbgrader_config.py").read_text())
    done = _grade(tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: nothing to grade: expected") and done.stderr.count("\n") == 1


@pytest.mark.parametrize("option, part", [(("--export", "canvas"), "--students"), (("--rebuild",), "--steps")])
def test_what_is_of_the_whole_class_is_not_made_of_a_part(course: Course, option: tuple[str, ...], part: str) -> None:
    done = _grade(course.root, *option, part, "any")
    assert done.returncode == 2
    assert done.stderr == f"error: {option[0]} is of the whole class: without --students, --steps\n"


def test_what_the_database_logs_where_a_command_is_stopped_is_not_shown() -> None:
    code = 'import logging, solutions.grading.course; logging.getLogger("sqlalchemy.pool").error("a cursor")'
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TRT_LAB_ENGINE": "cpu"}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
