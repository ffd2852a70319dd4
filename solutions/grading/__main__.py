"""`python -m solutions.grading`: collects, autogrades, writes feedback and the class's grades. `make grade` runs it."""

from pathlib import Path
from typing import Annotated

import typer

from helpers.tools.signals import clean_ends


def main(
    course: Annotated[Path, typer.Option(help="The folder with nbgrader_config.py and submitted/.")] = Path("."),
    students: Annotated[list[str] | None, typer.Option(help="Only this student; repeat for more.")] = None,
    steps: Annotated[list[str] | None, typer.Option(help="Only this step, such as 02_fp16; repeat for more.")] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Submissions to grade at a time. Default: one per core, or one per GPU.")
    ] = None,
    scheduler: Annotated[str, typer.Option(help="Grade on the workers of this Dask scheduler, tcp://…:8786.")] = "",
    slurm: Annotated[
        bool,
        typer.Option("--slurm", help="Grade in this SLURM job, under srun. Deprecated: see docs/grading.md."),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume/--again", help="Skip submissions that have not changed, or grade all again.")
    ] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be graded.")] = False,
    export: Annotated[
        list[str] | None, typer.Option(help="Also write grades-….csv for a platform: canvas, moodle.")
    ] = None,
    unsafe: Annotated[bool, typer.Option("--unsafe-no-sandbox", help="Without a sandbox if none works here.")] = False,
    seed: Annotated[int | None, typer.Option(help="Use the inputs of the earlier run with this seed.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait if another run is grading this course.")] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Only write grades.csv and grades.json again, from the records.")
    ] = False,
) -> None:
    """Grade submitted/<student>/<step>/<step>.ipynb: points to grades.csv, feedback to feedback/<student>/<step>/."""
    asked = dict(locals())
    from solutions.grading.run import run  # all that it needs takes seconds to import, for which no --help waits

    run(**asked)


if __name__ == "__main__":
    with clean_ends():
        typer.run(main)
