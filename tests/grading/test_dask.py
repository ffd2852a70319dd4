"""A class on a scheduler and three workers of Dask, all processes of this machine."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from nbformat import NotebookNode

from helpers.errors import InputError
from solutions.grading.grade import grade_class
from solutions.grading.layout import ROOT
from solutions.grading.submissions import find_submissions
from solutions.grading.work.cluster import on_dask
from tests.grading.conftest import hand_in, make_course
from tests.grading.tiny import STEP, solved

pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("ignore")  # nbgrader's, nbformat's and Dask's own

EXPECTED = {"a": 5.0, "b": 3.0, "c": 2.0, "d": 0.0}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """The scheduler's address, and its three workers."""
    folder = tmp_path_factory.mktemp("dask")
    file = folder / "scheduler.json"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DASK_DISTRIBUTED__DIAGNOSTICS__NVML": "false"}
    quiet = {"env": environment, "cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    dask = [sys.executable, "-m", "distributed.cli"]
    processes = [
        subprocess.Popen(
            [*dask[:2], "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", file],
            **quiet,
        )
    ]
    options = ["--scheduler-file", file, "--nthreads", "1", "--no-dashboard", "--no-nanny", "--resources", "TIMING=1"]
    try:
        _until(file.is_file)
        for _ in range(3):
            processes.append(subprocess.Popen([*dask[:2], "distributed.cli.dask_worker", *options], **quiet))
        import json

        yield json.loads(file.read_text())["address"], processes[1:]
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait(20)


def _until(true: object, seconds: float = 60) -> None:
    ends = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.05)


def test_the_grades_are_the_same_although_a_worker_is_killed(
    cluster: tuple[str, list[subprocess.Popen[bytes]]], tmp_path: Path, lab: NotebookNode
) -> None:
    address, workers = cluster
    course, lines = make_course(tmp_path), []
    notebooks = {"a": solved(lab), "b": solved(lab, "square"), "c": solved(lab, "cube"), "d": lab}
    for student, notebook in notebooks.items():
        hand_in(course, student, notebook)

    def report(*line: str) -> None:
        lines.append(line)
        if len(lines) == 1:
            workers[0].send_signal(signal.SIGKILL)

    _until(lambda: _workers(address) == 3)
    with on_dask(address, course) as pool:
        assert pool.at_once == 3
        graded = grade_class(course, find_submissions(course, [STEP]), [STEP], report, pool=pool)
    assert {row.student: row.total for row in graded.students} == EXPECTED
    assert sorted(lines) == [(student, STEP, "graded") for student in EXPECTED]


def _workers(address: str) -> int:
    from distributed import Client

    with Client(address) as client:
        return len(client.scheduler_info(n_workers=-1)["workers"])


def test_where_nobody_answers_one_line_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no scheduler of Dask answers at tcp://127.0.0.1:9"):
        with on_dask("tcp://127.0.0.1:9", make_course(tmp_path), wait_s=1):
            pass
