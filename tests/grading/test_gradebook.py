"""The records of a class and its gradebook: each is made again from the other, and nobody's points are lost.

Also the course's lock, faults that no submission pays for, and links where grading writes.
"""

import os
import re
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from helpers.course.steps import Cell
from helpers.tools.term import Term
from solutions.grading import gradebook as room
from solutions.grading import layout
from solutions.grading.course import Course
from solutions.grading.faults import CourseError, course_faults, need_room
from solutions.grading.gradebook import KEPT, Journal, back_up, held, made_ready, save
from solutions.grading.layout import ROOT, remove_links
from solutions.grading.locks import LOCK_FILE, course_lock, other_holder
from solutions.grading.step_record import UNDER_WAY, CellGrade, StepRecord
from tests.faults.cases import DAMAGES
from tests.grading.conftest import hand_in
from tests.grading.tiny import STEP
from trtcpu.errors import EngineError, InputError

pytestmark = pytest.mark.filterwarnings("ignore")  # nbgrader's own

CELLS = {"export_model": CellGrade(3.0, 3.0), "simplify_model": CellGrade(2.0, None, 1.5, 0.25)}
COMMENTS = {"square_todo": {"auto": None, "manual": "neat"}, "cube_todo": {"auto": "No response.", "manual": None}}
LATER = "02_fp16"


@pytest.fixture
def fresh(bare: Course, course: Course) -> Course:
    """A course with the step in its gradebook, nothing handed in."""
    bare.gradebook_file.write_bytes(course.gradebook_file.read_bytes())
    return bare


@pytest.fixture
def journal(fresh: Course) -> Journal:
    """That of ada, who has a record."""
    _record().write(fresh.autograded("ada"))
    return Journal(fresh, "ada")


def _record(**changes: object) -> StepRecord:
    return StepRecord("ada", STEP, **{"cells": dict(CELLS), "comments": dict(COMMENTS), **changes})


def test_a_record_is_saved_in_one_transaction_and_comes_back_whole(fresh: Course) -> None:
    late, commits = _record(submitted="2026-11-01T12:00:00", penalty=1.5), []
    with fresh.gradebook() as gradebook:
        assert held(gradebook, late) is None
        save(gradebook, _record(cells={}, comments={}))
        event.listen(gradebook.engine, "commit", commits.append)
        save(gradebook, late)
    with fresh.gradebook() as gradebook:
        assert held(gradebook, _record()) == late
    assert len(commits) <= 3  # the student's, the submission's, and one for all points


def test_points_are_the_records_and_a_persons_are_the_gradebooks(fresh: Course, journal: Journal) -> None:
    given = {**CELLS, "simplify_model": CellGrade(2.0, None, 2.0, None)}
    with fresh.gradebook() as gradebook:
        assert not journal.settle(gradebook, STEP, [])
        assert held(gradebook, _record()) == _record(), "what the gradebook lost is put back"
        save(gradebook, _record(cells=given))
        assert journal.settle(gradebook, STEP, [])
        assert journal.record(STEP).cells == given
        save(gradebook, _record(cells={**given, "export_model": CellGrade(3.0, 15.0)}))  # somebody tampered with it
        assert not journal.settle(gradebook, STEP, [])
        assert held(gradebook, _record()).cells == given


def test_what_a_person_gave_before_and_while_a_step_is_graded_stays(fresh: Course, journal: Journal) -> None:
    journal.end(journal.begin(STEP))  # into a new gradebook
    begun = journal.begin(STEP)
    assert journal.record(STEP).state == UNDER_WAY
    assert (begun.cells, begun.comments) == (CELLS, COMMENTS)  # the piece's own gradebook has it
    with fresh.gradebook() as gradebook:
        gradebook.find_grade("export_model", STEP, STEP, "ada").manual_score = 2.5
        gradebook.find_grade("simplify_model", STEP, STEP, "ada").extra_credit = None
        gradebook.find_comment("cube_todo", STEP, STEP, "ada").manual_comment = "see me"
        gradebook.db.commit()
    journal.end(replace(begun, cells={**begun.cells, "export_model": CellGrade(3.0, 1.0)}))
    with fresh.gradebook() as gradebook:
        found = held(gradebook, _record())
        assert journal.settle(gradebook, STEP, [])  # grade_class writes the feedback again
    assert found.cells == {"export_model": CellGrade(3.0, 1.0, 2.5), "simplify_model": CellGrade(2.0, None, 1.5)}
    assert [said["manual"] for said in found.comments.values()] == ["neat", "see me"]
    assert journal.record(STEP).cells == found.cells


