"""The commands that belong to the course: they run its own modules, in place of this process."""

import os
import sys
from typing import NoReturn

import typer


def register(app: typer.Typer) -> None:
    """Add `grade` and `regrade` to the command line; their options are the grading's own."""
    passed_on = {"allow_extra_args": True, "ignore_unknown_options": True}
    app.command("grade", context_settings=passed_on, add_help_option=False)(_grade)
    app.command("regrade", context_settings=passed_on, add_help_option=False)(_regrade)


def instead(module: str, *arguments: str) -> NoReturn:
    """Replace this process by `python -m module arguments`: nothing of the course is imported here."""
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])


def _grade(context: typer.Context) -> None:
    """Grade a class's submissions; --rebuild writes grades.csv again from the records alone."""
    instead("solutions.grading", *context.args)


def _regrade(context: typer.Context) -> None:
    """After a check was changed: whose points would move (--diff), then take that over (--publish)."""
    instead("solutions.grading.regrade", *context.args)
