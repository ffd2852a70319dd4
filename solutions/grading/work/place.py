"""Pieces of work and the processes that do them, called places.

A piece is one step of one student. A place is started ahead of time, so that its imports are done, grades one piece
and ends, so that nothing of one submission is left for the next. It works on a gradebook of its own; the class's
gradebook takes the record from there. `main` runs inside a place.
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

# How often a piece is tried whose process is killed, by somebody or for lack of memory.
_TRIES = 3

# How many places wait on a GPU. Loading TensorRT takes longer than grading a short step, and no place may start while
# time is measured, which three long steps in a row do.
_MOST_AHEAD = 3

# GPU memory for each waiting place. It takes 2.6 GB itself (TensorRT 8.6, H100); the rest is for the one that works.
_GPU_BYTES = 16 << 30

# The steps that measure time.
TIMED = {cell.step for cell in CELLS.values() if cell.timed}
_END_S = 30

_OF_STUDENTS = ("Comment", "Grade", "SubmittedNotebook", "SubmittedAssignment", "Student")


@dataclass(frozen=True)
class Piece:
    """What to grade: a student's step, by its record, which has the points that a person gave so far.

    `gradebook` is the content of one without students (`empty_gradebook`).
    """

    course: Course
    record: StepRecord
    gradebook: bytes


@dataclass
class Done:
    """The result of a piece: its record, or the reason why it was `refused`, and notes for the student's line.

    It was `killed` if the process that graded it was, and it `failed` if the check itself broke. Neither has to be the
    submission's fault.
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
    """Grade a piece into autograded/ and write its feedback into feedback/ of the course.

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
    """Write a graded step's feedback while nobody measures time; return a line if it could not be written."""
    try:
        with Gate().passed(alone=False):
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
    """Grades pieces of a course in processes of their own. A context manager; any number of threads may use it.

    Args:
        environment: variables for the processes, added to this one's. A limit of threads does not apply to pieces that
            measure time, since these have the machine to themselves.
        ahead: how many processes wait for the next pieces. By default one, on a GPU as many as fit its memory.
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
        """Grade a piece in a place; refuse it if its process is killed each time.

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
    """A process that knows the course and grades one piece. Its connection is closed with the last reference to it."""

    def __init__(self, course: Course, environment: Mapping[str, str], judge: str) -> None:
        try:
            self.process, self._connection = start(environment, judge)
        except (OSError, EOFError) as error:
            raise EngineError("no process that grades can be started here: look at memory") from error
        self._tell(course)

    def asked(self, piece: Piece) -> Done | Exception | None:
        """Return the process's answer to a piece, None if it was killed."""
        self._tell(piece)
        answer = None
        with suppress(EOFError, OSError):
            answer = self._connection.recv()  # it ends when the process does
        self.process.join()
        return answer

    def stop(self) -> None:
        """Stop the process: with SIGTERM, on which it cleans up, later with SIGKILL."""
        self.process.terminate()
        self.process.join(_END_S)
        self.process.kill()
        self.process.join()

    def _tell(self, what: object) -> None:
        with suppress(OSError):  # it is dead; `asked` finds out
            self._connection.send(what)


def _ahead() -> int:
    if ENGINE != "tensorrt":
        return 1
    import torch

    # pycuda would answer only in the thread that has its context
    memory = torch.cuda.get_device_properties(0).total_memory
    return max(1, min(_MOST_AHEAD, memory // _GPU_BYTES))


def main(asked: Connection, *, copied: bool = False) -> None:
    """Receive the course and a piece, grade it and send the result.

    With `copied`, this process is a copy of one that has imported the judge, so the judge may be a copy of this one.
    """
    with clean_ends(), suppress(EOFError):  # the run has ended
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
    """Start what the next piece will need. Return None if that fails: the piece will fail for the same reason.

    A fault of the machine is returned, since no piece may pay for it.
    """
    ahead = None
    try:
        with Gate().passed(alone=False):  # not while time is measured
            ahead = GradeExecute(config=course.config).ahead()
            ahead.start(copied=copied)
    except BaseException as error:
        if ahead is not None:
            ahead.close()
        if not isinstance(error, Exception):  # told to end
            raise
        return error if isinstance(error, CourseError) else None
    GradeExecute.started_ahead = ahead
    return ahead


def _ends_with(asked: Connection) -> None:
    """End this process when the one that started it has gone: then another run may grade the same course."""
    with suppress(EOFError, OSError):
        asked.recv()
    os.kill(os.getpid(), signal.SIGTERM)
