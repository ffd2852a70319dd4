"""`python -m solutions.grading`: collects, autogrades, writes feedback and the class's grades. `make grade` runs it."""

from pathlib import Path
from typing import Annotated

import typer

from helpers.tools.signals import clean_ends


def main(
    course: Annotated[Path, typer.Option(help="The folder with nbgrader_config.py and submitted/.")] = Path("."),
    students: Annotated[list[str] | None, typer.Option(help="Grade these only; once for each.")] = None,
    steps: Annotated[list[str] | None, typer.Option(help="Grade these only, such as 02_fp16; once for each.")] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Submissions at a time; without it one a core, or one a GPU.")
    ] = None,
    scheduler: Annotated[str, typer.Option(help="Grade on the workers of this scheduler of Dask, tcp://…:8786.")] = "",
    slurm: Annotated[
        bool,
        typer.Option("--slurm", help="Grade in this SLURM job, under srun; it will leave, see docs/grading.md."),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume/--again", help="Leave what was graded from the same files, or grade it again.")
    ] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be graded, and write nothing.")] = False,
    export: Annotated[
        list[str] | None, typer.Option(help="Write grades-….csv for a platform too: canvas, moodle.")
    ] = None,
    unsafe: Annotated[
        bool, typer.Option("--unsafe-no-sandbox", help="Grade without a sandbox where none works here.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="Draw the inputs of this earlier run again.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait while another run grades this course.")] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Only write grades.csv and grades.json again, from the records alone.")
    ] = False,
) -> None:
    """Grade submitted/<student>/<step>/<step>.ipynb: points to grades.csv, feedback to feedback/<student>/<step>/."""
    asked = dict(locals())
    from solutions.grading.run import run  # all that it needs takes seconds to import, for which no --help waits

    run(**asked)


if __name__ == "__main__":
    with clean_ends():
        typer.run(main)
