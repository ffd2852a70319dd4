"""The commands that belong to the course: they run its own modules, in place of this process."""

import os
import sys
from typing import Annotated, NoReturn

from cyclopts import Parameter

_Rest = Annotated[str, Parameter(allow_leading_hyphen=True)]


def instead(module: str, *arguments: str) -> NoReturn:
    """Replace this process by `python -m module arguments`: nothing of the course is imported here."""
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])


def grade(*options: _Rest) -> None:
    """Grade a class's submissions; --rebuild writes grades.csv again from the records alone."""
    instead("solutions.grading", *options)


def grade_one(*options: _Rest) -> None:
    """Grade one notebook; print its points and messages as JSON."""
    instead("solutions.grading.grade_one", *options)


def regrade(*options: _Rest) -> None:
    """After a check was changed: whose points would move (--diff), then take that over (--publish)."""
    instead("solutions.grading.regrade", *options)
