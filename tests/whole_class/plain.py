"""`python -m tests.whole_class.plain`: the grading command without what judges share, to compare with."""

from contextlib import nullcontext

import typer

from helpers.signals import clean_ends
from solutions.grading import __main__ as command
from solutions.grading import grade

grade.answers_kept = lambda root: nullcontext()

if __name__ == "__main__":
    with clean_ends():
        typer.run(command.main)
