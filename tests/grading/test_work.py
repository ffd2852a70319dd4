"""Pieces of work in places beside each other: the same grades as one after the other, whatever is killed."""

import fcntl
import itertools
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil
import pytest
from nbformat import NotebookNode

from solutions.grading.__main__ import main
from solutions.grading.class_files import write_export
from solutions.grading.course import Course
from solutions.grading.faults import CourseError
from solutions.grading.grade import grade_class
from solutions.grading.layout import ROOT
from solutions.grading.locks import Gate
from solutions.grading.step_record import StepRecord
from solutions.grading.submissions import find_submissions
from solutions.grading.work import place
from solutions.grading.work.place import Piece, empty_gradebook
from solutions.grading.work.pool import HERE, here, jobs_here
from tests.faults.course import heed_signals
from tests.grading.conftest import hand_in, make_course
from tests.grading.dask_cluster import until
from tests.grading.tiny import STEP, code_of, solved

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # nbgrader's and nbformat's own

EXPECTED = {"a": 5.0, "b": 3.0, "c": 2.0, "d": 0.0}


@pytest.fixture
def four(tmp_path: Path, lab: NotebookNode) -> Course:
    """A course with four submissions."""
    course = make_course(tmp_path)
    notebooks = {"a": solved(lab), "b": solved(lab, "square"), "c": solved(lab, "cube"), "d": lab}
    for student, notebook in notebooks.items():
        hand_in(course, student, notebook)
    return course


def _totals(course: Course, pool: object = HERE) -> dict[str, float]:
    graded = grade_class(course, find_submissions(course, [STEP]), [STEP], lambda *line: None, pool=pool)
    return {row.student: row.total for row in graded.students}


def test_two_beside_each_other_give_the_same_grades(four: Course) -> None:
    with here(four, [{}, {}]) as pool:
        assert _totals(four, pool) == EXPECTED
        assert all(four.feedback_page(student, STEP).is_file() for student in EXPECTED)
        assert _totals(four, pool) == EXPECTED  # nothing is graded again
    assert _totals(four) == EXPECTED


def test_a_place_and_its_judge_are_copies_of_a_process_with_their_imports(four: Course) -> None:
    with place.Places(four) as places:
        (process,) = (one.process for one in places._waiting[False])
        until(lambda: _kernels(process))
        server = psutil.Process(process.pid).parent()
        same = server.cmdline()
        copies = [one["pid"] for one in _below(server.pid) if one["cmdline"] == same]
        assert process.pid in copies and len(copies) == 2
    until(lambda: not any(map(psutil.pid_exists, copies)))


def test_a_judge_that_cannot_be_imported_says_why(four: Course) -> None:
    four.config.GradeExecute.judge = "tests.grading.no_such_judge"
    with place.Places(four) as places:
        done = places.grade(Piece(four, StepRecord("a", STEP), empty_gradebook(four)))
    assert "tell your instructor" in done.refused and "no_such_judge" in done.refused and not done.killed


def test_a_step_whose_check_fails_is_not_graded_and_no_zero_is_exported(four: Course) -> None:
    four.config.GradeExecute.judge = "tests.grading.no_such_judge"
    result = grade_class(four, find_submissions(four, [STEP])[:1], [STEP], lambda *_: None)
    (student,) = result.students
    assert "tell your instructor" in student.notes[0] and student.ungraded == [STEP]
    assert write_export("canvas", four.root, [student], result.worth, []).read_text().splitlines()[2] == "a,,,a,,,"


