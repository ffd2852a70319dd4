"""`python -m solutions.grading.regrade`: what a changed check would do to the class, before anything is published.

The class is graded once more in regraded/, a course of its own that shares notebooks and sources with the real one. A
run that was stopped continues. The real course's grades are only read, until --publish replaces them.
"""

import itertools
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from helpers.course.steps import ARTIFACTS, BY_NAME
from helpers.tools.files import atomic_path
from helpers.tools.signals import clean_ends
from solutions.checks.core.record import ClaimResult
from solutions.grading.course import Course
from solutions.grading.grade import grade_class
from solutions.grading.gradebook import Journal, copy_gradebook, held, made_ready
from solutions.grading.grades import check_worth
from solutions.grading.layout import artifacts_of, records_of
from solutions.grading.locks import course_lock
from solutions.grading.outcome import usable_record
from solutions.grading.run import Say, make_ready, one_line_a_fault
from solutions.grading.step_record import REFUSED, StepRecord, grades_folder
from solutions.grading.submissions import Submission, chosen_part, find_submissions
from solutions.grading.untrusted.text import printable
from solutions.grading.work.place import write_feedback
from solutions.grading.work.pool import Pool, chosen_pool
from trtcpu.errors import InputError

FOLDER = "regraded"
PUBLISHED = "published"
MEASURED, OVERRULED = "measured again", "a person's points stay"
_NO_CLAIM = ClaimResult("", "", points=0.0, earned=0.0, status="lost")
_CHANGED_SINCE = f"left out: {FOLDER}/ has it of other notebooks or checks than there are now; run --diff again"
_NOT_ALONE = f"left out: in {FOLDER}/ the steps before it were graded again too; publish those with it"


@dataclass(frozen=True)
class Moved:
    """A claim whose points differ.

    Attributes:
        why: its message now, or the earlier one if it has none now.
        note: MEASURED or OVERRULED, if one of them applies.
    """

    student: str
    step: str
    claim: str
    before: float
    after: float
    why: str
    note: str = ""


def preview(course: Course) -> Course:
    """Return the course in regraded/, made from what is graded now if it is not there yet."""
    root = course.root / FOLDER
    if not root.is_dir():
        making = course.root / f".{FOLDER}"
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir()
        for name in ("submitted", course.config.CourseDirectory.source_directory):
            (making / name).symlink_to(course.root / name)
        copy_gradebook(course.gradebook_file, making / course.gradebook_file.name)
        if (course.root / "autograded").is_dir():
            shutil.copytree(course.root / "autograded", making / "autograded", copy_function=_copy)
        making.rename(root)
    made = Course.at(root, course.root)
    made.config.CourseDirectory.db_url = f"sqlite:///{root / course.gradebook_file.name}"  # the course may name its own
    return made


def _copy(source: str, target: str) -> None:
    """Copy a file. An artifact, which is large and only ever replaced, gets a second name if its disk is the same."""
    if Path(source).name in ARTIFACTS:
        with suppress(OSError):
            os.link(source, target)
            return
    shutil.copy2(source, target)


def moves(course: Course, other: Course, students: list[str], steps: list[str]) -> Iterator[Moved]:
    """Yield the claims whose points in `other` differ from those in `course`."""
    with course.gradebook() as gradebook:
        for student, step in itertools.product(students, steps):
            given = held(gradebook, StepRecord(student, step)) or StepRecord(student, step)
            overruled = {name for name, cell in given.cells.items() if cell.manual is not None}
            before, after = (_claims(one, student, step) for one in (course, other))
            for cell, claim in {**before, **after}:
                old, new = (claims.get((cell, claim), _NO_CLAIM) for claims in (before, after))
                if old.earned != new.earned:
                    note = OVERRULED if cell in overruled else MEASURED if BY_NAME[step].cells[cell].timed else ""
                    yield Moved(student, step, claim, old.earned, new.earned, _why(old, new), note)


def _claims(course: Course, student: str, step: str) -> dict[tuple[str, str], ClaimResult]:
    folder = records_of(course.autograded(student))
    records = {cell: usable_record(folder / f"{cell}.json")[0] for cell in BY_NAME[step].cells}
    return {(cell, result.claim): result for cell, found in records.items() if found for result in found.results}


def _why(old: ClaimResult, new: ClaimResult) -> str:
    said = new.missed or old.missed
    return f"expected {said['expected']}, found {said['found']}" if said else new.evidence or old.evidence


def publish(course: Course, other: Course, student: str, steps: list[str]) -> Iterator[tuple[str, str]]:
    """Take the steps of a student that were graded in `other` into the course.

    Yields:
        Each of these steps with PUBLISHED, or with the reason why it was left out.
    """
    ours, theirs = Journal(course, student), Journal(other, student)
    for step in steps:
        found, now = theirs.record(step), ours.record(step)
        there = (grades_folder(other.autograded(student)) / f"{step}.json").is_file() and found.state != REFUSED
        if not there or (found.state, found.key, found.given) == (now.state, now.key, now.given):
            continue
        if not theirs.done(step):
            yield step, _CHANGED_SINCE
        elif found.key != ours.key(step):
            yield step, _NOT_ALONE
        else:
            _take(course, other, found, ours)
            yield step, PUBLISHED


