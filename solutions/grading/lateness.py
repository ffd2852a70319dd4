"""What being late costs, by nbgrader's plugin, asked at each run: deadline, extension or timestamp may come later.

A piece of work knows of no extension, and a step is not graded again because its deadline moved.
"""

from nbformat.v4 import new_notebook
from nbgrader.api import Gradebook
from nbgrader.preprocessors import AssignLatePenalties

from solutions.grading.course import Course
from solutions.grading.faults import course_fault
from solutions.grading.untrusted.timestamps import handed_in
from trtcpu.errors import InputError


def lateness(course: Course, gradebook: Gradebook, student: str, step: str) -> tuple[str | None, float | None]:
    """Put into the gradebook when a graded step was handed in, as its timestamp.txt says, and what that costs now.

    Returns:
        Both, as a step's record has them.

    Raises:
        InputError: timestamp.txt is no time, or the course's plugin failed; what it cost before stays.
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
        except Exception as error:  # the plugin may be anybody's
            if course_fault(error):
                raise
            raise InputError(f"what being late costs is not known: {type(error).__name__}: {error}") from error
        gradebook.db.expire_all()
    return submission.timestamp and submission.timestamp.isoformat(), found.late_submission_penalty
