"""Pieces of work in places beside each other, here or on Dask's workers, and the gate that all of them pass.

The grades are the same as one after the other, whatever is killed.
"""

import fcntl
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import MagicMock, Mock

import psutil
import pytest
from distributed import KilledWorker
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from solutions.grading.__main__ import main
from solutions.grading.course import Course
from solutions.grading.execute import GradeExecute
from solutions.grading.exports import write_export
from solutions.grading.faults import CourseError
from solutions.grading.layout import ROOT
from solutions.grading.locks import Gate
from solutions.grading.step_record import GRADED, StepRecord
from solutions.grading.work import place
from solutions.grading.work.place import Piece
from solutions.grading.work.pool import OnDask, Work, drive, here, jobs_here, on_dask
from tests.faults.course import Run
from tests.grading.conftest import graded_class, hand_in, make_course
from tests.grading.dask_cluster import cluster
from tests.grading.tiny import STEP, code_of, solved
from trtcpu.errors import InputError

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # nbgrader's, nbformat's and Dask's own

EXPECTED = {"a": 5.0, "b": 3.0, "c": 2.0, "d": 0.0}


@pytest.fixture
def four(tmp_path: Path, lab: NotebookNode) -> Course:
    """A course with four submissions."""
    course = make_course(tmp_path)
    notebooks = {"a": solved(lab), "b": solved(lab, "square"), "c": solved(lab, "cube"), "d": lab}
    for student, notebook in notebooks.items():
        hand_in(course, student, notebook)
    return course


def _totals(course: Course, **how: Any) -> dict[str, float]:
    return {row.student: row.total for row in graded_class(course, **how).students}


def until(true: Callable[[], object], seconds: float = 60) -> None:
    """Wait until something is true."""
    ends = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < ends, f"not so within {seconds:g} s"
        time.sleep(0.05)


def _below(pid: int, command: str) -> list[dict[str, Any]]:
    """The processes with such a command below one, but those that end while they are looked at."""
    below = []
    for process in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            below.append(process.as_dict(["pid", "cmdline", "environ"]))
    return [one for one in below if one["environ"] and command in " ".join(one["cmdline"])]


def _taken(lock: Path) -> bool:
    with lock.open() as file, suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    return True