def _take(course: Course, other: Course, found: StepRecord, journal: Journal) -> None:
    student, step = found.student, found.step
    folder = other.autograded(student)
    files = [
        *(folder / step / f"{step}.ipynb", folder / f"{step}.log", other.feedback_page(student, step)),
        *(records_of(folder) / f"{name}.json" for name in BY_NAME[step].cells),
        *(artifacts_of(folder) / name for name in BY_NAME[step].makes),
    ]
    journal.begin(step)
    for path in filter(Path.is_file, files):
        with atomic_path(course.root / path.relative_to(other.root)) as temporary:
            shutil.copyfile(path, temporary)
    journal.end(found)
    with course.gradebook() as gradebook:
        changed = journal.settle(gradebook, step, found.notes)
    if changed and write_feedback(course, student, step):  # with what a person gave since
        course.feedback_page(student, step).unlink(missing_ok=True)  # `make grade` says why there is none


def _table(found: list[Moved]) -> Table:
    columns = [
        Column(name, overflow="fold", justify="right" if name in ("before", "after") else "left")
        for name in ("student", "step", "claim", "before", "after", "why")
    ]
    shown = Table(*columns, title="Points that move", title_justify="left")
    for one in found:
        why = f"{one.note}: {one.why}" if one.note else one.why
        shown.add_row(
            escape(one.student), one.step, one.claim, f"{one.before:g}", f"{one.after:g}", escape(printable(why[:200]))
        )
    return shown


def main(
    course: Annotated[Path, typer.Option(help="The folder with nbgrader_config.py and submitted/.")] = Path("."),
    students: Annotated[list[str] | None, typer.Option(help="Only this student; repeat for more.")] = None,
    steps: Annotated[list[str] | None, typer.Option(help="Only this step, such as 02_fp16; repeat for more.")] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Grade again in regraded/ and show what changes.")] = False,
    published: Annotated[bool, typer.Option("--publish", help="Accept what --diff graded.")] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Submissions to grade at a time.")] = None,
    scheduler: Annotated[str, typer.Option(help="Grade on the workers of this Dask scheduler.")] = "",
    unsafe: Annotated[bool, typer.Option("--unsafe-no-sandbox", help="Without a sandbox if none works here.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait if another run is grading this course.")] = False,
) -> None:
    """Grade the class again beside its grades, show whose points would move and why, then publish."""
    with one_line_a_fault() as (console, say):
        if diff == published:
            raise InputError("choose one: --diff shows what would move, --publish takes it into the course")
        found = Course.at(course)
        if diff:
            check_worth(found)
        with course_lock(found.root, wait=wait, say=say):
            if line := made_ready(found):
                say(line)
            if published:
                return _publish(found, students, steps, say)
            part, names = chosen_part(find_submissions(found, found.graded), found.graded, students, steps)
            other = preview(found)
            make_ready(other, unsafe, say)
            with chosen_pool(other, jobs, scheduler, None, say) as pool:
                _compare(found, other, part, names, pool, console, say)


def _compare(
    course: Course,
    other: Course,
    part: list[Submission],
    names: list[str],
    pool: Pool,
    console: Console,
    say: Say,
) -> None:
    result = grade_class(other, part, names, lambda *line: say(" · ".join(line)), pool=pool)
    found = list(moves(course, other, [one.student for one in part], names))
    if found:
        console.print(_table(found))
    say(f"points of {_counted(found)} students would move; --publish takes them, nothing is changed yet")
    if result.fault:
        raise InputError(result.fault)


def _counted(found: list[Moved]) -> int:
    """Return how many students' points move, without those that were measured again or that a person decided."""
    return len({one.student for one in found if not one.note})


def _publish(course: Course, students: list[str] | None, steps: list[str] | None, say: Say) -> None:
    if not (course.root / FOLDER).is_dir():
        raise InputError(f"there is no {FOLDER}/: run --diff first")
    other = preview(course)
    part, names = chosen_part(find_submissions(course, course.graded), course.graded, students, steps)
    left = 0
    for one in part:
        for step, line in publish(course, other, one.student, names):
            say(f"{one.student} · {step} · {line}")
            left += line != PUBLISHED
    if left:
        raise InputError(f"{left} steps were left out, and {FOLDER}/ is kept for the next --diff")
    if students or steps:
        say(f"{FOLDER}/ keeps what was not chosen")
    else:
        shutil.rmtree(other.root)
    say("run  trtlab grade --rebuild  for grades.csv: it grades nothing again")


if __name__ == "__main__":
    with clean_ends():
        typer.run(main)
