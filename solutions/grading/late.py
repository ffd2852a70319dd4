"""When steps are due, when they were handed in, and what being late costs."""

import datetime
import math

from nbformat.v4 import new_notebook
from nbgrader.api import Gradebook
from nbgrader.plugins import BasePlugin
from nbgrader.preprocessors import AssignLatePenalties

from helpers.tools.term import TERM
from solutions.grading.course import Course
from solutions.grading.faults import course_fault
from solutions.grading.untrusted.timestamps import handed_in
from trtcpu.errors import InputError


def due_steps(course: Course) -> set[str]:
    """Return the steps that are due: their deadline has passed, or they have none and somebody has handed them in."""
    deadlines = dict(TERM.deadlines)
    if course.gradebook_file.is_file():
        with course.gradebook() as gradebook:
            deadlines |= {one.name: one.duedate for one in gradebook.assignments if one.duedate}
    now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
    handed_in = {path.parent.name for path in course.root.glob("submitted/*/*/*.ipynb")}
    handed_in |= {path.stem for path in course.root.glob("autograded/*/grades/*.json")}  # submitted/ may be elsewhere
    return {step for step in course.graded if (deadlines[step] < now if step in deadlines else step in handed_in)}


class PerDay(BasePlugin):
    """nbgrader's plugin for the rule of course.toml: a share of the earned points for each day that has begun."""

    def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float:
        """Return the points that a step loses, at most those that it earned."""
        days = math.ceil((total_seconds_late - 60 * TERM.late.free_minutes) / 86_400)
        return round(score * min(1.0, max(0, days) * TERM.late.percent_per_day / 100), 2)


def lateness(course: Course, gradebook: Gradebook, student: str, step: str) -> tuple[str | None, float | None]:
    """Put into the gradebook when a step was handed in, by its timestamp.txt, and the late penalty that follows.

    Every run does this, since a deadline, an extension or a timestamp may come later; the step is not graded again.

    Returns:
        The time (ISO 8601, UTC) and the penalty, as a step's record has them.

    Raises:
        InputError: timestamp.txt holds no time, or the course's plugin failed. The earlier penalty stays.
    """
    found = gradebook.find_submission_notebook(step, step, student)
    submission = found.assignment
    submission.timestamp = handed_in(course.submitted(student, step).parent)
    late = submission.assignment.duedate is not None and submission.total_seconds_late > 0
    if not late:
        found.late_submission_penalty = None
    gradebook.db.commit()
    if late:
        about = {"notebook": step, "assignment": step, "student": student, "db_url": course.gradebook_address}
        try:
            AssignLatePenalties(config=course.config).preprocess(new_notebook(), {"nbgrader": about})
        except Exception as error:  # the course may have its own plugin
            if course_fault(error):
                raise
            raise InputError(f"what being late costs is not known: {type(error).__name__}: {error}") from error
        gradebook.db.expire_all()
    return submission.timestamp and submission.timestamp.isoformat(), found.late_submission_penalty
