"""A step's record and the gradebook: one transaction, each made again from the other, and nobody's points lost."""

import csv
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from helpers.tools.files import sha256
from solutions.grading import layout as code
from solutions.grading.class_files import PLATFORMS, write_export
from solutions.grading.course import Course
from solutions.grading.faults import CourseError, course_fault, course_faults, need_room
from solutions.grading.gradebook import Journal, held, save
from solutions.grading.grades import ClassGrades, rebuilt, summed, write_grades
from solutions.grading.layout import ROOT, remove_links, scripts_on_path
from solutions.grading.step_record import GRADED, REFUSED, UNDER_WAY, CellGrade, StepRecord
from tests.grading.conftest import hand_in
from tests.grading.tiny import STEP, source_notebook
from trtcpu.errors import EngineError, InputError

pytestmark = pytest.mark.filterwarnings("ignore")  # nbgrader's own

CELLS = {"export_model": CellGrade(3.0, 3.0), "simplify_model": CellGrade(2.0, None, 1.5, 0.25)}
COMMENTS = {"square_todo": {"auto": None, "manual": "neat"}, "cube_todo": {"auto": "No response.", "manual": None}}


@pytest.fixture(scope="module")
def registered(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A gradebook's file that has the step."""
    scripts_on_path()
    made = Course.at(tmp_path_factory.mktemp("registered"), ROOT)
    with made.gradebook() as gradebook:
        _register(gradebook)
    return made.gradebook_file.read_bytes()


@pytest.fixture
def course(tmp_path: Path, registered: bytes) -> Course:
    """A course with its source and the step in its gradebook, nothing handed in."""
    made = Course.at(tmp_path, ROOT)
    made.source(STEP).parent.mkdir(parents=True)
    nbformat.write(source_notebook(), made.source(STEP))
    made.gradebook_file.write_bytes(registered)
    return made


def _register(gradebook: Gradebook) -> None:
    gradebook.add_assignment(STEP)
    gradebook.add_notebook(STEP, STEP)
    for cell in CELLS:
        gradebook.add_grade_cell(cell, STEP, STEP, max_score=CELLS[cell].points, cell_type="code")
    for cell in COMMENTS:
        gradebook.add_solution_cell(cell, STEP, STEP)


def _record(**changes: object) -> StepRecord:
    return StepRecord("ada", STEP, **{"cells": dict(CELLS), "comments": dict(COMMENTS), **changes})


@pytest.mark.slow
def test_a_records_points_and_comments_come_back_from_the_gradebook(course: Course) -> None:
    with course.gradebook() as gradebook:
        assert held(gradebook, _record()) is None
        save(gradebook, _record())
    with course.gradebook() as gradebook:
        assert held(gradebook, _record()) == _record()
    grades = summed("ada", [STEP], {STEP: _record()})
    assert (grades.total, grades.pending) == (4.75, 0.0)


def test_points_are_saved_in_one_transaction(course: Course) -> None:
    commits: list[object] = []
    with course.gradebook() as gradebook:
        save(gradebook, _record(cells={}, comments={}))
        event.listen(gradebook.engine, "commit", commits.append)
        changed: list[bool] = []
        event.listen(gradebook.engine, "before_cursor_execute", lambda *a: changed.append("UPDATE grade" in a[2]))
        save(gradebook, _record())
        written = [index for index, update in enumerate(changed) if update]
    with closing(sqlite3.connect(course.gradebook_file)) as database:
        assert database.execute("SELECT count(*) FROM grade WHERE auto_score = 3 OR manual_score = 1.5").fetchone() == (
            2,
        )
    assert written and len(commits) <= 3  # the student's, the submission's, and one for all points


def test_a_graded_step_that_the_gradebook_lost_is_put_back_with_what_a_person_gave(course: Course) -> None:
    journal = Journal(course, "ada")
    _record().write(course.autograded("ada"))
    with course.gradebook() as gradebook:
        assert journal.settle(gradebook, STEP, []) is False
        assert held(gradebook, _record()) == _record()


def test_points_that_were_tampered_with_are_the_records_again_and_a_persons_are_taken_over(course: Course) -> None:
    _record().write(course.autograded("ada"))
    with course.gradebook() as gradebook:
        save(gradebook, _record())
        given = {**CELLS, "simplify_model": CellGrade(2.0, None, 2.0, None)}
        save(gradebook, _record(cells=given))
        assert Journal(course, "ada").settle(gradebook, STEP, [])
        assert StepRecord.read(course.autograded("ada"), "ada", STEP).cells == given
        save(gradebook, _record(cells={**given, "export_model": CellGrade(3.0, 15.0)}))
        assert Journal(course, "ada").settle(gradebook, STEP, []) is False
        assert held(gradebook, _record()).cells == given


def test_grading_again_keeps_a_persons_points_although_the_gradebook_is_new(course: Course) -> None:
    journal, folder = Journal(course, "ada"), course.autograded("ada")
    _record(key="old").write(folder)
    (course.submitted("ada", STEP).parent).mkdir(parents=True)
    course.submitted("ada", STEP).write_text("{}")
    begun = journal.begin(STEP)
    assert StepRecord.read(folder, "ada", STEP).state == UNDER_WAY
    assert (begun.cells, begun.comments) == (CELLS, COMMENTS)  # what a person gave is in the piece's own gradebook
    journal.end(replace(begun, cells={**CELLS, "export_model": CellGrade(3.0, 1.0)}))
    with course.gradebook() as gradebook:
        found = held(gradebook, _record())
    assert found.cells == {"export_model": CellGrade(3.0, 1.0), "simplify_model": CellGrade(2.0, None, 1.5, 0.25)}
    assert found.comments["square_todo"]["manual"] == "neat"
    (folder / STEP).mkdir()
    (folder / STEP / f"{STEP}.ipynb").write_text("{}")
    assert journal.done(STEP)
    course.submitted("ada", STEP).write_text("{} ")
    assert not journal.done(STEP)


def test_what_a_person_gives_while_a_step_is_graded_stays_and_the_feedback_has_it(course: Course) -> None:
    journal, folder = Journal(course, "ada"), course.autograded("ada")
    _record().write(folder)
    with course.gradebook() as gradebook:
        save(gradebook, _record())
    begun = journal.begin(STEP)
    with course.gradebook() as gradebook:
        gradebook.find_grade("export_model", STEP, STEP, "ada").manual_score = 2.5
        gradebook.find_grade("simplify_model", STEP, STEP, "ada").extra_credit = None
        gradebook.find_comment("cube_todo", STEP, STEP, "ada").manual_comment = "see me"
        gradebook.db.commit()
    journal.end(replace(begun, cells={**begun.cells, "export_model": CellGrade(3.0, 1.0)}))
    with course.gradebook() as gradebook:
        found = held(gradebook, _record())
        assert found.cells == {"export_model": CellGrade(3.0, 1.0, 2.5), "simplify_model": CellGrade(2.0, None, 1.5)}
        assert found.comments["cube_todo"]["manual"] == "see me" and found.comments["square_todo"]["manual"] == "neat"
        assert journal.settle(gradebook, STEP, [])  # grade_class writes the feedback again
    assert StepRecord.read(folder, "ada", STEP).cells == found.cells


def test_what_is_handed_in_while_a_step_is_graded_is_graded_next(course: Course) -> None:
    journal, notebook = Journal(course, "ada"), course.autograded("ada") / STEP / f"{STEP}.ipynb"
    submitted = course.submitted("ada", STEP)
    for path in (submitted, notebook):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("as it was")
    with course.gradebook() as gradebook:
        save(gradebook, _record())
    journal.end(journal.begin(STEP))
    assert journal.done(STEP)
    begun = journal.begin(STEP)
    submitted.write_text("another")
    journal.end(begun)
    assert not journal.done(STEP)


def test_a_step_that_was_graded_on_old_artifacts_is_graded_again_once_the_earlier_step_was(course: Course) -> None:
    journal, folder, later = Journal(course, "ada"), course.autograded("ada"), "02_fp16"
    for step in (STEP, later):
        for path in (course.source(step), course.submitted("ada", step), folder / step / f"{step}.ipynb"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("{}")
        _graded(course, step)
    assert journal.done(STEP) and journal.done(later)
    course.submitted("ada", STEP).write_text("{} ")  # handed in again
    _graded(course, later)  # by --steps
    assert journal.done(later) and not journal.done(STEP)
    _graded(course, STEP)
    assert journal.done(STEP) and not journal.done(later)


def test_a_notebook_that_cannot_be_read_is_to_be_graded_and_ends_nothing(course: Course) -> None:
    path = course.submitted("ada", STEP)
    path.parent.mkdir(parents=True)
    path.symlink_to("/dev/zero")
    assert Journal(course, "ada").to_grade([STEP]) == [STEP]
    path.unlink()
    with path.open("wb") as file:
        file.truncate(1 << 40)  # of which nothing is on the disk
    assert Journal(course, "ada").to_grade([STEP]) == [STEP]


def _graded(course: Course, step: str) -> None:
    journal = Journal(course, "ada")
    StepRecord("ada", step, key=journal.key(step), made=journal.made(step)).write(course.autograded("ada"))


def test_a_changed_check_is_its_own_steps(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    own = "02_fp16"
    course.source(own).parent.mkdir()
    course.source(own).write_text("{}")
    journal, checks = Journal(course, "ada"), code.checks_of.__wrapped__
    before = {step: (journal.key(step), journal.made(step)) for step in (STEP, own)}
    assert checks(own) == {ROOT / "solutions" / "checks" / "s02_fp16.py"}
    assert len(checks("16_cases")) > 3 and checks("16_cases") < checks()
    changed = checks(own)
    monkeypatch.setattr(code, "sha256", lambda path: "changed" if path in changed else sha256(path))
    code.digest_of.cache_clear()
    after = {step: (journal.key(step), journal.made(step)) for step in (STEP, own)}
    monkeypatch.undo()
    code.digest_of.cache_clear()
    assert before[own][0] != after[own][0] and before[own][1] == after[own][1]
    assert before[STEP] == after[STEP]


def test_nobody_imports_the_checks_of_another_step() -> None:
    for path in code.code():
        named = re.findall(r"solutions\.checks(?:\.| import )(s\d\d)_", path.read_text())
        own = path.relative_to(ROOT / "solutions" / "checks").parts[0][:3] if path in code.checks_of() else None
        assert set(named) <= {own}, path


def test_when_it_was_handed_in_and_what_that_costs_go_with_the_record(course: Course) -> None:
    late = _record(submitted="2026-11-01T12:00:00", penalty=1.5)
    with course.gradebook() as gradebook:
        save(gradebook, late)
        assert held(gradebook, _record()) == late
    grades = summed("ada", [STEP], {STEP: late})
    assert (grades.total, grades.late, grades.steps[STEP]) == (3.25, 1.5, 3.25)


def test_being_late_costs_no_more_than_the_step_earned() -> None:
    grades = summed("ada", [STEP], {STEP: _record(penalty=50.0)})
    assert (grades.total, grades.late) == (0.0, 4.75)


def test_grades_are_rebuilt_without_the_gradebook(course: Course) -> None:
    course.gradebook_file.unlink()
    for student, changes in {"ada": {}, "ben": {"state": UNDER_WAY}, "cleo": {"state": REFUSED}}.items():
        record = _record(**changes, notes=[f"of {student}"] if student != "ben" else [])
        record.student = student
        record.write(course.autograded(student))
    _record().write(course.autograded("eve"))  # ada's record, copied
    (course.autograded("dora") / "grades").mkdir(parents=True)
    (course.autograded("dora") / "grades" / f"{STEP}.json").write_text('{"earned": "lots"}')
    (course.autograded("fay") / "grades").mkdir(parents=True)
    hand_in(course, "fay", "not reached")
    anew = _record(state=REFUSED)
    anew.student = "gil"
    anew.write(course.autograded("gil"))
    hand_in(course, "gil", course.source(STEP).read_text())
    result = rebuilt(course)
    assert {row.student: row.total for row in result.students} == {
        "ada": 4.75,
        "ben": 0,
        "cleo": 0,
        "dora": 0,
        "eve": 0,
        "fay": 0,
        "gil": 0,
    }
    notes = {row.student: row.notes for row in result.students}
    assert (notes["ada"], notes["cleo"]) == ([f"{STEP}: of ada"], [f"{STEP}: of cleo"])
    assert notes["ben"] == [f"{STEP}: no points: it was being graded when grading stopped; grade the step again"]
    assert notes["fay"] == [f"{STEP}: no points: it was handed in and is not graded yet; grade the step"]
    assert "is refused: " in notes["dora"][0] and "being graded when" in notes["eve"][0]
    assert result.worth["correctness"] == 5 and not course.gradebook_file.exists()
    assert notes["gil"] == [f"{STEP}: no points: it was refused, and what is handed in now is not graded yet"]
    undecided = {"ben", "dora", "eve", "fay", "gil"}
    assert {row.student for row in result.students if row.ungraded == [STEP]} == undecided
    for file in _exported(course.root, result):
        totals = {row.get("student") or row.get("SIS Login ID") or row.get("ID number"): row for row in file}
        shown = {name: row.get("total") or row.get("TensorRT lab") or "" for name, row in totals.items()}
        assert [shown["ada"], shown["cleo"]] == ["4.75", "0"] and {shown[name] for name in undecided} == {""}


def _exported(folder: Path, result: ClassGrades) -> Iterator[list[dict[str, str]]]:
    """Yield the rows of every file that other programs read."""
    write_grades(folder, result.students, result.worth, result.steps)
    paths = [write_export(name, folder, result.students, result.worth, []) for name in PLATFORMS]
    for path in (folder / "grades.csv", *paths):
        yield list(csv.DictReader(path.read_text().splitlines()))


def test_nothing_to_rebuild_from_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no records to rebuild grades from"):
        rebuilt(Course.at(tmp_path, ROOT))


def test_links_where_grading_writes_are_removed_and_never_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("kept")
    own = tmp_path / "autograded" / "eve"
    (own / STEP).mkdir(parents=True)
    (own / "records").symlink_to(precious)
    (own / STEP / f"{STEP}.ipynb").symlink_to(precious / "file")
    (tmp_path / "feedback").mkdir()
    (tmp_path / "feedback" / "eve").symlink_to(precious)
    said = remove_links(tmp_path, "eve", STEP)
    assert [line.split(" was ")[0] for line in said] == [
        "autograded/eve/records",
        f"autograded/eve/{STEP}/{STEP}.ipynb",
        "feedback/eve",
    ]
    assert (precious / "file").read_text() == "kept" and remove_links(tmp_path, "eve", STEP) == []


def test_what_the_disk_or_the_gradebook_did_is_told_from_what_a_submission_did() -> None:
    locked = OperationalError("UPDATE", {}, sqlite3.OperationalError("database is locked"))
    full = InputError("cannot write x")
    full.__cause__ = OSError(28, "No space left on device")
    assert "the gradebook cannot be used: database is locked" in str(course_fault(locked))
    assert "No space left on device" in str(course_fault(full))
    assert course_fault(EngineError("cannot prepare: OSError: [Errno 28] No space left on device")) is not None
    assert course_fault(InputError("it is not a notebook")) is None and course_fault(ValueError()) is None
    with pytest.raises(CourseError, match="Read-only"), course_faults():
        raise OSError(30, "Read-only file system")
    with pytest.raises(InputError, match="is not a notebook"), course_faults():
        raise InputError("it is not a notebook")


def test_room_is_looked_for_and_given_back(tmp_path: Path) -> None:
    need_room(tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []
    assert GRADED == StepRecord("ada", STEP).state
