"""A class on a scheduler and three workers of Dask, all processes of this machine."""

import os
import signal
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path

import pytest
from nbformat import NotebookNode

from solutions.grading.faults import CourseError
from solutions.grading.grade import grade_class
from solutions.grading.layout import ROOT
from solutions.grading.step_record import GRADED, StepRecord
from solutions.grading.submissions import find_submissions
from solutions.grading.work.place import Piece
from solutions.grading.work.pool import OnDask, on_dask
from tests.grading.conftest import hand_in, make_course
from tests.grading.dask_cluster import cluster
from tests.grading.tiny import STEP, solved
from trtcpu.errors import InputError

KilledWorker = pytest.importorskip("distributed").KilledWorker
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # nbgrader's, nbformat's and Dask's own

EXPECTED = {"a": 5.0, "b": 3.0, "c": 2.0, "d": 0.0}


def test_the_grades_are_the_same_although_a_worker_is_killed(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, lab: NotebookNode
) -> None:
    course, lines = make_course(tmp_path), []
    notebooks = {"a": solved(lab), "b": solved(lab, "square"), "c": solved(lab, "cube"), "d": lab}
    for student, notebook in notebooks.items():
        hand_in(course, student, notebook)

    def report(*line: str) -> None:
        lines.append(line)
        if len(lines) == 1:
            dask.workers[0].send_signal(signal.SIGKILL)

    with cluster(tmp_path_factory.mktemp("dask"), {}, {}, {}) as dask, on_dask(dask.address, course) as pool:
        assert pool.at_once == 3
        graded = grade_class(course, find_submissions(course, [STEP]), [STEP], report, pool=pool)
    assert {row.student: row.total for row in graded.students} == EXPECTED
    assert sorted(lines) == [(student, STEP, "graded") for student in EXPECTED]


def test_a_scheduler_that_is_gone_is_one_line_and_what_was_graded_stays(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, lab: NotebookNode
) -> None:
    course = make_course(tmp_path)
    for student in ("a", "b"):
        hand_in(course, student, solved(lab))

    def report(*line: str) -> None:
        dask.scheduler.kill()

    with pytest.raises(CourseError, match="Dask's scheduler is gone"):
        with cluster(tmp_path_factory.mktemp("dask"), {}) as dask, on_dask(dask.address, course, wait_s=3) as pool:
            grade_class(course, find_submissions(course, [STEP]), [STEP], report, pool=pool)
    assert StepRecord.read(course.autograded("a"), "a", STEP).state == GRADED


class _Client:
    """A client whose one worker dies of each piece."""

    def scheduler_info(self, n_workers: int) -> dict:
        return {"workers": {"w": {"resources": {"TIMING": 1, "GPU": 1}, "nthreads": 1}}}

    def run(self, *asked: object) -> dict:
        return {}

    def get_executor(self, **options: object) -> "_Client":
        return self

    def submit(self, *piece: object) -> Future:
        future: Future = Future()
        future.set_exception(KilledWorker("task", None, 3))
        return future


def test_a_piece_whose_workers_die_is_refused_and_ends_nobody_elses(tmp_path: Path) -> None:
    course = make_course(tmp_path)
    done = OnDask(_Client(), course).submit(Piece(course, StepRecord("a", STEP), b"")).result(1)
    assert done.killed and done.refused == "4 workers that graded it died: look at memory"


def test_where_nobody_answers_one_line_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no scheduler of Dask answers at tcp://127.0.0.1:9"):
        with on_dask("tcp://127.0.0.1:9", make_course(tmp_path), wait_s=1):
            pass


def test_the_tasks_of_a_slurm_job_grade_a_class(tmp_path: Path, lab: NotebookNode) -> None:
    """Three processes with the variables that SLURM gives its tasks."""
    pytest.importorskip("dask_jobqueue")
    course = make_course(tmp_path)
    for student, notebook in {"a": solved(lab), "b": solved(lab, "square")}.items():
        hand_in(course, student, notebook)
    command = [sys.executable, "-m", "solutions.grading", "--course", str(course.root), "--slurm"]
    tasks = []
    for number in range(3):
        job = {"SLURM_JOB_ID": "4711", "SLURM_NTASKS": "3", "SLURM_PROCID": str(number), "PYTHONPATH": str(ROOT)}
        with (tmp_path / f"task{number}.log").open("wb") as log:
            tasks.append(subprocess.Popen(command, cwd=ROOT, env={**os.environ, **job}, stdout=log, stderr=log))
    try:
        codes = [task.wait(120) for task in tasks]
    finally:
        for task in tasks:
            task.kill()
    said = [(tmp_path / f"task{number}.log").read_text() for number in range(3)]
    assert codes == [0, 0, 0], said
    assert "on Dask's workers, 1 at a time" in said[1] and "graded" not in said[0] + said[2]
    grades = (course.root / "grades.csv").read_text()
    assert "\na,5" in grades and "\nb,3" in grades
    assert not list(course.root.glob(".dask-*"))
