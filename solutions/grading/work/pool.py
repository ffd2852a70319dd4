"""Where pieces of work are done: here one after the other, in places beside each other, or on Dask's workers."""

from collections.abc import Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, Protocol

from solutions.grading.grades import StudentGrades
from solutions.grading.work.piece import Done, Piece, grade

__all__ = ["HERE", "Pool", "drive"]

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


def drive(works: Iterable[Work], pool: Pool) -> list[StudentGrades]:
    """Work on everybody in the pool; return what each returned, in the order of `works`.

    Raises:
        CourseError: as a piece raised it; nothing more is begun then, and what is under way is waited for.
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
    finally:
        for future in under_way:
            future.cancel()
        wait(under_way)
