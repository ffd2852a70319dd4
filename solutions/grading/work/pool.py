"""The pool that grades pieces of work: Dask, on threads of this process or on the workers of a scheduler.

Each piece gets a process of its own either way (place.py). Workers elsewhere need this project's code and must see the
course's folder. Steps that measure time go to workers with the resource TIMING; with real TensorRT all steps go to
workers with the resource GPU. Dask gives a worker no more pieces at a time than it has of the resource.
"""

import logging
import multiprocessing
import os
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any

from helpers.engine.backend import ENGINE
from solutions.grading.course import Course
from solutions.grading.faults import CourseError
from solutions.grading.layout import code_digest, settings
from solutions.grading.work.place import TIMED, Done, Piece, Places, grade
from solutions.sandbox import THREADS
from solutions.sandbox.groups import free_memory
from trtcpu.errors import InputError
from trtcpu.processor import cores

# Memory for one piece: the most that its kernel, its judge and the judge's child use together.
_MEMORY_BYTES = 6 << 30
_NEEDED = "GPU" if ENGINE == "tensorrt" else "TIMING"

# Yields the pieces of work on one student, one after the other, and is sent the result of each.
Work = Generator[Piece, Done, None]


@contextmanager
def chosen_pool(
    course: Course, jobs: int | None, scheduler: str, runner: Any, say: Callable[[str], None]
) -> Iterator["OnDask"]:
    """Give the pool: the workers of a scheduler or of a SLURM job's runner, else this machine; `say` how many work."""
    if runner:
        chosen = on_slurm(runner, course)
    else:
        chosen = on_dask(scheduler, course) if scheduler else here(course, jobs_here(jobs))
    with chosen as pool:
        where = "on Dask's workers, " if runner or scheduler else ""
        say(f"{where}{pool.at_once} at a time" if where or pool.at_once > 1 else "one at a time")
        yield pool


class _Here:
    """Does each piece in this process as soon as it is submitted."""

    at_once = 1

    def submit(self, piece: Piece) -> "Future[Done]":
        done: Future[Done] = Future()
        try:
            done.set_result(grade(piece))
        except Exception as error:  # raised by result()
            done.set_exception(error)
        return done


HERE = _Here()


class OnDask:
    """Does pieces on the workers of a scheduler; `at_once` is how many students are worked on at a time.

    Args:
        client: a `distributed.Client`.
        course: the course; its folder must have the same path on all workers.
        jobs: the variables that the places of each worker get; workers of this process are numbered.

    Raises:
        InputError: no worker can take a piece; the message says what is missing.
    """

    def __init__(self, client: Any, course: Course, jobs: Sequence[Mapping[str, str]] = ()) -> None:
        workers = _checked(client, course)
        self.at_once = sum(about["nthreads"] for about in workers.values())
        limit = {} if ENGINE == "tensorrt" else {THREADS[0]: "1"}  # of what others are beside; Dask limits all to it
        self._variables = [settings() | one for one in [*jobs] or [limit]]
        self._timing = client.get_executor(resources={_NEEDED: 1}, pure=False)
        self._anywhere = self._timing if ENGINE == "tensorrt" else client.get_executor(pure=False)

    def submit(self, piece: Piece) -> "Future[Done]":
        """Start a piece on a worker that may do it."""
        where = self._timing if piece.record.step in TIMED else self._anywhere
        return where.submit(_graded, piece, self._variables)


Pool = OnDask | _Here


@contextmanager
def on_dask(scheduler: str, course: Course, *, wait_s: float = 10) -> Iterator[OnDask]:
    """Give the pool of a scheduler, such as tcp://node1:8786, which must answer within `wait_s` seconds.

    Raises:
        InputError: nobody answers there, or no worker can take a piece.
    """
    from distributed import Client

    try:
        client = Client(scheduler, timeout=wait_s)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(f"no scheduler of Dask answers at {scheduler}: {error}") from error
    with client:
        yield from _worked(client, course)


@contextmanager
def here(course: Course, jobs: Sequence[Mapping[str, str]]) -> Iterator[OnDask]:
    """Give a pool of threads in this process, one a job; nothing listens, so nobody else can reach them."""
    import dask
    from distributed import Client, LocalCluster

    size = {"n_workers": len(jobs), "threads_per_worker": 1, "resources": {_NEEDED: 1}}
    with ExitStack() as stack:
        own = stack.enter_context(tempfile.TemporaryDirectory(prefix="trt-lab-"))
        stack.enter_context(dask.config.set({"temporary-directory": own}))  # the scheduler writes there too
        alone = {"processes": False, "dashboard_address": None, "memory_limit": None}
        _silence()
        cluster = stack.enter_context(LocalCluster(**size, **alone))
        yield from _worked(stack.enter_context(Client(cluster)), course, jobs)


