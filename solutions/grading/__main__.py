"""`python -m solutions.grading`: collects, autogrades, writes feedback and the class's grades. `make grade` runs it."""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from helpers.errors import LabError
from helpers.signals import clean_ends
from solutions.grading.collect import collect
from solutions.grading.course import Course
from solutions.grading.faults import course_faults
from solutions.grading.grade import ClassGrades, grade_class, register_steps
from solutions.grading.gradebook import back_up, check_gradebook
from solutions.grading.grades import table, write_grades
from solutions.grading.lock import course_lock
from solutions.grading.rebuild import rebuilt
from solutions.grading.roster import enrol, read_roster
from solutions.grading.submissions import Submission, find_submissions


def main(
    course: Annotated[Path, typer.Option(help="The folder with nbgrader_config.py and submitted/.")] = Path("."),
    student: Annotated[str, typer.Option(help="Grade this student only.")] = "",
    step: Annotated[str, typer.Option(help="Grade this step only, such as 02_fp16.")] = "",
    again: Annotated[bool, typer.Option("--again", help="Grade unchanged submissions again too.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait while another run grades this course.")] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Only write grades.csv and grades.json again, from the records alone.")
    ] = False,
    new_gradebook: Annotated[
        bool, typer.Option("--new-gradebook", help="Make a gradebook that is lost or damaged again, from the records.")
    ] = False,
) -> None:
    """Grade submitted/<student>/<step>/<step>.ipynb: points to grades.csv, feedback to feedback/<student>/<step>/."""
    warnings.simplefilter("ignore")  # nbgrader's and nbformat's own, about what is mended here
    console, errors = Console(soft_wrap=True), Console(stderr=True, soft_wrap=True)

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False)

    try:
        with course_faults():
            found = Course.at(course)
            with course_lock(found.root, wait=wait, say=say):
                if rebuild:
                    _rebuild(found, console, say)
                else:
                    check_gradebook(found, new=new_gradebook)
                    back_up(found)
                    _run(found, student, step, again, console, say)
    except (LabError, OSError) as error:
        errors.print(f"error: {' '.join(str(error).split())}", markup=False, highlight=False)
        sys.exit(2)


def _rebuild(course: Course, console: Console, say: Callable[[str], None]) -> None:
    result = rebuilt(course)
    for row in result.students:
        for note in row.notes:
            say(f"{row.student} · {note}")
    console.print(table(result.students, result.worth))
    write_grades(course.root, result.students, result.worth, result.steps)
    say("grades.csv · grades.json, from the records alone")


def _run(course: Course, student: str, step: str, again: bool, console: Console, say: Callable[[str], None]) -> None:
    for line in collect(course):
        say(line)
    steps = register_steps(course)
    everybody = find_submissions(course, steps)
    with course.gradebook() as gradebook:
        absent = enrol(gradebook, read_roster(course.root), everybody)
    if absent:
        say(f"nothing handed in by {', '.join(absent)}")
    submissions = [found for found in everybody if student in ("", found.student)]
    if not submissions:
        raise LabError(f"submitted/ has no folder {student!r}")
    if step and step not in steps:
        raise LabError(f"there is no step {step!r}; the steps are {', '.join(steps)}")
    result = _with_progress(course, submissions, steps, step, again, console)
    for row in result.students:
        for note in (note for note in row.notes if ": refused: " not in note):  # those were said above
            say(f"{row.student} · {note}")
    console.print(table(result.students, result.worth))
    if student or step:
        there = (course.root / "grades.csv").is_file()
        rest = "grades.csv was left as it is" if there else "grades.csv comes when the whole class is graded"
        say(f"A part of the class: {rest}")
        return
    write_grades(course.root, result.students, result.worth, steps)
    say("grades.csv · grades.json · feedback/<student>/<step>/")


def _with_progress(
    course: Course, submissions: list[Submission], steps: list[str], step: str, again: bool, console: Console
) -> ClassGrades:
    if step:
        for submission in submissions:
            submission.steps = [name for name in submission.steps if name == step]
        steps = [step]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("grading", total=sum(len(submission.steps) for submission in submissions))

        def report(student: str, name: str, line: str) -> None:
            progress.console.print(f"{student} · {name} · {line}", markup=False, highlight=False)
            progress.advance(task)

        return grade_class(course, submissions, steps, report, again=again)


if __name__ == "__main__":
    with clean_ends():
        typer.run(main)
