"""Where the course keeps things, and which folders of solutions/ are assignments. Imported by nbgrader_config.py."""

import os
import sysconfig
from contextlib import suppress
from pathlib import Path
from typing import Any

from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from solutions.sandbox.room import EXCHANGE

ROOT = Path(__file__).resolve().parents[2]

# What is written of a student's step; a folder stands before what lies in it.
_WRITTEN = (
    *("autograded/{student}", "autograded/{student}/records", "autograded/{student}/artifacts"),
    *("autograded/{student}/grades", "autograded/{student}/{step}", "autograded/{student}/{step}.log"),
    *("autograded/{student}/{step}/{step}.ipynb", "autograded/{student}/grades/{step}.json"),
    *("feedback/{student}", "feedback/{student}/{step}", "feedback/{student}/{step}/{step}.html"),
)


class StepFolders(str):
    """nbgrader's directory structure, where "every assignment" means the numbered steps.

    nbgrader asks for the path of assignment `*` to list a course, and takes each folder that matches. In solutions/ the
    packages checks, grading and sandbox lie beside the steps; with this they are no assignments.
    """

    def format(self, *args: Any, **fields: Any) -> str:
        """Fill in the fields; `assignment_id="*"` becomes the glob of the steps."""
        if fields.get("assignment_id") == "*":
            fields["assignment_id"] = "[0-9][0-9]_*"
        return super().format(*args, **fields)


def course_config(root: str | Path) -> Config:
    """Return the configuration in `root`/nbgrader_config.py, which names its own folder as the course's.

    Raises:
        ConfigFileNotFound: there is no such file.
    """
    return PyFileConfigLoader("nbgrader_config.py", path=str(root)).load_config()


def exchange_folder(root: Path) -> str:
    """Return nbgrader's folder for handing out and in: the system's where an administrator made one, else `root`'s own.

    This course needs neither. But formgrader warns on every page where there is none.
    """
    if os.path.isdir(EXCHANGE) and os.access(EXCHANGE, os.W_OK | os.X_OK):
        return EXCHANGE
    own = root / ".exchange"
    with suppress(OSError):  # a folder of somebody else's, who only reads here
        own.mkdir(exist_ok=True)
    return str(own)


def scripts_on_path() -> None:
    """Put this Python's scripts on the PATH: nbgrader runs `alembic` by name when it makes a gradebook."""
    scripts = sysconfig.get_path("scripts")
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    if scripts not in path:
        os.environ["PATH"] = os.pathsep.join([scripts, *path])


def remove_links(root: Path, student: str, step: str) -> list[str]:
    """Remove each link that lies where a student's graded step is written; return a line for each.

    No file may be written or removed through one. The course's own folders (autograded/, feedback/) may be links: who
    set up the course made them.
    """
    removed = []
    for name in _WRITTEN:
        place = root / name.format(student=student, step=step)
        if place.is_symlink():
            place.unlink()
            removed.append(f"{place.relative_to(root)} was a link, which was not followed: removed")
    return removed
