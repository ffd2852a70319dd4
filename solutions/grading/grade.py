"""Grades a class: each submission on its own, so that one that fails harms no other."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

from solutions.grading.course import Course
from solutions.grading.faults import course_faults
from solutions.grading.gradebook import Journal
from solutions.grading.grades import ClassGrades, class_grades
from solutions.grading.layout import answers_kept, remove_links
from solutions.grading.submissions import Submission, check_files, check_notebook
from solutions.grading.work.place import Piece, empty_gradebook, write_feedback
from solutions.grading.work.pool import HERE, Pool, Work, drive
from trtcpu.errors import InputError

TO_GRADE, UNCHANGED = "to grade", "unchanged"

# Called with student, step and a line: "graded", UNCHANGED, or why it was refused.
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
    """Grade every submission, step by step, write its feedback, and return the grades.

    What cannot be graded is refused with a line in the student's notes and gives no points. With `again`, what was
    graded before from the same files is graded anew. Inputs are drawn from the `seed`, the same ones for everybody;
    without it a step meets those of the last time. The pieces of work are done in the `pool`; a student's one after the
    other, since a step takes what earlier ones made. Grades are in the order of `submissions`.

    Raises:
        CourseError: the course's disk or gradebook failed; what was graded until then is kept.
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
    """Yield each submitted step and what grading would say of it: TO_GRADE, UNCHANGED, or why it would be refused."""
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
    """What is the same for everybody."""

    course: Course
    report: Report
    again: bool
    seed: int | None
    gradebook: bytes
    killed: list[str] = field(default_factory=list)

    def student(self, submission: Submission) -> Work:
        """Yield the pieces of work on a submission, and take what became of each."""
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
        """Grade a step where that is to be done; `notes` get the lines about one that is graded."""
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
        journal.refuse(step, lines, decided=decided)
        self.report(journal.student, step, lines[-1])


def _longest_first(submissions: list[Submission], pool: Pool) -> list[Submission]:
    """Return who handed in most steps first, where several are graded at a time: else all wait for their last ones.

    That is Graham's rule of the longest processing time (1969), with steps for times.
    """
    return sorted(submissions, key=lambda one: -len(one.steps)) if pool.at_once > 1 else submissions


def _refusal(reason: str) -> str:
    return f"refused: {' '.join(reason.split())}"
