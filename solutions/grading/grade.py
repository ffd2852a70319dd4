"""Grades a class: each submission on its own, so that one that fails harms no other."""

from collections.abc import Callable
from dataclasses import dataclass, field

from helpers.errors import InputError, LabError
from solutions.grading.course import Course
from solutions.grading.faults import CourseError, course_faults
from solutions.grading.grades import StudentGrades, grades_of, maxima
from solutions.grading.journal import Journal
from solutions.grading.links import remove_links
from solutions.grading.step_record import write_notes
from solutions.grading.submissions import Submission, check_files, check_notebook

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
    steps = course.graded
    for step in steps:
        course.register(step)
    return steps


def grade_class(
    course: Course, submissions: list[Submission], steps: list[str], report: Report, *, again: bool = False
) -> ClassGrades:
    """Grade every submission, step by step, write its feedback, and return the grades.

    What cannot be graded is refused with a line in the student's notes and gives no points. With `again`, what was
    graded before from the same files is graded anew.

    Raises:
        CourseError: the course's disk or gradebook failed; what was graded until then is kept.
    """
    with course.gradebook() as gradebook:
        result = ClassGrades(steps, maxima(gradebook, steps))
    for submission in submissions:
        result.students.append(_grade_student(course, submission, steps, report, again))
    return result


def _grade_student(
    course: Course, submission: Submission, steps: list[str], report: Report, again: bool
) -> StudentGrades:
    graded = [step for step in submission.steps if _grade(course, submission, step, report, again)]
    with course_faults(), course.gradebook() as gradebook:
        for step in graded:
            if Journal(course, submission.student).settle(gradebook, step):
                submission.notes.append(f"{step}: the gradebook lacked what the record has: put back")
        grades = grades_of(gradebook, submission.student, steps, graded)
        if steps == course.graded:  # of a part of the steps not all is known
            write_notes(course.autograded(submission.student), submission.student, submission.notes)
    grades.notes = submission.notes
    return grades


def _grade(course: Course, submission: Submission, step: str, report: Report, again: bool) -> bool:
    student, journal = submission.student, Journal(course, submission.student)
    submission.notes += [f"{step}: {note}" for note in remove_links(course.root, student, step)]
    try:
        check_files(course, student, step)
        notes = check_notebook(course, student, step)
    except InputError as error:
        return _refused(journal, submission, step, report, error)
    try:
        with course_faults():
            unchanged = journal.done(step) and not again
            if not unchanged:
                before = journal.begin(step)
                course.autograde(student, step)
                journal.end(step, before)
    except CourseError:
        raise
    except LabError as error:
        return _refused(journal, submission, step, report, error)
    submission.notes += [f"{step}: {note}" for note in notes]
    try:
        course.feedback(student, step)
    except CourseError:
        raise
    except LabError as error:
        submission.notes.append(f"{step}: {error}")
    report(student, step, "unchanged" if unchanged else "graded")
    return True


def _refused(journal: Journal, submission: Submission, step: str, report: Report, error: LabError) -> bool:
    line = f"refused: {' '.join(str(error).split())}"
    with course_faults():
        journal.refuse(step)
    submission.notes.append(f"{step}: {line}")
    report(submission.student, step, line)
    return False
