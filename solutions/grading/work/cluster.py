"""Pieces of work on Dask's workers: any `dask worker` that has this project's code and sees the course's folder.

Steps that measure time go to workers with the resource TIMING, on real TensorRT all steps to those with GPU; Dask gives
a worker as many at once as it has of it.
"""

import os
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from helpers.course.steps import CELLS
from helpers.engine.backend import ENGINE
from solutions.grading.course import Course
from solutions.grading.faults import CourseError
from solutions.grading.journal import SETTINGS, code_digest
from solutions.grading.work.piece import Done, Piece
from solutions.grading.work.place import Places
from solutions.sandbox import THREADS
from trtcpu.errors import InputError

_RETRIES = 3
"""Of a piece whose worker is gone."""

_MISSING = "Dask is not installed here; install it with  pip install -e '.[dask]'"


class OnDask:
    """Does pieces on the workers of a scheduler.

    Args:
        client: a `distributed.Client`.
        course: the course; its folder must be at the same path on all workers.

    Raises:
        InputError: no worker can take a piece; the message says what lacks.
    """

    def __init__(self, client: Any, course: Course) -> None:
        needed = "GPU" if ENGINE == "tensorrt" else "TIMING"
        workers = _checked(client, course, needed)
        self.at_once = sum(about["nthreads"] for about in workers.values())
        self._settings = {name: os.environ[name] for name in SETTINGS if name in os.environ}
        kept = {"pure": False, "retries": _RETRIES}
        self._timing = client.get_executor(resources={needed: 1}, **kept)
        self._anywhere = self._timing if ENGINE == "tensorrt" else client.get_executor(**kept)

    def submit(self, piece: Piece) -> "Future[Done]":
        """Begin a piece on a worker that may do it."""
        timed = any(cell.timed for cell in CELLS.values() if cell.step == piece.record.step)
        there = (self._timing if timed else self._anywhere).submit(_graded, piece, self._settings)
        here: Future[Done] = Future()
        there.add_done_callback(lambda found: _pass_on(found, here, piece))
        here.add_done_callback(lambda found: found.cancelled() and there.cancel())
        return here


def _pass_on(there: "Future[Done]", here: "Future[Done]", piece: Piece) -> None:
    """Let who waits know what became of a piece; one whose workers died is refused, like one whose process did."""
    from distributed import KilledWorker

    with suppress(InvalidStateError):  # nobody waits any more
        try:
            here.set_result(there.result())
        except KilledWorker as error:
            why = f"{error.allowed_failures + 1} workers that graded it died: look at memory"
            here.set_result(Done(piece.record, why, killed=True))
        except CancelledError:
            here.set_exception(CourseError("Dask's scheduler is gone; what was graded stays: run the command again"))
        except Exception as error:
            here.set_exception(error)


@contextmanager
def on_dask(address: str, course: Course, *, wait_s: float = 10) -> Iterator[OnDask]:
    """Work on the workers of the scheduler at `address`, such as tcp://node1:8786, which must answer in `wait_s`.

    Raises:
        InputError: Dask is not installed, nobody answers there, or no worker can take a piece.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise InputError(_MISSING) from error
    try:
        client = Client(address, timeout=wait_s)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(f"no scheduler of Dask answers at {address}: {error}") from error
    with client:
        yield from _worked(client, course)


@contextmanager
def slurm_task(course: Course) -> Iterator[Any]:
    """Be this task of a SLURM job: the first is the scheduler, the second grades, in the block, the others are workers.

    Only the second comes back, with the runner that `on_slurm` takes.

    Raises:
        InputError: dask-jobqueue is not installed, or this is no task of a SLURM job with at least three.
    """
    try:
        from dask_jobqueue.slurm import SLURMRunner
        from distributed.utils import json_load_robust
    except ImportError as error:
        raise InputError("dask-jobqueue is not installed here; install it with  pip install -e '.[slurm]'") from error
    if int(os.environ.get("SLURM_NTASKS", "0")) < 3:
        found = os.environ.get("SLURM_NTASKS", "no SLURM job")
        raise InputError(f"--slurm runs under srun with 3 tasks or more (scheduler, this, workers); found {found}")

    class Runner(SLURMRunner):
        async def get_scheduler_address(self) -> str:
            """Read it once it is written: the base reads the file as soon as it is there, empty or not."""
            return str(json_load_robust(self.scheduler_file)["address"])

    options = {"nthreads": 1, "resources": {"GPU" if ENGINE == "tensorrt" else "TIMING": 1}}
    place = course.root / f".dask-{os.environ['SLURM_JOB_ID']}.json"
    with ExitStack() as stack:
        stack.callback(place.unlink, missing_ok=True)
        yield stack.enter_context(Runner(scheduler_file=str(place), worker_options=options))


@contextmanager
def on_slurm(runner: Any, course: Course) -> Iterator[OnDask]:
    """Work on the other tasks of this SLURM job."""
    from distributed import Client

    with Client(runner) as client:
        client.wait_for_workers(runner.n_workers)
        yield from _worked(client, course)


def _worked(client: Any, course: Course) -> Iterator[OnDask]:
    """Yield the pool; end what workers still do for this course before, of a run that was killed, and afterwards."""
    root = str(course.root)
    client.run(_end_places, root)
    try:
        yield OnDask(client, course)
    finally:
        if client.status == "running":  # the scheduler is still there
            client.run(_end_places, root)


def _checked(client: Any, course: Course, needed: str) -> dict[str, Any]:
    """Return the workers; each must have our code and see the course, and one the resource that is needed."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    if not any(about["resources"].get(needed) for about in workers.values()):
        there = f"{len(workers)} workers without it" if workers else "no worker"
        raise InputError(f"there is {there}: start one with  dask worker ADDRESS --resources {needed}=1")
    notebook = str(course.source(course.present[0]))
    for address, found in client.run(_seen, notebook).items():
        if found != _seen(notebook):
            what = f"does not see {notebook}" if not found[1] else "has other code than this process"
            raise InputError(f"the worker {address} {what}; all must share one folder and one version")
    return workers


def _seen(notebook: str) -> tuple[str, bool]:
    return code_digest(), Path(notebook).is_file()


def _graded(piece: Piece, settings: dict[str, str]) -> Done:
    """Grade a piece on a worker, in a place of its own."""
    try:
        return _places(piece.course, settings).grade(piece)
    except Exception as error:
        raise type(error)(str(error)) from None  # what it came from may be something that cannot be sent


_PLACES: dict[tuple[str, ...], Places] = {}
"""This worker's, by course and settings; they end with its process."""


def _end_places(root: str) -> None:
    """End this worker's places of a course."""
    for key in [key for key in _PLACES if key[0] == root]:
        _PLACES.pop(key).__exit__()


def _places(course: Course, settings: dict[str, str]) -> Places:
    key = (str(course.root), *(f"{name}={settings[name]}" for name in sorted(settings)))
    if key not in _PLACES:
        limit = {} if ENGINE == "tensorrt" else {THREADS[0]: "1"}  # of what others are beside; Dask limits all to it
        _PLACES[key] = Places(course, settings | limit).__enter__()
    return _PLACES[key]
