"""Places of work: processes started ahead, each of which grades one piece and is gone; `main` is the inside of one.

Nothing of one submission is left in the process that grades the next, and its imports are done before it is needed.
"""

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from threading import Lock, Thread

from helpers.course.steps import CELLS
from helpers.engine.backend import ENGINE, cuda
from helpers.tools.signals import clean_ends
from solutions.grading.ahead import Ahead
from solutions.grading.course import Course
from solutions.grading.execute import GradeExecute
from solutions.grading.faults import CourseError
from solutions.grading.gate import Gate
from solutions.grading.layout import QUICK
from solutions.grading.work.piece import Done, Piece, grade
from solutions.grading.work.warm import start
from solutions.sandbox import THREADS
from trtcpu.errors import EngineError

# Of a piece whose process was killed: by somebody, or for the machine's memory.
_TRIES = 3

# Places that wait, started, on a GPU: to load TensorRT takes longer than a short step, and three long ones in a row
# measure time, which nobody may start beside.
_MOST_AHEAD = 3

# Of a GPU's memory for each of them: itself it takes 2.6 GB (TensorRT 8.6, H100), the rest is for who works.
_GPU_BYTES = 16 << 30

_TIMED = {cell.step for cell in CELLS.values() if cell.timed}
_END_S = 30


class Places:
    """Does pieces in processes of their own; used as a context manager, from as many threads as work at once.

    Args:
        course: whose pieces they will be.
        environment: what the processes have besides this one's variables. Threads are limited by it only for a piece
            that others may be beside: one that measures time has the machine to itself, and all its threads.
        ahead: how many wait, started, for the next pieces; without a number one, on a GPU as many as its memory
            has room for.
    """

    def __init__(self, course: Course, environment: Mapping[str, str] = {}, *, ahead: int | None = None) -> None:
        self._course, self._ahead, self._lock = course, ahead or _ahead(), Lock()
        self._judge = "" if ENGINE == "tensorrt" else GradeExecute(config=course.config).judge
        beside = {**os.environ, **environment, **QUICK}
        alone = beside
        if not environment.keys().isdisjoint(THREADS):
            alone = {name: value for name, value in beside.items() if name not in THREADS}
        self._environments = {False: beside, True: alone}
        shared: list[_Place] = []
        # by whether they are for a piece that measures time
        self._waiting = {False: shared, True: shared if alone == beside else []}
        self._working: set[_Place] = set()
        self._closed = False

    def __enter__(self) -> "Places":
        self._refill(timed=False)
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed = True
            left = {*self._waiting[False], *self._waiting[True], *self._working}
        for place in left:  # all at once
            place.process.terminate()
        for place in left:
            place.end()

    def grade(self, piece: Piece) -> Done:
        """Grade a piece in a place; one whose process is killed again and again is refused.

        Raises:
            CourseError: the course's disk failed.
            EngineError: the places were closed.
        """
        timed = piece.record.step in _TIMED
        for _ in range(_TRIES):
            place = self._taken(timed)
            if not self._waiting[timed] or not timed:  # which waits, to be alone, for what is started
                self._refill(timed)
            try:
                answer = place.asked(piece)
            finally:
                self._left(place)
            if isinstance(answer, Exception):
                raise answer
            if answer is not None:
                return answer
        why = f"the process that graded it was killed {_TRIES} times: look at memory"
        return Done(piece.record, why, killed=True)

    def _taken(self, timed: bool) -> "_Place":
        with self._lock:
            if self._closed:
                raise EngineError("grading was stopped")
            waiting = self._waiting[timed]
            place = waiting.pop(0) if waiting else self._started(timed)
            self._working.add(place)
        return place

    def _left(self, place: "_Place") -> None:
        place.end()
        with self._lock:
            self._working.discard(place)

    def _refill(self, timed: bool) -> None:
        with self._lock:
            while not self._closed and len(self._waiting[timed]) < self._ahead:
                self._waiting[timed].append(self._started(timed))

    def _started(self, timed: bool) -> "_Place":
        return _Place(self._course, self._environments[timed], self._judge)


class _Place:
    """A process that was told the course, and grades one piece."""

    def __init__(self, course: Course, environment: Mapping[str, str], judge: str) -> None:
        try:
            self.process, self._connection = start(environment, judge)
        except (OSError, EOFError) as error:
            raise EngineError("no process that grades can be started here: look at memory") from error
        self._tell(course)

    def asked(self, piece: Piece) -> Done | Exception | None:
        """Return what it answers to a piece; None where it was killed."""
        self._tell(piece)
        answer = None
        with suppress(EOFError, OSError):
            answer = self._connection.recv()  # ours stays open: where it ends, this process has
        self.process.join()
        return answer

    def end(self) -> None:
        """End it: told by SIGTERM it cleans up; in the end it is killed."""
        self.process.terminate()
        self.process.join(_END_S)
        self.process.kill()
        self.process.join()
        self._connection.close()

    def _tell(self, what: object) -> None:
        with suppress(OSError):  # it is dead, which is seen when it is to answer
            self._connection.send(what)


def _ahead() -> int:
    if ENGINE != "tensorrt":
        return 1
    return max(1, min(_MOST_AHEAD, cuda.mem_get_info()[1] // _GPU_BYTES))


def main(asked: Connection, *, copied: bool = False) -> None:
    """Grade the piece that comes after the course, and answer what became of it.

    Where this process is a copy of one that has imported the judge, the judge may be, too (`copied`).
    """
    with clean_ends(), suppress(EOFError):  # not needed any more
        course = asked.recv()
        ahead = _started(course, copied)
        try:
            piece = asked.recv()
            Thread(target=_ends_with, args=(asked,), daemon=True).start()
            try:
                answer: Done | Exception = ahead if isinstance(ahead, CourseError) else grade(piece)
            except Exception as error:
                answer = error
            asked.send(answer)
        finally:
            if isinstance(ahead, Ahead) and GradeExecute.started_ahead is ahead:  # not taken
                ahead.close()


def _started(course: Course, copied: bool) -> Ahead | CourseError | None:
    """Start what the piece to come will need; None where that fails, which is then the piece's to say.

    A fault of the machine's, which no piece shall pay for, is returned.
    """
    ahead = None
    try:
        with Gate().passed(alone=False):  # not while somebody measures time
            ahead = GradeExecute(config=course.config).ahead()
            ahead.start(copied=copied)
    except BaseException as error:
        if ahead is not None:
            ahead.close()
        if not isinstance(error, Exception):  # told to end: nothing more is wanted
            raise
        return error if isinstance(error, CourseError) else None
    GradeExecute.started_ahead = ahead
    return ahead


def _ends_with(asked: Connection) -> None:
    """End this process when the one that started it is gone: another may grade the same course then."""
    with suppress(EOFError, OSError):
        asked.recv()
    os.kill(os.getpid(), signal.SIGTERM)