def _silence() -> None:
    """Drop what Dask and its event loop log, even after the cluster is closed: a piece's answer says how it ended."""
    for name in ("distributed", "distributed.client", "tornado", "tornado.application", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [logging.NullHandler()], False


@contextmanager
def slurm_task(course: Course) -> Iterator[Any]:
    """Be one task of a SLURM job: the first is the scheduler, the second grades, all others are workers.

    Only the second enters the block, with the runner that `on_slurm` takes.

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
            """Read it once it is written: the base class would also read the file while it is still empty."""
            return str(json_load_robust(self.scheduler_file)["address"])

    options = {"nthreads": 1, "resources": {_NEEDED: 1}}
    place = course.root / f".dask-{os.environ['SLURM_JOB_ID']}.json"
    with ExitStack() as stack:
        stack.callback(place.unlink, missing_ok=True)
        yield stack.enter_context(Runner(scheduler_file=str(place), worker_options=options))


@contextmanager
def on_slurm(runner: Any, course: Course) -> Iterator[OnDask]:
    """Give the pool of this SLURM job's workers."""
    from distributed import Client

    with Client(runner) as client:
        client.wait_for_workers(runner.n_workers)
        yield from _worked(client, course)


def _worked(client: Any, course: Course, jobs: Sequence[Mapping[str, str]] = ()) -> Iterator[OnDask]:
    """Yield the pool. First end what workers still do for a killed run; in the end, what is left of this one."""
    root = str(course.root)
    client.run(_end_places, root)
    try:
        yield OnDask(client, course, jobs)
    finally:
        if client.status == "running":  # else the scheduler is gone
            client.run(_end_places, root)


def _checked(client: Any, course: Course) -> dict[str, Any]:
    """Return the workers. Each must have our code, see the course and be allowed children; one must be able to time."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    if not any(about["resources"].get(_NEEDED) for about in workers.values()):
        there = f"{len(workers)} workers without it" if workers else "no worker"
        raise InputError(f"there is {there}: start one with  dask worker ADDRESS --resources {_NEEDED}=1")
    notebook = str(course.source(course.present[0]))
    for address, found in client.run(_seen, notebook).items():
        if found[:2] != _seen(notebook)[:2]:
            what = f"does not see {notebook}" if not found[1] else "has other code than this process"
            raise InputError(f"the worker {address} {what}; all must share one folder and one version")
        if found[2]:
            raise InputError(f"the worker {address} may start no process: set DASK_DISTRIBUTED__WORKER__DAEMON=false")
    return workers


def _seen(notebook: str) -> tuple[str, bool, bool]:
    return code_digest(), Path(notebook).is_file(), multiprocessing.current_process().daemon


def _graded(piece: Piece, variables: list[dict[str, str]]) -> Done:
    """Grade a piece on a worker, in a process of its own."""
    from distributed import get_worker

    try:
        return _places(piece.course, variables[get_worker().name if len(variables) > 1 else 0]).grade(piece)
    except Exception as error:
        raise type(error)(str(error)) from None  # its cause may be something that cannot be sent


# The places of this process, by course and variables.
_PLACES: dict[tuple[str, ...], Places] = {}
_PLACES_LOCK = Lock()


def _end_places(root: str) -> None:
    """End this worker's places of a course."""
    for key in [key for key in _PLACES if key[0] == root]:
        _PLACES.pop(key).__exit__()


def _places(course: Course, variables: dict[str, str]) -> Places:
    key = (str(course.root), *(f"{name}={variables[name]}" for name in sorted(variables)))
    with _PLACES_LOCK:
        if key not in _PLACES:
            _PLACES[key] = Places(course, variables).__enter__()
        return _PLACES[key]


def jobs_here(number: int | None = None) -> list[dict[str, str]]:
    """Return the variables for each job on this machine.

    By default there is one job a GPU with real TensorRT, else one a core as far as the memory goes. Several jobs divide
    the cores among them: if each had a thread on every core, threads that wait for a busy core would spin.
    """
    if ENGINE == "tensorrt":
        import torch

        seen = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
        devices = seen or [str(index) for index in range(torch.cuda.device_count())]
        count = number or max(1, len(devices))
        return [{"CUDA_VISIBLE_DEVICES": devices[index % len(devices)]} if devices else {} for index in range(count)]
    fit = int(free_memory() // _MEMORY_BYTES)
    count = number or max(1, min(cores(), fit))
    threads = {} if count == 1 else {THREADS[0]: str(max(1, cores() // count))}
    return [threads for _ in range(count)]


def drive(works: Iterable[Work], pool: Pool) -> None:
    """Do all pieces of all students in the pool.

    Raises:
        CourseError: a piece raised it, or the scheduler has gone. No other piece is started then.
    """
    waiting, under_way = iter(works), {}

    def go_on(work: Work, done: Any = None) -> None:
        with suppress(StopIteration):
            piece = work.send(done)
            under_way[pool.submit(piece)] = work, piece

    try:
        while True:
            while len(under_way) < pool.at_once and (work := next(waiting, None)) is not None:
                go_on(work)
            if not under_way:
                return
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                work, piece = under_way.pop(future)
                go_on(work, _result(future, piece))
    except BaseException:
        for future in under_way:  # the pool ends those that have started
            future.cancel()
        raise


def _result(future: "Future[Done]", piece: Piece) -> Done:
    """Return the result of a piece. If its workers died it is refused, as if its process had."""
    from distributed import KilledWorker

    try:
        return future.result()
    except KilledWorker as error:
        why = f"{error.allowed_failures + 1} workers that graded it died: look at memory"
        return Done(piece.record, why, killed=True)
    except CancelledError:
        raise CourseError("Dask's scheduler is gone; what was graded stays: run the command again") from None
