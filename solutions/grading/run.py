"""What `python -m solutions.grading` does with its options."""

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from helpers.course.steps import BY_NAME
from helpers.data.datasets import SHARED_SPLITS, load_dataset
from solutions.checks.core.seed import fresh_seed, use_seed
from solutions.grading.class_page import class_figures, write_class_page
from solutions.grading.collector import collect
from solutions.grading.course import Course
from solutions.grading.exports import PLATFORMS, write_export
from solutions.grading.faults import course_faults
from solutions.grading.grade import TO_GRADE, UNCHANGED, foretold, grade_class
from solutions.grading.gradebook import Journal, back_up, made_ready
from solutions.grading.grades import ClassGrades, check_worth, rebuilt, table, write_grades
from solutions.grading.locks import course_lock
from solutions.grading.scratch import remove_left_over
from solutions.grading.submissions import Submission, chosen_part, enrol, find_submissions, note_strangers, read_roster
from solutions.grading.untrusted.text import printable
from solutions.grading.work.pool import HERE, Pool, chosen_pool
from solutions.sandbox import chosen
from solutions.sandbox.choice import SAID
from trtcpu.errors import LabError

Say = Callable[[str], None]


@contextmanager
def one_line_a_fault() -> Iterator[tuple[Console, Say]]:
    """Give a console and a function that says a line there. If the block fails, say why in one line and exit with 2."""
    warnings.simplefilter("ignore")  # from nbgrader and nbformat, about things that are mended here
    console, errors = (Console(stderr=stderr, soft_wrap=True) for stderr in (False, True))
    try:
        with course_faults():
            yield console, lambda line: console.print(printable(line), markup=False, highlight=False)
    except (LabError, OSError) as error:
        errors.print(printable(f"error: {' '.join(str(error).split())}"), markup=False, highlight=False)
        sys.exit(2)


def run(
    *,
    course: Path,
    students: list[str] | None,
    steps: list[str] | None,
    jobs: int | None,
    scheduler: str,
    slurm: bool,
    resume: bool,
    dry_run: bool,
    export: list[str] | None,
    unsafe: bool,
    seed: int | None,
    wait: bool,
    rebuild: bool,
) -> None:
    """Grade a class by the command's options. Exit with 2 if that is impossible, with 1 if some steps were killed."""
    with one_line_a_fault() as (console, say):
        use_seed(seed)
        if unknown := [name for name in export or [] if name not in PLATFORMS]:
            raise LabError(f"no export for {unknown[0]!r}; there are {', '.join(PLATFORMS)}")
        if (students or steps) and (export or rebuild):
            option = "--rebuild" if rebuild else "--export"
            raise LabError(f"{option} is of the whole class: without --students, --steps")
        found = Course.at(course)
        if not rebuild:
            check_worth(found)
        if dry_run:
            return _foretold(found, students, steps, resume, say)
        with _task(found, slurm) as runner, course_lock(found.root, wait=wait, say=say):
            if rebuild:
                return _rebuild(found, export, console, say)
            make_ready(found, unsafe, say)
            back_up(found)
            remove_left_over()
            pool = chosen_pool(found, jobs, scheduler, runner, say)
            fault = _run(found, students, steps, resume, export, pool, console, say)
    if fault:
        sys.stderr.write(f"{printable(fault)}\n")
        sys.exit(1)


def make_ready(course: Course, unsafe: bool, say: Say) -> None:
    """Make the gradebook ready and choose the sandbox; `say` which sandbox, and whether the gradebook was lost."""
    if line := made_ready(course):
        say(line)
    sandbox = chosen(unsafe)
    course.config.GradeExecute.unsafe = unsafe
    say(f"sandbox: {SAID.get(sandbox, sandbox)}")


def _task(course: Course, slurm: bool) -> AbstractContextManager[Any]:
    """Become a task of the SLURM job if there is one. This has to be before the course is locked."""
    if not slurm:
        return nullcontext()
    from solutions.grading.work.pool import slurm_task

    return slurm_task(course)


def _rebuild(course: Course, export: list[str] | None, console: Console, say: Say) -> None:
    result = rebuilt(course)
    for row in result.students:
        for note in row.notes:
            say(f"{row.student} · {note}")
    console.print(table(result.students, result.worth))
    say(f"{' · '.join(_written(course, result, export))}, from the records alone")


