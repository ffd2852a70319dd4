"""Where the course keeps things, what its processes are told of it, and which code decides points.

Imported by nbgrader_config.py.
"""

import hashlib
import os
import shutil
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from helpers.tools.files import sha256
from solutions.sandbox.room import EXCHANGE

ROOT = Path(__file__).resolve().parents[2]

# The variables that decide what is graded, and how.
SETTINGS = ("TRT_LAB_ENGINE", "TRT_LAB_API", "TRT_LAB_MODEL")
# The settings of whoever grades.
QUICK = {"TRT_LAB_QUICK": "1"}

_ANSWERS = ".answers"
_CODE = ("helpers", "trtcpu", "trtlab", "solutions/checks", "solutions/grading", "solutions/sandbox")

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


def artifacts_of(student_folder: Path) -> Path:
    """Return where a student's artifacts are kept between steps; `student_folder` is autograded/<student>."""
    return student_folder / "artifacts"


def records_of(student_folder: Path) -> Path:
    """Return where the records of a student's test cells are kept."""
    return student_folder / "records"


@contextmanager
def answers_kept(root: Path) -> Iterator[None]:
    """Let the judges of a course share what they are answered in the block; nothing of it outlives a run."""
    folder = root / _ANSWERS
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def judge_environment() -> dict[str, str]:
    """Return the environment that a judge is started with: this process's, and quick settings."""
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, **QUICK, "PYTHONPATH": os.pathsep.join(path)}


def answers_of(student_folder: Path) -> Path | None:
    """Return where the answers are that are known in this run (judge/memory.py); None where nothing is kept."""
    answers = student_folder.parents[1] / _ANSWERS
    return answers if answers.is_dir() else None


def kernel_environment(offered: Mapping[str, str]) -> dict[str, str]:
    """Return what a kernel that grades is told besides the sandbox's allow-list, and what is `offered`."""
    return {**QUICK, "NBGRADER_EXECUTION": "autograde", **offered}


@cache
def code_digest() -> str:
    """Return a digest of all code that decides points."""
    return digest_of(code())


@cache
def code() -> frozenset[Path]:
    """Return the files of all code that decides points."""
    return frozenset(path for folder in _CODE for path in (ROOT / folder).rglob("*.py"))


@cache
def checks_of(step: str = "") -> frozenset[Path]:
    """Return the code of the step's own checks, or of all steps': other code imports none, and no step another's."""
    rooms = (ROOT / "solutions" / "checks").glob(f"s{step[:2] or '[0-9][0-9]'}_*")
    return frozenset(path for room in rooms for path in ([room] if room.suffix else room.rglob("*.py")))


@cache
def digest_of(paths: frozenset[Path]) -> str:
    """Return a digest of files of the project."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path.relative_to(ROOT)}:{sha256(path)}\n".encode())
    return digest.hexdigest()
