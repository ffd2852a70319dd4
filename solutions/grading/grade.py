"""Grades a class, each submission on its own, so that one that fails does not harm another."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

from helpers.tools.files import atomic_write
from solutions.grading.course import Course
from solutions.grading.faults import course_faults
from solutions.grading.feedback import refusal_page
from solutions.grading.gradebook import Journal
from solutions.grading.grades import ClassGrades, class_grades
from solutions.grading.layout import answers_kept, remove_links
from solutions.grading.submissions import Submission, check_files, check_notebook
from solutions.grading.work.place import Piece, empty_gradebook, write_feedback
from solutions.grading.work.pool import HERE, Pool, Work, drive
from trtcpu.errors import InputError

TO_GRADE, UNCHANGED = "to grade", "unchanged"

# Called with a student, a step and a line: "graded", UNCHANGED, or why the step was refused.
Report = Callable[[str, str, str], None]


def grade_class(
    course: Course,
    submissions: list[Submission],
    steps: list[str],
    report: Report,
    *,
    again: bool = False,
    seed: int | None = None,
    pool: Pool = HERE,
) -> ClassGrades:
    """Grade every submission step by step, write its feedback, and return the grades in the order of `submissions`.

    A step that cannot be graded is refused: it gets no points, and the student's notes say why. A student's steps are
    graded one after the other, since later steps use the artifacts of earlier ones.

    Args:
        again: grade steps again that were graded from the same files.
        seed: what inputs are drawn from, the same for everybody; by default each step gets those of the last time.
        pool: what does the pieces of work.

    Raises:
        CourseError: the course's disk or gradebook failed. What was graded until then is kept.
    """
    with course_faults():
        grading = _Grading(course, report, again, seed, empty_gradebook(course))
    with ExitStack() as stack:
        with course_faults():
            stack.enter_context(answers_kept(course.root))
        drive(map(grading.student, _longest_first(submissions, pool)), pool)
    result = class_grades(course, submissions, steps)
    result.killed = grading.killed
    return result


def foretold(course: Course, submission: Submission, *, again: bool = False) -> Iterator[tuple[str, str]]:
    """Yield each submitted step with what grading would say: TO_GRADE, UNCHANGED, or why it would be refused."""
    student = submission.student
    ahead = Journal(course, student).to_grade(submission.steps, again=again)
    for step in submission.steps:
        try:
            check_files(course, student, step)
            check_notebook(course, student, step)
        except InputError as error:
            yield step, _refusal(str(error))
        else:
            yield step, TO_GRADE if step in ahead else UNCHANGED


@dataclass
class _Grading:
    """What all submissions share."""

    course: Course
    report: Report
    again: bool
    seed: int | None
    gradebook: bytes
    killed: list[str] = field(default_factory=list)

    def student(self, submission: Submission) -> Work:
        """Yield the pieces of work on a submission and receive their results."""
        notes: dict[str, list[str]] = {}
        for step in submission.steps:
            yield from self._step(submission.student, step, notes)
        journal = Journal(self.course, submission.student)
        with course_faults(), self.course.gradebook() as gradebook:
            for step, lines in notes.items():
                page = self.course.feedback_page(submission.student, step)
                if journal.settle(gradebook, step, lines) or not page.is_file():
                    journal.note(step, write_feedback(self.course, submission.student, step))

    def _step(self, student: str, step: str, notes: dict[str, list[str]]) -> Work:
        """Grade a step if it has to be; put the notes about a graded one into `notes`."""
        course, journal = self.course, Journal(self.course, student)
        with course_faults():
            mended = remove_links(course.root, student, step)
            try:
                check_files(course, student, step)
                mended += check_notebook(course, student, step)
            except InputError as error:
                return self._refuse(journal, step, [*mended, _refusal(str(error))])
            if journal.done(step) and not self.again:
                notes[step] = mended
                return self.report(student, step, UNCHANGED)
            done = yield Piece(course, journal.begin(step, self.seed), self.gradebook)
            self.killed += [f"{student} {step}"] if done.killed else []
            if done.refused:
                lines = [*mended, _refusal(done.refused)]
                return self._refuse(journal, step, lines, decided=not (done.killed or done.failed))
            journal.end(done.record)
            notes[step] = mended + done.notes
            self.report(student, step, "graded")

    def _refuse(self, journal: Journal, step: str, lines: list[str], *, decided: bool = True) -> None:
        if decided:  # else the next run grades it; written first, so that a run that is killed here writes it again
            atomic_write(self.course.feedback_page(journal.student, step), refusal_page(step, lines[-1]))
        journal.refuse(step, lines, decided=decided)
        self.report(journal.student, step, lines[-1])


def _longest_first(submissions: list[Submission], pool: Pool) -> list[Submission]:
    """Put the students with the most steps first if several are graded at a time, so that nobody's last steps wait.

    This is Graham's longest-processing-time rule (1969), with the number of steps for the time.
    """
    return sorted(submissions, key=lambda one: -len(one.steps)) if pool.at_once > 1 else submissions


def _refusal(reason: str) -> str:
    return f"refused: {' '.join(reason.split())}"