def test_a_step_is_graded_again_after_a_change_meanwhile_or_in_an_earlier_step(fresh: Course, journal: Journal) -> None:
    folder, submitted = fresh.autograded("ada"), fresh.submitted("ada", STEP)

    def graded(step: str) -> None:
        StepRecord("ada", step, key=journal.key(step), made=journal.made(step)).write(folder)

    for path in (fresh.source(LATER), submitted, *(folder / step / f"{step}.ipynb" for step in (STEP, LATER))):
        path.parent.mkdir(parents=True)
        path.write_text("{}")
    for step in (STEP, LATER):
        graded(step)
    assert journal.done(STEP) and journal.done(LATER)
    begun = journal.begin(STEP)
    submitted.write_text("{} ")
    journal.end(begun)
    graded(LATER)  # by --steps
    assert journal.done(LATER) and not journal.done(STEP)
    graded(STEP)
    assert journal.done(STEP) and not journal.done(LATER)


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("/dev/zero"), lambda path: _sparse(path)])
def test_a_notebook_that_cannot_be_read_is_to_be_graded_and_ends_nothing(
    fresh: Course, make: Callable[[Path], object]
) -> None:
    path = hand_in(fresh, "ada", "")
    path.unlink()
    make(path)
    assert Journal(fresh, "ada").to_grade([STEP]) == [STEP]


def _sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)  # of which nothing is on the disk


