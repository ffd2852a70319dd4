"""The gradebook's file: looked at before a run, copied to backups/; the lock that one run at a time holds."""

import os
import shutil
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from solutions.grading import gradebook as room
from solutions.grading.course import Course
from solutions.grading.faults import CourseError
from solutions.grading.gradebook import KEPT, back_up, held, made_ready
from solutions.grading.layout import ROOT, scripts_on_path
from solutions.grading.locks import LOCK_FILE, course_lock, other_holder
from solutions.grading.step_record import CellGrade, StepRecord
from tests.grading.conftest import make_course
from tests.grading.tiny import STEP

pytestmark = pytest.mark.filterwarnings("ignore")  # nbgrader's own


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A gradebook's file with the step."""
    scripts_on_path()
    course = make_course(tmp_path_factory.mktemp("whole"))
    made_ready(course)
    return course.gradebook_file.read_bytes()


@pytest.fixture
def course(tmp_path: Path, whole: bytes) -> Course:
    """A course with a gradebook and a record of an earlier run, in which a person gave something."""
    made = make_course(tmp_path)
    made.gradebook_file.write_bytes(whole)
    StepRecord("ada", STEP, cells={"simplify_model": CellGrade(2.0, 1.0, 1.5)}).write(made.autograded("ada"))
    return made


def test_a_whole_gradebook_is_taken_as_it_is_and_a_first_run_makes_one(course: Course, tmp_path: Path) -> None:
    before = course.gradebook_file.read_bytes()
    assert made_ready(course) == "" and course.gradebook_file.read_bytes() == before
    shutil.rmtree(course.autograded(""))
    for begin in (course.gradebook_file.unlink, lambda: course.gradebook_file.write_bytes(b"")):  # killed at once
        begin()
        assert made_ready(course) == ""


@pytest.mark.parametrize(
    "content, said",
    [
        (None, "gradebook.db was missing: made again from the records; backups/ has"),
        (b"", "gradebook.db was empty: made again"),
        (b"garbage" * 1000, "gradebook.db was damaged (file is not a database): made again"),
        (0.5, "gradebook.db was damaged ("),
    ],
)
def test_a_gradebook_that_is_lost_is_made_again_from_the_records(
    course: Course, whole: bytes, content: bytes | float | None, said: str
) -> None:
    lost = whole[: len(whole) // 2] if isinstance(content, float) else content
    course.gradebook_file.unlink()
    if lost is not None:
        course.gradebook_file.write_bytes(lost)
    assert made_ready(course).startswith(said)
    record = StepRecord.read(course.autograded("ada"), "ada", STEP)
    with course.gradebook() as gradebook:
        assert held(gradebook, record).cells["simplify_model"] == CellGrade(2.0, 1.0, 1.5)
    assert [path.read_bytes() for path in course.root.glob("backups/damaged-*")] == ([] if lost is None else [lost])


def test_a_gradebook_that_is_in_use_or_another_database_is_left_alone(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "LOCK_WAIT_S", 0.05)
    with closing(sqlite3.connect(course.gradebook_file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(CourseError, match="is locked: another process has been writing.*; no grades were touched"):
            made_ready(course)
    course.gradebook_file.unlink()
    with closing(sqlite3.connect(course.gradebook_file)) as other:
        other.execute("CREATE TABLE mine (x)")
    with pytest.raises(CourseError, match="is a database, but no gradebook of nbgrader; no grades were touched"):
        made_ready(course)


def test_the_last_ten_copies_are_kept_and_each_is_whole(course: Course) -> None:
    made = [back_up(course) for _ in range(KEPT + 3)]
    kept = set((course.root / "backups").iterdir())
    assert kept == set(made[-KEPT:])
    with closing(sqlite3.connect(made[-1])) as copy:
        assert copy.execute("SELECT name FROM assignment").fetchall() == [(STEP,)]


def test_a_second_run_is_told_who_holds_the_course_and_the_lock_ends_with_its_process(tmp_path: Path) -> None:
    held = f"""
import time
from pathlib import Path
from solutions.grading.locks import course_lock
with course_lock(Path({str(tmp_path)!r})):
    print("held", flush=True)
    time.sleep(60)
"""
    command = [sys.executable, "-c", held]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        holder = f"the course is being graded by process {other.pid} on {socket.gethostname()} since 20"
        with pytest.raises(CourseError, match=holder), course_lock(tmp_path):
            pass
        assert other_holder(tmp_path).startswith(holder)
        other.kill()
    said: list[str] = []
    with course_lock(tmp_path, wait=True, say=said.append):
        assert said == [] and f"process {os.getpid()} on" in other_holder(tmp_path)
    assert other_holder(tmp_path) is None


def test_a_link_in_the_locks_place_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    (tmp_path / LOCK_FILE).symlink_to(target)
    with pytest.raises(OSError, match="symbolic link.*grading.lock"), course_lock(tmp_path):
        pass
    assert target.read_text() == "precious"
