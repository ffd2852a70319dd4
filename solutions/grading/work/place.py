"""A place of work: a process started ahead, which grades one piece and is gone; `python -m` runs its inside.

Nothing of one submission is left in the process that grades the next, and its imports are done before it is needed.
"""

import os
import pickle
import signal
import struct
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from threading import Lock, Thread
from typing import Any, BinaryIO

from helpers.backend import ENGINE, cuda
from helpers.errors import EngineError
from solutions.checks.core.claim import CELLS
from solutions.grading.ahead import Ahead
from solutions.grading.course import Course
from solutions.grading.execute import GradeExecute
from solutions.grading.gate import Gate
from solutions.grading.layout import ROOT
from solutions.grading.work.piece import Done, Piece, grade

__all__ = ["Places"]

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


class Places:
    """Does pieces in processes of their own; used as a context manager, from as many threads as work at once.

    Args:
        course: whose pieces they will be.
        environment: what the processes have besides this one's variables.
        ahead: how many wait, started, for the next pieces; without a number one, on a GPU as many as its memory
            has room for.
    """

    def __init__(self, course: Course, environment: Mapping[str, str] = {}, *, ahead: int | None = None) -> None:
        self._environment = {**os.environ, **environment}
        self._course, self._ahead, self._lock = _packed(course), ahead or _ahead(), Lock()
        self._ready: list[subprocess.Popen[bytes]] = []
        self._working: set[subprocess.Popen[bytes]] = set()
        self._closed = False

    def __enter__(self) -> "Places":
        self._refill()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed = True
            left = [*self._ready, *self._working]
        for process in left:  # all at once
            process.terminate()
        for process in left:
            _end(process)

    def grade(self, piece: Piece) -> Done:
        """Grade a piece in a place; one whose process is killed again and again is refused.

        Raises:
            CourseError: the course's disk failed.
            EngineError: the places were closed.
        """
        for _ in range(_TRIES):
            process = self._taken()
            if not self._ready or piece.record.step not in _TIMED:  # which waits, to be alone, for what is started
                self._refill()
            try:
                answer = _asked(process, piece)
            finally:
                self._left(process)
            if isinstance(answer, Exception):
                raise answer
            if answer is not None:
                return answer
        why = f"the process that graded it was killed {_TRIES} times (code {process.returncode}): look at memory"
        return Done(piece.record, why, killed=True)

    def _taken(self) -> "subprocess.Popen[bytes]":
        with self._lock:
            if self._closed:
                raise EngineError("grading was stopped")
            process = self._ready.pop(0) if self._ready else self._started()
            self._working.add(process)
        return process

    def _left(self, process: "subprocess.Popen[bytes]") -> None:
        _end(process)
        with self._lock:
            self._working.discard(process)

    def _refill(self) -> None:
        with self._lock:
            while not self._closed and len(self._ready) < self._ahead:
                self._ready.append(self._started())

    def _started(self) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            [sys.executable, "-m", "solutions.grading.work.place"],
            cwd=ROOT,
            env=self._environment | {"PYTHONPATH": os.pathsep.join([str(ROOT), *_search(self._environment)])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # what is wrong with a piece is in its answer
            start_new_session=True,  # Ctrl-C is the coordinator's
        )
        with suppress(OSError):  # one that is dead already is seen when it is asked
            process.stdin.write(self._course)
            process.stdin.flush()
        return process


def _ahead() -> int:
    if ENGINE != "tensorrt":
        return 1
    return max(1, min(_MOST_AHEAD, cuda.mem_get_info()[1] // _GPU_BYTES))


def _search(environment: Mapping[str, str]) -> list[str]:
    return [part for part in environment.get("PYTHONPATH", "").split(os.pathsep) if part and part != str(ROOT)]


def _asked(process: "subprocess.Popen[bytes]", piece: Piece) -> Done | Exception | None:
    """Return what a place answers to a piece; None where it was killed."""
    try:
        process.stdin.write(_packed(piece))
        process.stdin.flush()
    except OSError:
        return None
    said = process.stdout.read()  # stdin stays open: where it ends, this process has
    return pickle.loads(said) if process.wait() == 0 and said else None


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a place: told by SIGTERM, it removes what it made; one that does not is killed."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    with suppress(OSError):
        process.stdin.close()
    process.stdout.close()


def _packed(what: object) -> bytes:
    told = pickle.dumps(what)
    return struct.pack(_LENGTH, len(told)) + told


def _read(given: BinaryIO) -> Any:
    """Return what came next; None where there is nothing more."""
    size = struct.calcsize(_LENGTH)
    head = given.read(size)
    return pickle.loads(given.read(*struct.unpack(_LENGTH, head))) if len(head) == size else None


def _inside(given: BinaryIO, answers: BinaryIO) -> None:
    course = _read(given)
    if course is None:
        return
    ahead = _started(course)
    try:
        piece = _read(given)
        if piece is None:
            return  # not needed
        Thread(target=_ends_with, args=(given,), daemon=True).start()
        try:
            answer: Done | Exception = grade(piece)
        except Exception as error:
            answer = error
        answers.write(pickle.dumps(answer))
        answers.flush()
    finally:
        if ahead is not None and GradeExecute.started_ahead is ahead:  # not taken
            ahead.close()


def _started(course: Course) -> Ahead | None:
    """Start what the piece to come will need; None where that fails, which is then the piece's to say."""
    ahead = None
    try:
        with Gate().passed(alone=False):  # not while somebody measures time
            ahead = GradeExecute(config=course.config).ahead()
            ahead.start()
    except BaseException as error:
        if ahead is not None:
            ahead.close()
        if not isinstance(error, Exception):  # told to end: nothing more is wanted
            raise
        return None
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


if __name__ == "__main__":
    import warnings

    from helpers.signals import clean_ends

    warnings.simplefilter("ignore")  # nbgrader's and nbformat's own, about what is mended here
    with clean_ends():
        _inside(*_ready())
