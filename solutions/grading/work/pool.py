"""Where pieces of work are done: here one after the other, in places beside each other, or on Dask's workers."""

import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from queue import SimpleQueue
from typing import Any, Protocol

from helpers.engine.backend import ENGINE
from solutions.grading.course import Course
from solutions.grading.grades import StudentGrades
from solutions.grading.work.piece import Done, Piece, grade
from solutions.grading.work.place import Places
from solutions.sandbox import THREADS
from solutions.sandbox.groups import free_memory

_MEMORY_BYTES = 6 << 30
"""Of a piece: what its kernel, its judge and the judge's child hold together at most."""

Work = Generator[Piece, Done, StudentGrades]
"""Yields the pieces of work on one student, one after the other, and is sent what became of each."""


class Pool(Protocol):
    """Does pieces of work."""

    at_once: int
    """How many students are worked on at a time."""

    def submit(self, piece: Piece) -> "Future[Done]":
        """Begin a piece."""


class _Here:
    """Does each piece in this process, when it is submitted."""

    at_once = 1

    def submit(self, piece: Piece) -> "Future[Done]":
        done: Future[Done] = Future()
        try:
            done.set_result(grade(piece))
        except Exception as error:  # raised where the result is asked for
            done.set_exception(error)
        return done


HERE = _Here()


class Beside:
    """Does pieces beside each other, each in a process started ahead; used as a context manager.

    Args:
        course: whose pieces they will be.
        jobs: for each piece that is done at a time, the variables that its process has besides this one's.
    """

    def __init__(self, course: Course, jobs: Sequence[Mapping[str, str]]) -> None:
        self.at_once = len(jobs)
        self._places = [Places(course, one) for one in _distinct(jobs)]
        self._free: SimpleQueue[Places] = SimpleQueue()
        for one in jobs:
            self._free.put(self._places[_distinct(jobs).index(dict(one))])
        self._threads = ThreadPoolExecutor(len(jobs), "place")

    def __enter__(self) -> "Beside":
        for places in self._places:
            places.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        for places in self._places:
            places.__exit__()  # what is still graded is not wanted any more
        self._threads.shutdown()

    def submit(self, piece: Piece) -> "Future[Done]":
        """Begin a piece in the next free place."""
        return self._threads.submit(self._graded, piece)

    def _graded(self, piece: Piece) -> Done:
        places = self._free.get()
        try:
            return places.grade(piece)
        finally:
            self._free.put(places)


def jobs_here(number: int | None = None) -> list[dict[str, str]]:
    """Return the variables of so many jobs on this machine.

    Without a number: on real TensorRT one a GPU; else one a core, as far as the memory goes, and several share the
    cores out: were each to have a thread on all of them, threads that wait for a taken core would spin.
    """
    if ENGINE == "tensorrt":
        import torch

        seen = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
        devices = seen or [str(index) for index in range(torch.cuda.device_count())]
        count = number or max(1, len(devices))
        return [{"CUDA_VISIBLE_DEVICES": devices[index % len(devices)]} if devices else {} for index in range(count)]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    fit = int(free_memory() // _MEMORY_BYTES)
    count = number or max(1, min(cores, fit))
    threads = {} if count == 1 else {THREADS[0]: str(max(1, cores // count))}
    return [threads for _ in range(count)]


def _distinct(jobs: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    return list({tuple(sorted(one.items())): dict(one) for one in jobs}.values())


def drive(works: Iterable[Work], pool: Pool) -> list[StudentGrades]:
    """Work on everybody in the pool; return what each returned, in the order of `works`.

    Raises:
        CourseError: as a piece raised it; nothing more is begun then.
    """
    waiting, under_way = iter(enumerate(works)), {}
    returned: dict[int, StudentGrades] = {}

    def go_on(number: int, work: Work, done: Any = None) -> None:
        try:
            under_way[pool.submit(work.send(done))] = number, work
        except StopIteration as ended:
            returned[number] = ended.value

    try:
        while True:
            while len(under_way) < pool.at_once and (one := next(waiting, None)) is not None:
                go_on(*one)
            if not under_way:
                return [returned[number] for number in sorted(returned)]
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                number, work = under_way.pop(future)
                go_on(number, work, future.result())
    except BaseException:
        for future in under_way:  # what is being done is the pool's to end
            future.cancel()
        raise
