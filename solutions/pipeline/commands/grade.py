"""trtlab grade: the class's submissions, graded by the command that `make grade` runs."""

import os
import sys

import typer

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add `grade` to the command line; its options are the grading's own."""
    passed_on = {"allow_extra_args": True, "ignore_unknown_options": True}
    app.command("grade", context_settings=passed_on, add_help_option=False)(_grade)


def _grade(context: typer.Context) -> None:
    """Grade a class's submissions; --rebuild writes grades.csv again from the records alone."""
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "solutions.grading", *context.args])
