"""Pieces of work in places beside each other: the same grades as one after the other, whatever is killed."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from nbformat import NotebookNode

from solutions.grading.course import Course
from solutions.grading.faults import CourseError
from solutions.grading.grade import grade_class
from solutions.grading.submissions import find_submissions
from solutions.grading.work import place
from solutions.grading.work.pool import HERE, Beside
from tests.grading.conftest import hand_in, make_course
from tests.grading.tiny import STEP, code_of, solved

pytestmark = pytest.mark.filterwarnings("ignore")  # nbgrader's and nbformat's own

EXPECTED = {"a": 5.0, "b": 3.0, "c": 2.0, "d": 0.0}


@pytest.fixture
def four(tmp_path: Path, lab: NotebookNode) -> Course:
    """A course with four submissions."""
    course = make_course(tmp_path)
    notebooks = {"a": solved(lab), "b": solved(lab, "square"), "c": solved(lab, "cube"), "d": lab}
    for student, notebook in notebooks.items():
        hand_in(course, student, notebook)
    return course


def _totals(course: Course, pool: object = HERE) -> dict[str, float]:
    graded = grade_class(course, find_submissions(course, [STEP]), [STEP], lambda *line: None, pool=pool)
    return {row.student: row.total for row in graded.students}


def test_two_beside_each_other_give_the_same_grades(four: Course) -> None:
    with Beside(2) as pool:
        assert _totals(four, pool) == EXPECTED
        assert all(four.feedback_page(student, STEP).is_file() for student in EXPECTED)
        assert _totals(four, pool) == EXPECTED  # nothing is graded again
    assert _totals(four) == EXPECTED
