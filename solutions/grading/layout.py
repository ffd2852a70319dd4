"""Where a course keeps things, the environment of its processes, and which code decides points.

nbgrader_config.py imports this module.
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
from helpers.tools.term import FILE, TERM
from solutions.sandbox.room import EXCHANGE

ROOT = Path(__file__).resolve().parents[2]

# Grading always uses the quick settings.
QUICK = {"TRT_LAB_QUICK": "1"}

_ANSWERS = ".answers"
_CODE = ("helpers", "trtcpu", "trtlab", "solutions/checks", "solutions/grading", "solutions/sandbox")

# What grading writes for a student's step; a folder comes before its content.
_WRITTEN = (
    *("autograded/{student}", "autograded/{student}/records", "autograded/{student}/artifacts"),
    *("autograded/{student}/grades", "autograded/{student}/{step}", "autograded/{student}/{step}.log"),
    *("autograded/{student}/{step}/{step}.ipynb", "autograded/{student}/grades/{step}.json"),
    *("feedback/{student}", "feedback/{student}/{step}", "feedback/{student}/{step}/{step}.html"),
)


class StepFolders(str):
    """nbgrader's directory structure, in which "every assignment" means the numbered steps.

    To list a course nbgrader asks for the path of assignment `*` and takes every folder that matches. The packages
    checks, grading and sandbox lie beside the steps in solutions/; this keeps them from being assignments.
    """

    def format(self, *args: Any, **fields: Any) -> str:
        """Fill in the fields; `assignment_id="*"` becomes the glob of the steps."""
        if fields.get("assignment_id") == "*":
            fields["assignment_id"] = "[0-9][0-9]_*"
        return super().format(*args, **fields)


def course_config(root: str | Path) -> Config:
    """Return the configuration in `root`/nbgrader_config.py, which takes its own folder for the course's.

    Raises:
        ConfigFileNotFound: there is no such file.
    """
    return PyFileConfigLoader("nbgrader_config.py", path=str(root)).load_config()


def exchange_folder(root: Path) -> str:
    """Return nbgrader's exchange folder: the system's if an administrator made one, else one in `root`.

    This course uses neither, but without one formgrader shows a warning on every page.
    """
    if os.path.isdir(EXCHANGE) and os.access(EXCHANGE, os.W_OK | os.X_OK):
        return EXCHANGE
    own = root / ".exchange"
    with suppress(OSError):  # somebody else's folder, which is only read here
        own.mkdir(exist_ok=True)
    return str(own)


def scripts_on_path() -> None:
    """Put this Python's scripts on the PATH: nbgrader calls `alembic` by name when it makes a gradebook."""
    scripts = sysconfig.get_path("scripts")
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    if scripts not in path:
        os.environ["PATH"] = os.pathsep.join([scripts, *path])


def remove_links(root: Path, student: str, step: str) -> list[str]:
    """Remove the links that lie where a student's graded step is written; return a line for each.

    Nothing may be written or removed through them. autograded/ and feedback/ themselves may be links, since whoever set
    up the course made those.
    """
    removed = []
    for name in _WRITTEN:
        place = root / name.format(student=student, step=step)
        if place.is_symlink():
            place.unlink()
            removed.append(f"{place.relative_to(root)} was a link, which was not followed: removed")
    return removed


def artifacts_of(student_folder: Path) -> Path:
    """Return the folder of a student's artifacts; `student_folder` is autograded/<student>."""
    return student_folder / "artifacts"


def records_of(student_folder: Path) -> Path:
    """Return the folder with the records of a student's test cells."""
    return student_folder / "records"


@contextmanager
def answers_kept(root: Path) -> Iterator[None]:
    """Let the judges of a course share remembered answers in the block; they are removed before and after."""
    folder = root / _ANSWERS
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def settings() -> dict[str, str]:
    """Return the variables that decide what is graded and how; if they leave it open, course.toml does."""
    found = {"TRT_LAB_ENGINE": TERM.engine, "TRT_LAB_MODEL": TERM.model, "TRT_LAB_API": ""}
    found |= {name: os.environ[name] for name in found if os.environ.get(name, "auto") != "auto"}
    return {name: value for name, value in found.items() if value}


def judge_environment() -> dict[str, str]:
    """Return a judge's environment: this process's with the quick settings."""
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, **QUICK, "PYTHONPATH": os.pathsep.join(path)}


def answers_of(student_folder: Path) -> Path | None:
    """Return the folder of the answers remembered in this run (judge/child.py); None if none are kept."""
    answers = student_folder.parents[1] / _ANSWERS
    return answers if answers.is_dir() else None


def kernel_environment(offered: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a grading kernel gets besides the sandbox's own; `offered` are the judge's."""
    return {**QUICK, "NBGRADER_EXECUTION": "autograde", **offered}


@cache
def code_digest() -> str:
    """Return a digest of all the code that decides points, and of course.toml."""
    return digest_of(code().union(ROOT.glob(FILE)))


@cache
def code() -> frozenset[Path]:
    """Return the files of all the code that decides points."""
    return frozenset(path for folder in _CODE for path in (ROOT / folder).rglob("*.py"))


@cache
def checks_of(step: str = "") -> frozenset[Path]:
    """Return the files of a step's own checks, or of all steps'. No other code imports them, and no other step's."""
    rooms = (ROOT / "solutions" / "checks").glob(f"s{step[:2] or '[0-9][0-9]'}_*")
    return frozenset(path for room in rooms for path in ([room] if room.suffix else room.rglob("*.py")))


@cache
def digest_of(paths: frozenset[Path]) -> str:
    """Return a digest of these files of the project."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path.relative_to(ROOT)}:{sha256(path)}\n".encode())
    return digest.hexdigest()