def _written(course: Course, result: ClassGrades, export: list[str] | None) -> list[str]:
    """Write the class's files; return their names."""
    write_grades(course.root, result.students, result.worth, result.steps)
    figures = class_figures(course, result.students, result.worth, result.steps)
    files = [write_class_page(course.root, figures)]
    roster = read_roster(course.root) if export else []
    files += [path for name in export or [] for path in write_export(name, course, result, roster)]
    return ["grades.csv", "grades.json", *(path.name for path in files)]


_TAKES_IN = "`make grade` first takes in downloaded/, as said above"


def _foretold(course: Course, students: list[str] | None, steps: list[str] | None, resume: bool, say: Say) -> None:
    for line in collect(course, only_look=True):
        say(line)
    waiting = any(course.root.glob("downloaded/*/archive/*"))
    if waiting and not any(course.root.glob("submitted/*")):
        return say(_TAKES_IN)
    everybody = find_submissions(course, course.graded)
    note_strangers(read_roster(course.root), everybody)
    submissions, _ = chosen_part(everybody, course.graded, students, steps)
    count = 0
    for submission in submissions:
        for note in submission.notes:
            say(f"{submission.student} · {note}")
        for step, line in foretold(course, submission, again=not resume):
            count += line == TO_GRADE
            say(f"{submission.student} · {step} · {line}")
    say("; ".join([f"{count} to grade", *([_TAKES_IN] if waiting else [])]))


def _run(
    course: Course,
    students: list[str] | None,
    steps: list[str] | None,
    resume: bool,
    export: list[str] | None,
    pool: AbstractContextManager[Pool],
    console: Console,
    say: Say,
) -> str:
    """Collect, grade and write the grades; return a line about what was killed, if anything was."""
    for line in collect(course):
        say(line)
    all_steps = course.graded
    everybody = find_submissions(course, all_steps)
    with course.gradebook() as gradebook:
        absent = enrol(gradebook, read_roster(course.root), everybody)
    if absent:
        say(f"nothing handed in by {', '.join(absent)}")
    submissions, chosen = chosen_part(everybody, all_steps, students, steps)
    result = _with_progress(course, submissions, chosen, not resume, pool, console, say)
    for row in result.students:
        for note in (note for note in row.notes if ": refused: " not in note):  # said above
            say(f"{row.student} · {note}")
    console.print(table(result.students, result.worth))
    if students or steps:
        there = (course.root / "grades.csv").is_file()
        rest = "grades.csv was left as it is" if there else "grades.csv comes when the whole class is graded"
        say(f"A part of the class: {rest}")
    else:
        say(f"{' · '.join(_written(course, result, export))} · feedback/<student>/<step>/")
    return result.fault


def _render(course: Course, steps: list[str], say: Say) -> None:
    """Render the images that notebooks read, before all judges ask for them at once."""
    if "judge" in course.config.GradeExecute or not any(BY_NAME[step].images for step in steps):
        return
    data = load_dataset("digits")
    if missing := sum(map(data.missing, SHARED_SPLITS)):
        say(f"rendering {missing:,} images of digits, which all submissions share")
        for split in SHARED_SPLITS:
            data.images(split)


def _with_progress(
    course: Course,
    submissions: list[Submission],
    steps: list[str],
    again: bool,
    pool: AbstractContextManager[Pool],
    console: Console,
    say: Say,
) -> ClassGrades:
    to_grade = [step for one in submissions for step in Journal(course, one.student).to_grade(one.steps, again=again)]
    _render(course, to_grade, say)
    work = pool if to_grade else nullcontext(HERE)  # start no processes for nothing
    columns = (
        *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()),
        *(TextColumn("left"), TimeRemainingColumn(elapsed_when_finished=False)),
    )
    with work as workers, Progress(*columns, console=console, speed_estimate_period=3600) as progress:
        task = progress.add_task("grading", total=len(to_grade))

        def report(student: str, name: str, line: str) -> None:
            progress.console.print(printable(f"{student} · {name} · {line}"), markup=False, highlight=False)
            if line != UNCHANGED:  # which takes no time and would spoil the estimate
                progress.advance(task)

        return grade_class(course, submissions, steps, report, again=again, seed=fresh_seed(), pool=workers)
