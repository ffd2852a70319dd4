"""`python -m solutions.grading`: collects, autogrades, writes feedback and the class's grades. `make grade` runs it."""

import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from helpers.errors import LabError
from helpers.signals import clean_ends
from solutions.grading.collect import collect
from solutions.grading.course import Course
from solutions.grading.grade import ClassGrades, grade_class, register_steps
from solutions.grading.grades import table, write_grades
from solutions.grading.roster import enrol, read_roster
from solutions.grading.submissions import Submission, find_submissions


def main(
    course: Annotated[Path, typer.Option(help="The folder with nbgrader_config.py and submitted/.")] = Path("."),
    student: Annotated[str, typer.Option(help="Grade this student only.")] = "",
    step: Annotated[str, typer.Option(help="Grade this step only, such as 02_fp16.")] = "",
    again: Annotated[bool, typer.Option("--again", help="Grade unchanged submissions again too.")] = False,
) -> None:
    """Grade submitted/<student>/<step>/<step>.ipynb: points to grades.csv, feedback to feedback/<student>/<step>/."""
    warnings.simplefilter("ignore")  # nbgrader's and nbformat's own, about what is mended here
    console, errors = Console(soft_wrap=True), Console(stderr=True, soft_wrap=True)
    try:
        _run(Course.at(course), student, step, again, console)
    except LabError as error:
        errors.print(f"error: {' '.join(str(error).split())}", markup=False, highlight=False)
        sys.exit(2)


def _run(course: Course, student: str, step: str, again: bool, console: Console) -> None:
    for line in collect(course):
        console.print(line, markup=False, highlight=False)
    steps = register_steps(course)
    everybody = find_submissions(course, steps)
    with course.gradebook() as gradebook:
        absent = enrol(gradebook, read_roster(course.root), everybody)
    if absent:
        console.print(f"nothing handed in by {', '.join(absent)}", markup=False, highlight=False)
    submissions = [found for found in everybody if student in ("", found.student)]
    if not submissions:
        raise LabError(f"submitted/ has no folder {student!r}")
    if step and step not in steps:
        raise LabError(f"there is no step {step!r}; the steps are {', '.join(steps)}")
    result = _with_progress(course, submissions, steps, step, again, console)
    for row in result.students:
        for note in (note for note in row.notes if ": refused: " not in note):  # those were said above
            console.print(f"{row.student} · {note}", markup=False, highlight=False)
    console.print(table(result.students, result.worth))
    if student or step:
        there = (course.root / "grades.csv").is_file()
        rest = "grades.csv was left as it is" if there else "grades.csv comes when the whole class is graded"
        console.print(f"A part of the class: {rest}")
        return
    write_grades(course.root, result.students, result.worth, steps)
    console.print("grades.csv · grades.json · feedback/<student>/<step>/")


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
