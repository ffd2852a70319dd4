"""Grades a class: each submission on its own, so that one that fails harms no other."""

from collections.abc import Callable
from dataclasses import dataclass, field

from helpers.errors import LabError
from solutions.grading.course import Course
from solutions.grading.grades import StudentGrades, grades_of, maxima
from solutions.grading.journal import Journal
from solutions.grading.submissions import Submission, check_notebook

__all__ = ["ClassGrades", "grade_class", "register_steps"]

Report = Callable[[str, str, str], None]
"""Called with student, step and a line: "graded", "unchanged", or why it was refused."""


@dataclass
class ClassGrades:
    """Everybody's grades, and what each criterion is worth in the steps of this course."""

    steps: list[str]
    worth: dict[str, float]
    students: list[StudentGrades] = field(default_factory=list)


def register_steps(course: Course) -> list[str]:
    """Put every step's notebook into the gradebook where it lacks it; return the steps."""
    steps = course.present
    for step in steps:
        course.register(step)
    return steps


def grade_class(
    course: Course, submissions: list[Submission], steps: list[str], report: Report, *, again: bool = False
) -> ClassGrades:
    """Grade every submission, step by step, write its feedback, and return the grades.

    What cannot be graded is refused with a line in the student's notes and gives no points. With `again`, what was
    graded before from the same files is graded anew.
    """
    with course.gradebook() as gradebook:
        result = ClassGrades(steps, maxima(gradebook, steps))
    for submission in submissions:
        graded = [step for step in submission.steps if _grade(course, submission, step, report, again)]
        with course.gradebook() as gradebook:
            grades = grades_of(gradebook, submission.student, steps, graded)
        grades.notes = submission.notes
        result.students.append(grades)
    return result


def _grade(course: Course, submission: Submission, step: str, report: Report, again: bool) -> bool:
    student, journal = submission.student, Journal(course, submission.student)
    try:
        submission.notes += [f"{step}: {note}" for note in check_notebook(course, student, step)]
        unchanged = journal.done(step) and not again
        if not unchanged:
            journal.forget(step)
            course.autograde(student, step)
            journal.write(step)
    except (LabError, OSError) as error:
        refused = " ".join(str(error).split())
        submission.notes.append(f"{step}: refused: {refused}")
        report(student, step, f"refused: {refused}")
        return False
    try:
        course.feedback(student, step)
    except (LabError, OSError) as error:
        submission.notes.append(f"{step}: {error}")
    report(student, step, "unchanged" if unchanged else "graded")
    return True
