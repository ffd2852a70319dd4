"""Visible checks: one call per task, a result within seconds. `feedback.progress()` shows all notebooks,
`feedback.validate()` runs the notebook in a new kernel.

Each step's room in helpers/checks/points says what is checked. This package runs the checks and shows their results.
"""

import os

from helpers.checks.feedback.check import visible
from helpers.checks.feedback.progress import progress
from helpers.checks.feedback.speed import check_speed
from helpers.checks.points.rooms import CHECKS

__all__ = ["check_speed", "progress", "validate", *sorted(CHECKS)]


def validate(notebook: str | None = None) -> None:
    """Run a notebook from the top in a new kernel, show which test cells pass, and name the file to hand in.

    It runs the saved file and does not change it. In Colab it runs the notebook in the browser (tested with a stand-in
    for Colab's modules). While nbgrader or this function runs the notebook, it does nothing.

    Args:
        notebook: the file. By default the one open in JupyterLab, or the only step's notebook in this folder.

    Raises:
        InputError: no file is named and it is not clear which one is meant, or the file is not a notebook.
    """
    if not os.environ.get("NBGRADER_EXECUTION"):
        from helpers.checks.feedback.validation import (
            validated,  # importing what runs notebooks takes a second
        )

        validated(notebook)


globals().update({name: visible(name, check) for name, check in CHECKS.items()})
