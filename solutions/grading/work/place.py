"""Pieces of work, each one step of one student, and places: processes started ahead that grade one piece and are gone.

A piece has a gradebook of its own, from which the class's takes the record. `main` is the inside of a place. Nothing of
one submission is left in the process that grades the next, and its imports are done before it is needed.
"""

import os
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock, Thread

import nbgrader.api as api
from nbgrader.api import Gradebook

from helpers.course.steps import CELLS
from helpers.engine.backend import ENGINE
from helpers.tools.signals import clean_ends
from solutions.grading.course import Course
from solutions.grading.execute import GradeExecute
from solutions.grading.faults import CourseError, course_faults
from solutions.grading.gradebook import copy_gradebook, held, save
from solutions.grading.layout import QUICK
from solutions.grading.locks import Gate
from solutions.grading.scratch import Ahead
from solutions.grading.step_record import StepRecord
from solutions.grading.work.warm import start
from solutions.sandbox import THREADS
from trtcpu.errors import EngineError, LabError

# Of a piece whose process was killed: by somebody, or for the machine's memory.
_TRIES = 3

# Places that wait, started, on a GPU: to load TensorRT takes longer than a short step, and three long ones in a row
# measure time, which nobody may start beside.
_MOST_AHEAD = 3

# Of a GPU's memory for each of them: itself it takes 2.6 GB (TensorRT 8.6, H100), the rest is for who works.
_GPU_BYTES = 16 << 30

# The steps that measure time.
TIMED = {cell.step for cell in CELLS.values() if cell.timed}
_END_S = 30

_OF_STUDENTS = ("Comment", "Grade", "SubmittedNotebook", "SubmittedAssignment", "Student")


@dataclass(frozen=True)
class Piece:
    """What is to be graded: a step's record with what a person gave so far, of a course whose folder can be seen.

    `gradebook` is one without students (`empty_gradebook`).
    """

    course: Course
    record: StepRecord
    gradebook: bytes


@dataclass
class Done:
    """What became of a piece: its record, or why it was `refused`, and notes for the student's line.

    `killed` says that it was refused because who graded it was killed, and `failed` because the check itself failed:
    neither need be the submission's fault.
    """

    record: StepRecord
    refused: str = ""
    notes: list[str] = field(default_factory=list)
    killed: bool = False
    failed: bool = False


def empty_gradebook(course: Course) -> bytes:
    """Return a copy of the course's gradebook without students: its steps and their deadlines."""
    with tempfile.TemporaryDirectory(prefix="trt-lab-") as folder:
        path = Path(folder) / "gradebook.db"
        copy_gradebook(course.gradebook_file, path)
        with Gradebook(f"sqlite:///{path}") as gradebook:
            for name in _OF_STUDENTS:
                gradebook.db.query(getattr(api, name)).delete()
            gradebook.db.commit()
        return path.read_bytes()


def grade(piece: Piece) -> Done:
    """Grade a piece and write its feedback; what is written lies in autograded/ and feedback/ of the course.

    Raises:
        CourseError: the course's disk failed.
    """
    started = time.monotonic()
    student, step = piece.record.student, piece.record.step
    done = Done(piece.record)
    with course_faults(), _own_course(piece) as course:
        try:
            course.autograde(student, step)
        except CourseError:
            raise
        except LabError as error:
            done.refused, done.failed = " ".join(str(error).split()), isinstance(error, EngineError)
        else:
            done.notes += write_feedback(course, student, step)
            with course.gradebook() as gradebook:
                done.record = held(gradebook, piece.record)
    done.record.seconds = round(time.monotonic() - started, 1)
    return done


def write_feedback(course: Course, student: str, step: str) -> list[str]:
    """Write a graded step's feedback; return a line where it could not be."""
    try:
        course.feedback(student, step)
    except CourseError:
        raise
    except LabError as error:
        return [str(error)]
    return []