@pytest.mark.parametrize("failing", ["import no_such_package", "raise PermissionError(13, 'denied')"])
def test_where_no_notebook_could_import_what_it_needs_nothing_is_graded(
    four: Course, failing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = four.root / "nbgrader_config.py"
    config.write_text(config.read_text() + f"c.GradeExecute.imports = {failing!r}\n")
    with pytest.raises(SystemExit) as ended:
        main(course=four.root, jobs=2, unsafe=True)
    assert ended.value.code == 2
    assert re.fullmatch(
        r"error: notebooks cannot import what they need .*(no_such_package|denied).*\n", capsys.readouterr().err
    )
    assert not (four.root / "grades.csv").exists()


def _below(pid: int) -> list[dict[str, Any]]:
    """The processes below one, but those that end while they are looked at."""
    below = []
    for process in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            below.append(process.as_dict(["pid", "cmdline", "environ"]))
    return below


def _kernels(process: BaseProcess) -> list[dict[str, str]]:
    """The environment of each process below a place that is its kernel, or the sandbox around it."""
    below = _below(process.pid)
    return [one["environ"] for one in below if one["environ"] and "ipykernel_launcher" in " ".join(one["cmdline"])]


def test_a_place_that_is_killed_is_replaced(four: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, killed = place._Place.asked, []

    def killing(one: place._Place, piece: object) -> object:
        if not killed:
            killed.append(one.process.pid)
            threading.Timer(1.0, os.kill, (one.process.pid, signal.SIGKILL)).start()
        return asked(one, piece)

    monkeypatch.setattr(place._Place, "asked", killing)
    with here(four, [{}, {}]) as pool:
        assert _totals(four, pool) == EXPECTED
    assert killed


def test_what_is_killed_again_and_again_is_named_and_the_exit_code_says_so(
    four: Course, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = place._Place.asked
    monkeypatch.setattr(
        place._Place, "asked", lambda one, piece: None if piece.record.student == "b" else asked(one, piece)
    )
    with pytest.raises(SystemExit) as ended:
        main(course=four.root, jobs=2, unsafe=True, export=["canvas"])
    exported = four.root / "grades-canvas.csv"
    assert ended.value.code == 1 and "\nb,,,b,,,\n" in exported.read_text()
    exported.unlink()
    main(course=four.root, rebuild=True, export=["canvas"])
    assert "\nb,,,b,,,\n" in exported.read_text()
    assert f"killed and not graded: b {STEP}; the same command grades it" in capsys.readouterr().err
    assert "\na,5" in (four.root / "grades.csv").read_text()
    monkeypatch.undo()
    main(course=four.root, dry_run=True)
    assert "1 to grade" in capsys.readouterr().out
    main(course=four.root, jobs=2, unsafe=True)
    assert " 1/1 " in capsys.readouterr().out  # what is unchanged is no part of the progress
    assert _totals(four) == EXPECTED


def test_a_place_that_is_told_to_end_while_it_starts_leaves_nothing(four: Course) -> None:
    with tempfile.TemporaryDirectory() as folder:  # a short path: the kernel's sockets lie below it
        for seconds in (0.5, 2.0, 3.5):
            with place.Places(four, {"TMPDIR": folder}):
                time.sleep(seconds)
            assert [path.name for path in Path(folder).iterdir() if "gate" not in path.name] == []


WAITS = "def square(x):\n    import time\n    time.sleep(600)"
ENDS = {"done": None, **{name: signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGKILL")}}


@pytest.mark.parametrize("number", ENDS.values(), ids=ENDS)
def test_however_a_run_ends_no_process_and_no_file_is_left(
    four: Course, lab: NotebookNode, number: signal.Signals | None
) -> None:
    if number:
        hand_in(four, "a", code_of(solved(lab), "square", WAITS))
    command = [sys.executable, "-m", "solutions.grading", "--course", str(four.root), "--jobs", "2"]
    with tempfile.TemporaryDirectory() as folder:  # a short path: the kernel's sockets lie below it
        environment = {**os.environ, "TMPDIR": folder, "PYTHONPATH": str(ROOT)}
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        with subprocess.Popen(command, env=environment, preexec_fn=heed_signals, **streams) as run:
            if number:
                until(lambda: (four.autograded("c") / "grades" / f"{STEP}.json").is_file())
                run.send_signal(number)
            run.communicate()
        until(lambda: not [one for one in psutil.process_iter(["environ", "cmdline"]) if folder in str(one.info)])
        left = [path.name for path in Path(folder).iterdir() if "gate" not in path.name]
    assert left == [] or number == signal.SIGKILL  # what is in memory goes with it; a day later the folders do


def test_where_time_is_measured_places_start_only_when_none_waits(
    four: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, waiting = itertools.count(), []

    class Numbered:
        """A place that does nothing."""

        def __init__(self, *_: object) -> None:
            self.number = next(started)

        def asked(self, piece: Piece) -> Piece:
            waiting.append((self.number, *(one.number for one in ready)))
            return piece

        def end(self) -> None:
            """There is no process."""

    monkeypatch.setattr(place, "_Place", Numbered)
    with place.Places(four, ahead=2) as places:
        ready = places._waiting[False]
        for step in ("01_export", "02_fp16", "03_dynamic", "05_inference"):
            places.grade(Piece(four, StepRecord("a", step), b""))
        ready.clear()
        places._living.clear()
    assert waiting == [(0, 1, 2), (1, 2), (2, 3, 4), (3, 4, 5)]


def test_several_at_a_time_share_the_cores_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solutions.grading.work.pool.ENGINE", "cpu")
    monkeypatch.setattr(os, "sched_getaffinity", lambda number: set(range(8)))
    assert jobs_here(1) == [{}]
    assert jobs_here(3) == [{"OMP_NUM_THREADS": "2"}] * 3
    assert jobs_here(9) == [{"OMP_NUM_THREADS": "1"}] * 9


def test_only_who_measures_time_has_the_threads_of_the_whole_machine(
    four: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, limits = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), {}

    def asked(one: place._Place, piece: Piece) -> Piece:
        until(lambda: _kernels(one.process))
        limits[piece.record.step] = {tuple(map(kernel.get, names)) for kernel in _kernels(one.process)}
        return piece

    monkeypatch.setattr(place._Place, "asked", asked)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")  # as Dask's nanny does
    with place.Places(four, {"OMP_NUM_THREADS": "1"}) as places:
        for step in ("01_export", "02_fp16", "06_benchmark"):
            places.grade(Piece(four, StepRecord("a", step), b""))
    assert limits == {"01_export": {("1", "1")}, "02_fp16": {(None, None)}, "06_benchmark": {(None, None)}}


def test_whoever_wants_to_be_alone_waits_for_the_others_and_they_for_it(tmp_path: Path) -> None:
    gate, lines, leave = Gate(tmp_path / "gate"), [], threading.Event()

    def pass_through(name: str, alone: bool) -> None:
        with gate.passed(alone=alone):
            lines.append(f"{name} in")
            leave.wait(60)
            lines.append(f"{name} out")

    def somebody_waits() -> bool:
        with (tmp_path / "gate" / "entry").open() as entry:
            try:
                fcntl.flock(entry, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    a, alone, b = (
        threading.Thread(target=pass_through, args=each) for each in (("a", False), ("alone", True), ("b", False))
    )
    a.start()
    until(lambda: lines == ["a in"])
    alone.start()
    until(somebody_waits)
    b.start()
    time.sleep(0.2)  # in which b would overtake
    leave.set()
    for thread in (a, alone, b):
        thread.join()
    assert lines == ["a in", "a out", "alone in", "alone out", "b in", "b out"]  # b does not overtake


def test_a_copy_of_a_process_at_the_gate_keeps_nobody_waiting(tmp_path: Path) -> None:
    gate, passed = Gate(tmp_path / "gate"), threading.Event()

    def pass_alone() -> None:
        with gate.passed(alone=True):
            passed.set()

    with gate.passed(alone=False):
        copy = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
        copy.start()
    threading.Thread(target=pass_alone, daemon=True).start()
    assert passed.wait(20)
    copy.kill()
    copy.join()


def test_a_fault_of_the_course_ends_the_run(four: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object, piece: object) -> None:
        raise CourseError("the disk is full")

    monkeypatch.setattr(place.Places, "grade", broken)
    with here(four, [{}, {}]) as pool, pytest.raises(CourseError, match="the disk is full"):
        _totals(four, pool)


def test_where_submissions_would_see_each_other_one_has_its_turn_at_a_time(tmp_path: Path) -> None:
    gate, lines = Gate(tmp_path / "gate"), []

    def turn(name: str) -> None:
        with gate.turn():
            lines.append(name)
            time.sleep(0.05)
            lines.append(name)

    threads = [threading.Thread(target=turn, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lines[::2] == lines[1::2] and sorted(lines[::2]) == ["a", "b", "c"]
