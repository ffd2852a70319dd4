"""trtlab grade and regrade: the class's submissions, by the commands that `make grade` runs."""

import os
import sys

import typer

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add `grade` and `regrade` to the command line; their options are the grading's own."""
    passed_on = {"allow_extra_args": True, "ignore_unknown_options": True}
    app.command("grade", context_settings=passed_on, add_help_option=False)(_grade)
    app.command("regrade", context_settings=passed_on, add_help_option=False)(_regrade)


def _grade(context: typer.Context) -> None:
    """Grade a class's submissions; --rebuild writes grades.csv again from the records alone."""
    _instead("solutions.grading", context.args)


def _regrade(context: typer.Context) -> None:
    """After a check was changed: whose points would move (--diff), then take that over (--publish)."""
    _instead("solutions.grading.regrade", context.args)


def _instead(module: str, arguments: list[str]) -> None:
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])
