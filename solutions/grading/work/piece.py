"""One step of one student: graded with a gradebook of its own, from which the class's takes the record."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path

import nbgrader.api as api
from nbgrader.api import Gradebook

from solutions.grading.course import Course
from solutions.grading.faults import CourseError, course_faults
from solutions.grading.gradebook import copy_gradebook, held, save
from solutions.grading.step_record import StepRecord
from trtcpu.errors import EngineError, LabError

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
    """Return a gradebook with the steps of the course's, their deadlines too, and without students."""
    with tempfile.TemporaryDirectory(prefix="trt-lab-") as folder:
        path = Path(folder) / "gradebook.db"
        if course.gradebook_file is None:  # on a database server
            own = _with_gradebook(course, path)
            for step in course.graded:
                own.register(step)
        else:
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
    with tempfile.TemporaryDirectory(prefix="trt-lab-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "gradebook.db"
        path.write_bytes(piece.gradebook)
        course = _with_gradebook(piece.course, path)
        with course.gradebook() as gradebook:
            save(gradebook, piece.record)
        yield course


def _with_gradebook(course: Course, path: Path) -> Course:
    config = deepcopy(course.config)
    config.CourseDirectory.db_url = f"sqlite:///{path}"
    config.RestoreCells.locked_by_us = True
    return replace(course, config=config)
