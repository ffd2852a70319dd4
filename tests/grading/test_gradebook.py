"""The gradebook's file: looked at before a run, copied to backups/; the lock that one run at a time holds."""

import os
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
from solutions.grading.gradebook import KEPT, back_up, check_gradebook, newest_good
from solutions.grading.layout import ROOT, scripts_on_path
from solutions.grading.lock import LOCK_FILE, course_lock, other_holder
from tests.grading.tiny import STEP


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A gradebook's file with one assignment."""
    scripts_on_path()
    course = Course.at(tmp_path_factory.mktemp("whole"), ROOT)
    with course.gradebook() as gradebook:
        gradebook.add_assignment(STEP)
    return course.gradebook_file.read_bytes()


@pytest.fixture
def course(tmp_path: Path, whole: bytes) -> Course:
    """A course with a gradebook, a record of an earlier run and grades."""
    made = Course.at(tmp_path, ROOT)
    made.gradebook_file.write_bytes(whole)
    record = made.autograded("ada") / "grades" / f"{STEP}.json"
    record.parent.mkdir(parents=True)
    record.write_text("{}")
    (tmp_path / "grades.csv").write_text("student\n")
    return made


def test_a_whole_gradebook_is_taken_and_a_first_run_has_none(course: Course, tmp_path: Path) -> None:
    check_gradebook(course)
    for path in ("grades.csv", f"autograded/ada/grades/{STEP}.json", "gradebook.db"):
        (tmp_path / path).unlink()
    check_gradebook(course)
    course.gradebook_file.touch()  # a first run that was killed at once
    check_gradebook(course)


@pytest.mark.parametrize(
    "content, said",
    [
        (
            None,
            "gradebook.db is missing although there are grades of earlier runs (autograded/ada/grades/01_export.json)",
        ),
        (b"", "gradebook.db is empty although there are grades of earlier runs"),
        (b"garbage" * 1000, "gradebook.db is damaged (file is not a database); no grades were touched"),
        (0.5, "gradebook.db is damaged ("),
    ],
)
def test_a_gradebook_that_is_none_any_more_is_refused_and_the_newest_good_backup_named(
    course: Course, whole: bytes, content: bytes | float | None, said: str
) -> None:
    folder = course.root / "backups"
    folder.mkdir()
    for age, (name, data) in enumerate([("new", b"garbage"), ("good", whole), ("old", whole)]):
        path = folder / f"gradebook-{name}.db"
        path.write_bytes(data)
        os.utime(path, (1e9 - age, 1e9 - age))
    if content is None:
        course.gradebook_file.unlink()
    else:
        course.gradebook_file.write_bytes(whole[: len(whole) // 2] if isinstance(content, float) else content)
    with pytest.raises(CourseError) as raised:
        check_gradebook(course)
    assert str(raised.value).startswith(said)
    assert "copy backups/gradebook-good.db over it, or make a new one" in str(raised.value)


def test_a_new_gradebook_is_begun_only_where_the_old_one_is_lost_and_what_is_there_is_kept(course: Course) -> None:
    with pytest.raises(CourseError, match="is there and good: --new-gradebook is for one that is lost"):
        check_gradebook(course, new=True)
    course.gradebook_file.write_bytes(b"garbage")
    check_gradebook(course, new=True)
    assert not course.gradebook_file.exists()
    assert [path.read_bytes() for path in (course.root / "backups").iterdir()] == [b"garbage"]


def test_a_locked_gradebook_is_named_as_such(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "LOCK_WAIT_S", 0.05)
    with closing(sqlite3.connect(course.gradebook_file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(CourseError, match="is locked: another process has been writing"):
            check_gradebook(course)
        with pytest.raises(CourseError, match="--new-gradebook is for one that is lost"):
            check_gradebook(course, new=True)


def test_the_last_ten_copies_are_kept_and_each_is_whole(course: Course) -> None:
    made = [back_up(course) for _ in range(KEPT + 3)]
    kept = set((course.root / "backups").iterdir())
    assert kept == set(made[-KEPT:]) and newest_good(course.root / "backups") == made[-1]
    with closing(sqlite3.connect(made[-1])) as copy:
        assert copy.execute("SELECT name FROM assignment").fetchall() == [(STEP,)]


def test_a_second_run_is_told_who_holds_the_course_and_the_lock_ends_with_its_process(tmp_path: Path) -> None:
    held = f"""
import time
from pathlib import Path
from solutions.grading.lock import course_lock
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
