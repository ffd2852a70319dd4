"""`python -m tests.faults.command`: solutions.grading, with no artifacts to prepare for the made-up step."""

import typer

from helpers.signals import clean_ends
from solutions.grading import __main__ as grading
from solutions.grading import execute

if __name__ == "__main__":
    execute.prepared = lambda step, folder: ([], {})
    with clean_ends():
        typer.run(grading.main)
