"""`python -m tests.whole_class.plain`: the grading command in one process, with nothing shared or started ahead."""

from contextlib import nullcontext

import typer

from solutions.grading import __main__ as command
from solutions.grading import grade, run
from solutions.grading.work.pool import HERE

grade.answers_kept = lambda root: nullcontext()
run.chosen_pool = lambda *options: nullcontext(HERE)

if __name__ == "__main__":
    typer.run(command.main)