def test_a_changed_check_is_its_own_steps(fresh: Course, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    changed: set[Path] = set()
    digest_of, checks = layout.digest_of, layout.checks_of.__wrapped__
    monkeypatch.setattr(room, "digest_of", lambda paths: f"{digest_of(paths)} {paths.isdisjoint(changed)}")
    fresh.source(LATER).parent.mkdir()
    fresh.source(LATER).write_text("{}")
    before = {step: (journal.key(step), journal.made(step)) for step in (STEP, LATER)}
    changed.add(ROOT / "solutions" / "checks" / "s02_fp16.py")
    assert checks(LATER) == changed and len(checks("16_cases")) > 3 and checks("16_cases") < checks()
    assert (journal.key(STEP), journal.made(STEP)) == before[STEP]
    assert journal.key(LATER) != before[LATER][0] and journal.made(LATER) == before[LATER][1]


def test_other_points_are_their_own_steps_and_another_model_is_everybodys(
    fresh: Course, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, made = journal.key(STEP), journal.made(STEP)
    monkeypatch.setitem(room.CELLS, "export_model", Cell("correctness", "", 9.0, STEP))
    assert journal.key(STEP) != key and journal.made(STEP) == made
    monkeypatch.setattr(layout, "TERM", Term(model="resnet18"))
    assert (other := journal.made(STEP)) != made
    monkeypatch.setenv("TRT_LAB_MODEL", "resnet18")
    assert journal.made(STEP) == other
    monkeypatch.setenv("TRT_LAB_MODEL", "resnet50")
    assert journal.made(STEP) != other


@pytest.mark.parametrize("asked", ["", "auto"])
def test_an_engine_that_is_left_open_is_the_same_however_that_is_said(
    fresh: Course, journal: Journal, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    monkeypatch.delenv("TRT_LAB_ENGINE", raising=False)
    made = journal.made(STEP)
    monkeypatch.setenv("TRT_LAB_ENGINE", asked)
    assert journal.made(STEP) == made


def test_nobody_imports_the_checks_of_another_step() -> None:
    for path in layout.code():
        named = re.findall(r"solutions\.checks(?:\.| import )(s\d\d)_", path.read_text())
        own = path.relative_to(ROOT / "solutions" / "checks").parts[0][:3] if path in layout.checks_of() else None
        assert set(named) <= {own}, path


LINKS = ["autograded/eve/records", f"autograded/eve/{STEP}/{STEP}.ipynb", "feedback/eve"]


def test_links_where_grading_writes_are_removed_and_never_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    for link in map(tmp_path.joinpath, LINKS):
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(tmp_path / "precious")
    assert [line.split(" was ")[0] for line in remove_links(tmp_path, "eve", STEP)] == LINKS
    assert (tmp_path / "precious" / "file").exists() and remove_links(tmp_path, "eve", STEP) == []


FULL = "No space left on device"
LOCKED = OperationalError("UPDATE", {}, sqlite3.OperationalError("database is locked"))


@pytest.mark.parametrize(
    ("error", "cause", "kind", "said"),
    [
        (LOCKED, None, CourseError, "the gradebook cannot be used: database is locked"),
        (InputError("cannot write x"), OSError(28, FULL), CourseError, FULL),
        (EngineError(f"cannot prepare: OSError: [Errno 28] {FULL}"), None, CourseError, FULL),
        (OSError(30, "Read-only file system"), None, CourseError, "Read-only"),
        (InputError("it is not a notebook"), None, InputError, "^it is not a notebook$"),
        (ValueError("x"), None, ValueError, "^x$"),
    ],
)
def test_what_the_disk_or_the_gradebook_did_is_told_from_what_a_submission_did(
    error: Exception, cause: Exception | None, kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said), course_faults():
        raise error from cause


def test_room_is_looked_for_and_given_back(tmp_path: Path) -> None:
    need_room(tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []


def test_a_first_run_makes_a_gradebook_and_a_whole_one_is_taken_as_it_is(fresh: Course) -> None:
    for how in ("missing", "empty"):  # a first run may have been killed at once
        DAMAGES[how](fresh.gradebook_file)
        assert made_ready(fresh) == ""
    _record().write(fresh.autograded("ada"))
    before = fresh.gradebook_file.read_bytes()
    assert made_ready(fresh) == "" and fresh.gradebook_file.read_bytes() == before


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("missing", "was missing: made again from the records; backups/ has"),
        ("empty", "was empty: made again"),
        ("garbage", "was damaged (file is not a database): made again"),
        ("cut in half", "was damaged ("),
    ],
)
@pytest.mark.usefixtures("journal")
def test_a_gradebook_that_is_lost_is_made_again_from_the_records(fresh: Course, how: str, said: str) -> None:
    DAMAGES[how](fresh.gradebook_file)
    lost = [fresh.gradebook_file.read_bytes()] if how != "missing" else []
    assert made_ready(fresh).startswith(f"gradebook.db {said}")
    with fresh.gradebook() as gradebook:
        assert held(gradebook, _record()) == _record()
    assert [path.read_bytes() for path in fresh.root.glob("backups/damaged-*")] == lost


def test_a_gradebook_that_is_in_use_or_another_database_is_left_alone(
    fresh: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "LOCK_WAIT_S", 0.05)
    with closing(sqlite3.connect(fresh.gradebook_file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(CourseError, match="is locked: another process has been writing.*; no grades were touched"):
            made_ready(fresh)
    fresh.gradebook_file.unlink()
    with closing(sqlite3.connect(fresh.gradebook_file)) as other:
        other.execute("CREATE TABLE mine (x)")
    with pytest.raises(CourseError, match="is a database, but no gradebook of nbgrader; no grades were touched"):
        made_ready(fresh)


def test_the_last_ten_copies_are_kept_and_each_is_whole(fresh: Course) -> None:
    made = [back_up(fresh) for _ in range(KEPT + 3)]
    assert set((fresh.root / "backups").iterdir()) == set(made[-KEPT:])
    with closing(sqlite3.connect(made[-1])) as copy:
        assert copy.execute("SELECT name FROM assignment").fetchall() == [(STEP,)]


HOLDS = """
import sys, time
from pathlib import Path
from solutions.grading.locks import course_lock
with course_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_run_is_told_who_holds_the_course_and_the_lock_ends_with_its_process(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDS, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        holder = f"the course is being graded by process {other.pid} on {socket.gethostname()} since 20"
        with pytest.raises(CourseError, match=holder), course_lock(tmp_path):
            pass
        other.kill()
    with course_lock(tmp_path, wait=True, say=pytest.fail):
        assert f"process {os.getpid()} on" in other_holder(tmp_path)
    assert other_holder(tmp_path) is None


def test_a_link_in_the_locks_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="symbolic link.*grading.lock"), course_lock(tmp_path):
        pass
    assert not (tmp_path / "target").exists()
