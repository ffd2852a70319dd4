"""The commands that belong to the course: they run its own modules, in place of this process."""

import os
import sys
from importlib.util import find_spec
from typing import Annotated, NoReturn

from cyclopts import Parameter

from trtcpu.errors import InputError

_NEEDED = ("distributed", "jsonschema", "nh3")
_Rest = Annotated[str, Parameter(allow_leading_hyphen=True)]


def instead(module: str, *arguments: str) -> NoReturn:
    """Replace this process by `python -m module arguments`: nothing of the course is imported here."""
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])


def _graded(module: str, options: tuple[str, ...]) -> NoReturn:
    if missing := [name for name in _NEEDED if find_spec(name) is None]:
        raise InputError(f"grading needs {', '.join(missing)}, not installed here; run  make setup")
    instead(module, *options)


def grade(*options: _Rest) -> None:
    """Grade a class. --rebuild only writes grades.csv again, from the records."""
    _graded("solutions.grading", options)


def grade_one(*options: _Rest) -> None:
    """Grade one notebook and print its points and messages as JSON."""
    _graded("solutions.grading.grade_one", options)


def regrade(*options: _Rest) -> None:
    """After changing a check: show whose points would change (--diff), then accept it (--publish)."""
    _graded("solutions.grading.regrade", options)