@contextmanager
def _own_course(piece: Piece) -> Iterator[Course]:
    """Give the course with a gradebook of its own, which has the piece's record."""
    with tempfile.TemporaryDirectory(prefix="trt-lab-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "gradebook.db"
        path.write_bytes(piece.gradebook)
        config = deepcopy(piece.course.config)
        config.CourseDirectory.db_url = f"sqlite:///{path}"
        config.RestoreCells.locked_by_us = True
        course = replace(piece.course, config=config)
        with course.gradebook() as gradebook:
            save(gradebook, piece.record)
        yield course


class Places:
    """Grades pieces in processes of their own, for as many threads as work at once; used as a context manager.

    Args:
        course: whose pieces they will be.
        environment: variables that the processes have besides this one's. A limit of threads holds only for pieces
            that others may run beside: one that measures time has the machine to itself, and all its threads.
        ahead: how many processes wait, started, for the next pieces; without a number one, or on a GPU as many as its
            memory has room for.
    """

    def __init__(self, course: Course, environment: Mapping[str, str] = {}, *, ahead: int | None = None) -> None:
        self._course, self._ahead, self._lock = course, ahead or _ahead(), Lock()
        self._judge = "" if ENGINE == "tensorrt" else GradeExecute(config=course.config).judge
        self._environment = {**os.environ, **environment, **QUICK}
        self._limits = () if environment.keys().isdisjoint(THREADS) else THREADS
        self._waiting: dict[bool, list[_Place]] = {False: [], True: []}  # True: without a limit of threads
        self._living: set[_Place] = set()
        self._closed = False

    def __enter__(self) -> "Places":
        self._refill(unlimited=False)
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed = True
            left = [*self._living]
        for place in left:  # all at once
            place.process.terminate()
        for place in left:
            place.stop()

    def grade(self, piece: Piece) -> Done:
        """Grade a piece in a place; one whose process is killed again and again is refused.

        Raises:
            CourseError: the course's disk failed.
            EngineError: the places were closed.
        """
        for _ in range(_TRIES):
            place = self._taken(timed=piece.record.step in TIMED)
            answer = place.asked(piece)
            self._living.discard(place)
            if isinstance(answer, Exception):
                raise answer
            if answer is not None:
                return answer
        why = f"the process that graded it was killed {_TRIES} times: look at memory"
        return Done(piece.record, why, killed=True)

    def _taken(self, *, timed: bool) -> "_Place":
        unlimited = timed and bool(self._limits)
        waiting = self._waiting[unlimited]
        with self._lock:
            if self._closed:
                raise EngineError("grading was stopped")
            if not waiting:
                self._refill(unlimited)
            place = waiting.pop(0)
            if not (timed and waiting):  # who measures time waits, to be alone, for what is started
                self._refill(unlimited)
        return place

    def _refill(self, unlimited: bool) -> None:
        left_out = self._limits if unlimited else ()
        environment = {name: value for name, value in self._environment.items() if name not in left_out}
        waiting = self._waiting[unlimited]
        while len(waiting) < self._ahead:
            waiting.append(_Place(self._course, environment, self._judge))
            self._living.add(waiting[-1])


class _Place:
    """A process that was told the course, and grades one piece. Its connection is closed when nobody holds it."""

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

    def stop(self) -> None:
        """Stop the process: told by SIGTERM it cleans up; in the end it is killed."""
        self.process.terminate()
        self.process.join(_END_S)
        self.process.kill()
        self.process.join()

    def _tell(self, what: object) -> None:
        with suppress(OSError):  # it is dead, which is seen when it is to answer
            self._connection.send(what)


def _ahead() -> int:
    if ENGINE != "tensorrt":
        return 1
    import torch

    # not pycuda, which knows the memory only in the thread that has its context
    memory = torch.cuda.get_device_properties(0).total_memory
    return max(1, min(_MOST_AHEAD, memory // _GPU_BYTES))


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
