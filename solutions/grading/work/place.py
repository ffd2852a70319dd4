"""A place of work: a process started ahead, which grades one piece and is gone; `main` is its inside.

Nothing of one submission is left in the process that grades the next, and its imports are done before it is needed.
"""

import os
import pickle
import signal
import struct
import sys
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import Any, BinaryIO

from helpers.course.steps import CELLS
from helpers.engine.backend import ENGINE, cuda
from helpers.tools.signals import clean_ends
from solutions.grading.ahead import Ahead
from solutions.grading.course import Course
from solutions.grading.environment import QUICK
from solutions.grading.execute import GradeExecute
from solutions.grading.faults import CourseError
from solutions.grading.gate import Gate
from solutions.grading.work.nursery import Nursery, Started
from solutions.grading.work.piece import Done, Piece, grade
from solutions.sandbox import THREADS
from trtcpu.errors import EngineError

_TRIES = 3
"""Of a piece whose process was killed: by somebody, or for the machine's memory."""

_MOST_AHEAD = 3
"""Places that wait, started, on a GPU: to load TensorRT takes longer than a short step, and three long ones in a row
measure time, which nobody may start beside.
"""

_GPU_BYTES = 16 << 30
"""Of a GPU's memory for each of them: itself it takes 2.6 GB (TensorRT 8.6, H100), the rest is for who works."""

_TIMED = {cell.step for cell in CELLS.values() if cell.timed}
_END_S = 30
_LENGTH = "<q"


@dataclass
class _Row:
    """Places that wait, started by one nursery."""

    nursery: Nursery
    ready: list[Started] = field(default_factory=list)


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
        judge = None if ENGINE == "tensorrt" else GradeExecute(config=course.config).judge
        variables = {**os.environ, **environment, **QUICK}
        self._beside = self._alone = _Row(Nursery(variables, judge))
        if not environment.keys().isdisjoint(THREADS):
            unlimited = {name: value for name, value in variables.items() if name not in THREADS}
            self._alone = _Row(Nursery(unlimited, judge))
        self._course, self._ahead, self._lock = _packed(course), ahead or _ahead(), Lock()
        self._working: set[Started] = set()
        self._closed = False

    def __enter__(self) -> "Places":
        self._refill(self._beside)
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed = True
            left = {*self._beside.ready, *self._alone.ready, *self._working}
        for process in left:  # all at once
            process.signal(signal.SIGTERM)
        for process in left:
            process.end(_END_S)
        self._beside.nursery.close()
        self._alone.nursery.close()

    def grade(self, piece: Piece) -> Done:
        """Grade a piece in a place; one whose process is killed again and again is refused.

        Raises:
            CourseError: the course's disk failed.
            EngineError: the places were closed.
        """
        timed = piece.record.step in _TIMED
        row = self._alone if timed else self._beside
        for _ in range(_TRIES):
            process = self._taken(row)
            if not row.ready or not timed:  # which waits, to be alone, for what is started
                self._refill(row)
            try:
                answer = _asked(process, piece)
            finally:
                self._left(process)
            if isinstance(answer, Exception):
                raise answer
            if answer is not None:
                return answer
        why = f"the process that graded it was killed {_TRIES} times: look at memory"
        return Done(piece.record, why, killed=True)

    def _taken(self, row: _Row) -> Started:
        with self._lock:
            if self._closed:
                raise EngineError("grading was stopped")
            process = row.ready.pop(0) if row.ready else self._started(row)
            self._working.add(process)
        return process

    def _left(self, process: Started) -> None:
        process.end(_END_S)
        with self._lock:
            self._working.discard(process)

    def _refill(self, row: _Row) -> None:
        with self._lock:
            while not self._closed and len(row.ready) < self._ahead:
                row.ready.append(self._started(row))

    def _started(self, row: _Row) -> Started:
        process = row.nursery.start()
        with suppress(OSError):  # one that is dead already is seen when it is asked
            process.stdin.write(self._course)
            process.stdin.flush()
        return process


def _ahead() -> int:
    if ENGINE != "tensorrt":
        return 1
    return max(1, min(_MOST_AHEAD, cuda.mem_get_info()[1] // _GPU_BYTES))


def _asked(process: Started, piece: Piece) -> Done | Exception | None:
    """Return what a place answers to a piece; None where it was killed."""
    try:
        process.stdin.write(_packed(piece))
        process.stdin.flush()
    except OSError:
        return None
    answer = _read(process.stdout)  # stdin stays open: where it ends, this process has
    process.stdout.read()  # until it has ended
    return answer


def _packed(what: object) -> bytes:
    told = pickle.dumps(what)
    return struct.pack(_LENGTH, len(told)) + told


def _read(given: BinaryIO) -> Any:
    """Return what came next; None where it ends before."""
    head = given.read(struct.calcsize(_LENGTH))
    if len(head) < struct.calcsize(_LENGTH):
        return None
    (length,) = struct.unpack(_LENGTH, head)
    told = given.read(length)
    return pickle.loads(told) if len(told) == length else None


def _inside(given: BinaryIO, answers: BinaryIO, copied: bool) -> None:
    course = _read(given)
    if course is None:
        return
    ahead = _started(course, copied)
    try:
        piece = _read(given)
        if piece is None:
            return  # not needed
        Thread(target=_ends_with, args=(given,), daemon=True).start()
        try:
            answer: Done | Exception = ahead if isinstance(ahead, CourseError) else grade(piece)
        except Exception as error:
            answer = error
        answers.write(_packed(answer))
        answers.flush()
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


def _ends_with(given: BinaryIO) -> None:
    """End this process when the one that started it is gone: another may grade the same course then."""
    os.read(given.fileno(), 1)
    os.kill(os.getpid(), signal.SIGTERM)


def _ready() -> tuple[BinaryIO, BinaryIO]:
    """Return stdin, and what was stdout: what libraries print goes to stderr."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return sys.stdin.buffer, answers


def main(*, copied: bool = False) -> None:
    """Grade the piece that stdin brings after the course, and write what became of it to stdout.

    Where this process is a copy of one that has imported the judge, the judge may be, too (`copied`).
    """
    warnings.simplefilter("ignore")  # nbgrader's and nbformat's own, about what is mended here
    with clean_ends():
        _inside(*_ready(), copied)


if __name__ == "__main__":
    main()
