"""Grades a class: each submission on its own, so that one that fails harms no other."""

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

from solutions.grading.course import Course
from solutions.grading.environment import answers_kept
from solutions.grading.faults import course_faults
from solutions.grading.grades import StudentGrades, summed, worth_of
from solutions.grading.journal import Journal
from solutions.grading.layout import remove_links
from solutions.grading.step_record import write_notes
from solutions.grading.submissions import Submission, check_files, check_notebook
from solutions.grading.work.piece import Done, Piece, empty_gradebook, write_feedback
from solutions.grading.work.pool import HERE, Pool, drive
from trtcpu.errors import InputError

TO_GRADE, UNCHANGED = "to grade", "unchanged"

# Called with student, step and a line: "graded", UNCHANGED, or why it was refused.
Report = Callable[[str, str, str], None]


@dataclass
class ClassGrades:
    """Everybody's grades, and what each criterion is worth in the steps of this course.

    `killed` are the steps that were not graded since their processes were killed. It may have been the machine that
    lacked memory, or the submission that took it: the others are graded, and the command's exit code says so.
    """

    steps: list[str]
    worth: dict[str, float]
    students: list[StudentGrades] = field(default_factory=list)
    killed: list[str] = field(default_factory=list)

    @property
    def fault(self) -> str:
        """A line about what was killed; empty where nothing was."""
        return f"killed and not graded: {', '.join(self.killed)}; the same command grades it" if self.killed else ""


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
    result = ClassGrades(steps, worth_of(course, steps))
    with course_faults():
        grading = _Grading(course, steps, report, again, seed, empty_gradebook(course))
    with ExitStack() as stack:
        with course_faults():
            stack.enter_context(answers_kept(course.root))
        students = drive(map(grading.student, _longest_first(submissions, pool)), pool)
        order = [one.student for one in submissions]
        result.students = sorted(students, key=lambda grades: order.index(grades.student))
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
    steps: list[str]
    report: Report
    again: bool
    seed: int | None
    gradebook: bytes
    killed: list[str] = field(default_factory=list)
    undecided: set[tuple[str, str]] = field(default_factory=set)

    def student(self, submission: Submission) -> Generator[Piece, Done, StudentGrades]:
        """Yield the pieces of work on a submission, take what became of each, and return the grades."""
        graded = []
        for step in submission.steps:
            if (yield from self._step(submission, step)):
                graded.append(step)
        course, student = self.course, submission.student
        journal = Journal(course, student)
        with course_faults(), course.gradebook() as gradebook:
            for step in graded:
                changed, fault = journal.settle(gradebook, step)
                _note(submission, step, [fault] if fault else [])
                if changed or not course.feedback_page(student, step).is_file():
                    _note(submission, step, write_feedback(course, student, step))
            grades = summed(student, self.steps, {step: journal.record(step) for step in graded})
            if self.steps == course.graded:  # of a part of the steps not all is known
                write_notes(course.autograded(student), student, submission.notes)
        grades.notes = submission.notes
        undecided = [step for step in submission.steps if (student, step) in self.undecided]
        grades.ungraded = self.steps if submission.refused else undecided
        return grades

    def _step(self, submission: Submission, step: str) -> Generator[Piece, Done, bool]:
        course, student = self.course, submission.student
        note = partial(_note, submission, step)
        note(remove_links(course.root, student, step))
        journal = Journal(course, student)
        try:
            check_files(course, student, step)
            found = check_notebook(course, student, step)
        except InputError as error:
            return self._refused(journal, submission, step, str(error))
        with course_faults():
            unchanged = journal.done(step) and not self.again
            if not unchanged:
                done = yield Piece(course, journal.begin(step, self.seed), self.gradebook)
                if done.killed:
                    self.killed.append(f"{student} {step}")
                if done.killed or done.failed:
                    self.undecided.add((student, step))
                if done.refused:
                    return self._refused(journal, submission, step, done.refused)
                journal.end(done.record)
        note(found)
        if not unchanged:
            note(done.notes)
        self.report(student, step, UNCHANGED if unchanged else "graded")
        return True

    def _refused(self, journal: Journal, submission: Submission, step: str, reason: str) -> bool:
        line = _refusal(reason)
        if (submission.student, step) not in self.undecided:
            with course_faults():
                journal.refuse(step)
        _note(submission, step, [line])
        self.report(submission.student, step, line)
        return False


def _longest_first(submissions: list[Submission], pool: Pool) -> list[Submission]:
    """Return who handed in most steps first, where several are graded at a time: else all wait for their last ones.

    That is Graham's rule of the longest processing time (1969), with steps for times.
    """
    return sorted(submissions, key=lambda one: -len(one.steps)) if pool.at_once > 1 else submissions


def _refusal(reason: str) -> str:
    return f"refused: {' '.join(reason.split())}"


def _note(submission: Submission, step: str, lines: list[str]) -> None:
    said = [f"{step}: {line}" for line in lines]
    submission.notes += [note for note in said if note not in submission.notes]
