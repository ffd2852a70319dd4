"""Visible checks: one call a task, an answer within seconds. `feedback.progress()` shows all notebooks,
`feedback.validate()` runs the notebook from clean.

What a check looks at stands in its step's room (helpers/checks/points); here it is run and shown.
"""

import os

from helpers.checks.feedback.check import visible
from helpers.checks.feedback.progress import progress
from helpers.checks.feedback.speed import check_speed
from helpers.checks.points.rooms import CHECKS

__all__ = ["check_speed", "progress", "validate", *sorted(CHECKS)]


def validate(notebook: str | None = None) -> None:
    """Execute a notebook from the start in a new kernel, show which test cells pass, and offer it for handing in.

    The file on disk is executed as it was saved, and not changed; in Colab, the notebook as it is in the browser (tried
    with a stand-in for Colab's modules). While nbgrader validates or grades, or this function does, it does nothing.

    Args:
        notebook: the file; without it the one that JupyterLab says this is, or the only step's in this folder.

    Raises:
        InputError: no file is named, and which it is cannot be told; or it is no notebook.
    """
    if not os.environ.get("NBGRADER_EXECUTION"):
        from helpers.checks.feedback.validation import (
            validated,  # what reads and runs notebooks takes a second to import
        )

        validated(notebook)


globals().update({name: visible(name, check) for name, check in CHECKS.items()})