def test_two_beside_each_other_give_the_same_grades_although_a_place_is_killed(
    four: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, killed = place._Place.asked, []

    def killing(one: place._Place, piece: Piece) -> object:
        if not killed:
            killed.append(one.process.kill())
        return asked(one, piece)

    monkeypatch.setattr(place._Place, "asked", killing)
    with here(four, [{}, {}]) as pool:
        assert _totals(four, pool=pool) == EXPECTED and killed
        assert all(four.feedback_page(student, STEP).is_file() for student in EXPECTED)
        monkeypatch.setattr(place._Place, "asked", pytest.fail)
        assert _totals(four, pool=pool) == EXPECTED, "nothing is graded again"


def test_a_place_and_its_judge_are_copies_of_a_process_with_their_imports(four: Course) -> None:
    with place.Places(four) as places:
        (process,) = (one.process for one in places._waiting[False])
        until(lambda: _below(process.pid, "ipykernel_launcher"))
        server = psutil.Process(process.pid).parent()
        copies = [one["pid"] for one in _below(server.pid, " ".join(server.cmdline()))]
        assert process.pid in copies and len(copies) == 2
    until(lambda: not any(map(psutil.pid_exists, copies)))


def test_a_step_whose_check_fails_says_why_and_no_zero_is_exported(four: Course) -> None:
    four.config.GradeExecute.judge = "tests.grading.no_such_judge"
    with here(four, [{}, {}]) as pool:
        result = graded_class(four, pool=pool)
    student = result.students[0]
    assert re.search("tell your instructor.*no_such_judge", student.notes[0])
    assert student.ungraded == [STEP] and not result.fault
    assert write_export("canvas", four, result, [])[0].read_text().splitlines()[2] == "a,,,a,,"


@pytest.mark.parametrize("failing", ["import no_such_package", "raise PermissionError(13, 'denied')"])
def test_where_no_notebook_could_import_what_it_needs_nothing_is_graded(
    four: Course, failing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = four.root / "nbgrader_config.py"
    config.write_text(config.read_text() + f"c.GradeExecute.imports = {failing!r}\n")
    with pytest.raises(SystemExit) as ended:
        main(course=four.root, jobs=2, unsafe=True)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert re.fullmatch(r"error: notebooks cannot import what they need .*(no_such_package|denied).*\n", said)
    assert not (four.root / "grades.csv").exists()


def test_what_is_killed_again_and_again_is_named_and_the_exit_code_says_so(
    four: Course, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = place._Place.asked
    with monkeypatch.context() as patched:
        patched.setattr(
            place._Place, "asked", lambda one, piece: None if piece.record.student == "b" else asked(one, piece)
        )
        with pytest.raises(SystemExit) as ended:
            main(course=four.root, jobs=2, unsafe=True, export=["canvas"])
    assert ended.value.code == 1 and "\nb,,,b,,\n" in (four.root / "grades-canvas.csv").read_text()
    assert f"killed and not graded: b {STEP}; the same command grades it" in capsys.readouterr().err
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
            assert _left(folder) == []


def _left(folder: str) -> list[str]:
    return [path.name for path in Path(folder).iterdir() if "gate" not in path.name]


WAITS = "def square(x):\n    import time\n    time.sleep(600)"
ENDS = {"done": None, **{name: signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGKILL")}}


@pytest.mark.parametrize("number", ENDS.values(), ids=ENDS)
def test_however_a_run_ends_no_process_and_no_file_is_left(
    four: Course, lab: NotebookNode, number: signal.Signals | None
) -> None:
    if number:
        hand_in(four, "a", code_of(solved(lab), "square", WAITS))
    with tempfile.TemporaryDirectory() as folder:  # a short path: the kernel's sockets lie below it
        with Run(four.root, "--jobs", "2", TMPDIR=folder) as run:
            if number:
                run.until(" · graded").send_signal(number)
        until(lambda: not [one for one in psutil.process_iter(["environ", "cmdline"]) if folder in str(one.info)])
        left = [] if number == signal.SIGKILL else _left(folder)  # what is in memory goes; a day later the folders do
        assert left == [], run.err.read_text()


def test_where_time_is_measured_places_start_only_when_none_waits(
    four: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[int] = []
    answering = Mock(asked=lambda piece: waiting.append(len(places._waiting[False])) or Mock())
    monkeypatch.setattr(place, "_Place", lambda *_: Mock(wraps=answering))
    with place.Places(four, ahead=2) as places:
        for step in ("01_export", "02_fp16", "03_dynamic", "05_inference"):
            places.grade(Piece(four, StepRecord("a", step), b""))
    assert waiting == [2, 1, 2, 2]


def test_several_at_a_time_share_the_cores_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solutions.grading.work.pool.ENGINE", "cpu")
    monkeypatch.setattr(os, "sched_getaffinity", lambda number: set(range(8)))
    threads = {1: {}, 3: {"OMP_NUM_THREADS": "2"}, 9: {"OMP_NUM_THREADS": "1"}}
    assert {number: jobs_here(number) for number in threads} == {
        number: [one] * number for number, one in threads.items()
    }


def test_only_who_measures_time_has_the_threads_of_the_whole_machine(
    four: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, limits = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), {}

    def asked(one: place._Place, piece: Piece) -> Piece:
        until(lambda: _below(one.process.pid, "ipykernel_launcher"))
        kernels = _below(one.process.pid, "ipykernel_launcher")  # and the sandbox around it
        limits[piece.record.step] = {tuple(map(kernel["environ"].get, names)) for kernel in kernels}
        return piece

    monkeypatch.setattr(place._Place, "asked", asked)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")  # as Dask's nanny does
    with place.Places(four, {"OMP_NUM_THREADS": "1"}) as places:
        for step in ("01_export", "02_fp16", "06_benchmark"):
            places.grade(Piece(four, StepRecord("a", step), b""))
    assert limits == {"01_export": {("1", "1")}, "02_fp16": {(None, None)}, "06_benchmark": {(None, None)}}


def test_a_fault_of_the_course_ends_the_run(four: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place.Places, "grade", Mock(side_effect=CourseError("the disk is full")))
    with here(four, [{}, {}]) as pool, pytest.raises(CourseError, match="the disk is full"):
        graded_class(four, pool=pool)


def test_whoever_wants_to_be_alone_waits_for_the_others_and_they_for_it(tmp_path: Path) -> None:
    gate, lines, leave = Gate(tmp_path / "gate"), [], Event()

    def pass_through(name: str, *, alone: bool) -> None:
        with gate.passed(alone=alone):
            lines.append(f"{name} in")
            leave.wait(60)
            lines.append(f"{name} out")

    with ThreadPoolExecutor() as threads:
        threads.submit(pass_through, "a", alone=False)
        until(lambda: lines)
        threads.submit(pass_through, "alone", alone=True)
        until(lambda: _taken(tmp_path / "gate" / "entry"))
        threads.submit(pass_through, "b", alone=False)
        time.sleep(0.2)  # in which b would overtake
        leave.set()
    assert lines == ["a in", "a out", "alone in", "alone out", "b in", "b out"]


def test_a_copy_of_a_process_at_the_gate_keeps_nobody_waiting(tmp_path: Path) -> None:
    with Gate(tmp_path / "gate").passed(alone=False):
        copy = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
        copy.start()
    assert copy.is_alive() and not any(map(_taken, (tmp_path / "gate").iterdir()))
    copy.kill()
    copy.join()


def test_where_submissions_would_see_each_other_one_has_its_turn_at_a_time(tmp_path: Path) -> None:
    gate, lines = Gate(tmp_path / "gate"), []

    def turn(name: str) -> None:
        with gate.turn():
            lines.append(name)
            time.sleep(0.05)
            lines.append(name)

    with ThreadPoolExecutor() as threads:
        threads.map(turn, "abc")
    assert lines[::2] == lines[1::2] and sorted(lines[::2]) == ["a", "b", "c"]


def test_a_kernel_whose_cell_waits_at_the_gate_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    outer, executor = MagicMock(), GradeExecute()
    monkeypatch.setattr(GradeExecute, "_graded", outer.graded)
    executor.km, executor._gate, executor._timed = outer, outer.gate, {3}
    executor._ends = executor._alone_left = 0.0
    executor.preprocess_cell(new_code_cell(), {}, 3)
    outer.gate.passed.assert_called_once_with(alone=True)
    moments = [name.rpartition(".")[0] for name, *_ in outer.mock_calls if name.endswith(("_enter__", "_exit__"))]
    assert moments == ["watch.paused()", "gate.passed()", "watch.paused()", "gate.passed()"]


def test_feedback_is_written_only_while_nobody_measures_time(monkeypatch: pytest.MonkeyPatch) -> None:
    outer = MagicMock()
    monkeypatch.setattr(place, "Gate", outer.gate)
    assert place.write_feedback(outer.course, "ada", "01_export") == []
    outer.gate().passed.assert_called_once_with(alone=False)
    moments = [name for name, *_ in outer.mock_calls]
    inside = moments[moments.index("gate().passed().__enter__") + 1 : moments.index("gate().passed().__exit__")]
    assert inside == ["course.feedback"]


def test_a_killed_worker_of_dask_costs_nothing_and_a_scheduler_that_is_gone_is_one_line(
    four: Course, lab: NotebookNode, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with (
        cluster(tmp_path_factory.mktemp("dask"), 3) as (address, (scheduler, worker, *_)),
        on_dask(address, four, wait_s=3) as pool,
    ):
        assert pool.at_once == 3
        assert _totals(four, report=lambda *line: worker.kill(), pool=pool) == EXPECTED
        for student in EXPECTED:
            hand_in(four, student, code_of(lab, "square", WAITS))
        hand_in(four, "a", solved(lab, "cube"))
        with pytest.raises(CourseError, match="Dask's scheduler is gone"):
            graded_class(four, lambda *line: scheduler.kill(), pool)
    record = StepRecord.read(four.autograded("a"), "a", STEP)
    assert (record.state, record.given["simplify_model"]) == (GRADED, 2), "what was graded stays"


def test_a_piece_whose_workers_die_is_refused_and_ends_nobody_elses(four: Course) -> None:
    died: Future[object] = Future()
    died.set_exception(KilledWorker("task", None, 3))
    worker = {"resources": {"TIMING": 1, "GPU": 1}, "nthreads": 1}
    client = Mock(**{"scheduler_info.return_value": {"workers": {"w": worker}}, "run.return_value": {}})
    client.get_executor.return_value.submit.return_value = died
    answers = []

    def work() -> Work:
        answers.append((yield Piece(four, StepRecord("a", STEP), b"")))

    drive([work()], OnDask(client, four))
    [done] = answers
    assert done.killed and done.refused == "4 workers that graded it died: look at memory"


def test_where_nobody_answers_one_line_says_so(four: Course) -> None:
    with pytest.raises(InputError, match="no scheduler of Dask answers at tcp://127.0.0.1:9"):
        with on_dask("tcp://127.0.0.1:9", four, wait_s=1):
            pass


def test_the_tasks_of_a_slurm_job_grade_a_class(four: Course) -> None:
    pytest.importorskip("dask_jobqueue")
    command = [sys.executable, "-m", "solutions.grading", "--course", str(four.root), "--slurm"]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    tasks = []
    for number in range(3):
        job = {"SLURM_JOB_ID": "4711", "SLURM_NTASKS": "3", "SLURM_PROCID": str(number), "PYTHONPATH": str(ROOT)}
        tasks.append(subprocess.Popen(command, cwd=ROOT, env={**os.environ, **job}, **streams))
    try:
        said = [task.communicate(timeout=300)[0] for task in tasks]
    finally:
        for task in tasks:
            task.kill()
    assert [task.returncode for task in tasks] == [0, 0, 0], said
    assert "on Dask's workers, 1 at a time" in said[1] and "graded" not in said[0] + said[2]
    grades = (four.root / "grades.csv").read_text()
    assert "\na,5" in grades and "\nb,3" in grades
    assert not list(four.root.glob(".dask-*"))
