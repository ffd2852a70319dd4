"""The course as nbgrader sees it, driven from Python: assignments, autograding, feedback."""

import logging
import os
import re
import sys
import tempfile
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.converters import Autograde, GenerateAssignment, GenerateFeedback
from nbgrader.converters.base import BaseConverter, NbGraderException
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import ClearSolutions
from nbgrader.utils import compute_checksum, is_grade, is_locked, is_solution, is_task
from sqlalchemy.engine import make_url
from traitlets.config import Config
from traitlets.config.loader import ConfigFileNotFound

from helpers.course.handout import read_notebook
from helpers.course.steps import CHAPTERS, NOTEBOOKS
from helpers.tools.files import atomic_write
from helpers.tools.term import TERM
from solutions.grading.faults import CourseError, course_fault
from solutions.grading.layout import course_config
from solutions.grading.outcome import CLAIMS
from solutions.grading.untrusted.text import printable
from solutions.grading.untrusted.timestamps import guard_timestamps
from trtcpu.errors import EngineError, InputError

# A command that is stopped in the middle of a query says so in one line; SQLAlchemy would log a traceback to stderr.
logging.getLogger("sqlalchemy").addHandler(logging.NullHandler())

_RAISED = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception|Failure|Interrupt)): (.*)$")


@dataclass
class Course:
    """A course folder with its configuration. Every method works on one step, so that a failure affects only that."""

    root: Path
    config: Config
    steps: tuple[str, ...] = NOTEBOOKS

    @classmethod
    def at(cls, root: str | Path, config_from: str | Path | None = None) -> "Course":
        """Return the course in `root`, configured by its nbgrader_config.py or by the one in `config_from`.

        Raises:
            InputError: there is no such file.
        """
        try:
            config = course_config(config_from or root)
        except ConfigFileNotFound as error:
            raise InputError(f"{config_from or root} is no course: it has no nbgrader_config.py") from error
        config.CourseDirectory.root = str(Path(root).resolve())
        return cls(Path(root).resolve(), config)

    @property
    def present(self) -> list[str]:
        """The steps whose source notebook is there, in order."""
        return [step for step in self.steps if self.source(step).is_file()]

    @property
    def graded(self) -> list[str]:
        """The present steps that have points. A chapter is only read, and nobody hands it in."""
        return [step for step in self.present if step not in CHAPTERS]

    def source(self, step: str) -> Path:
        """Return the path of a step's source notebook."""
        return self.root / self.config.CourseDirectory.source_directory / step / f"{step}.ipynb"

    def notebook(self, step: str) -> NotebookNode:
        """Return a step's source notebook with the course's points."""
        return with_points(read_notebook(self.source(step)))

    def submitted(self, student: str, step: str) -> Path:
        """Return the path of a student's notebook as it was handed in."""
        return self.root / "submitted" / student / step / f"{step}.ipynb"

    def autograded(self, student: str) -> Path:
        """Return the folder of a student's graded notebooks, artifacts and records."""
        return self.root / "autograded" / student

    def feedback_page(self, student: str, step: str) -> Path:
        """Return the path of a student's feedback page of a step."""
        return self.root / "feedback" / student / step / f"{step}.html"

    @property
    def claims(self) -> str:
        """The code that decides the points of the test cell {cell} when a solution notebook is executed."""
        return self.config.Solve.get("claims", CLAIMS)

    @property
    def gradebook_address(self) -> str:
        """The gradebook's address, as SQLAlchemy takes it."""
        return self._directory().db_url

    @property
    def gradebook_file(self) -> Path:
        """The gradebook's file.

        Raises:
            InputError: the gradebook is on a database server, where it cannot be copied.
        """
        address = make_url(self.gradebook_address)
        if address.get_backend_name() != "sqlite":
            raise InputError(f"the gradebook is at {address}; let CourseDirectory.db_url name a file, sqlite:///…")
        return Path(address.database)

    def gradebook(self) -> Gradebook:
        """Open the gradebook; use it as a context manager."""
        return Gradebook(self.gradebook_address)

    def generate(self, step: str, folder: Path, *, register: bool = False) -> None:
        """Write the students' version of a step to `folder`/<step>; with `register`, put the step into the gradebook.

        Raises:
            InputError: nbgrader could not make it; the message ends with the reason.
        """
        config = deepcopy(self.config)
        config.CourseDirectory.release_directory = str(folder)
        config.GenerateAssignment.no_database = not register
        directory = self._directory(config, assignment_id=step)
        converter = GenerateAssignment(coursedir=directory, config=config, force=True)
        kept = [one for one in converter.preprocessors if register or one.__name__ != "SaveCells"]
        converter.preprocessors = [lambda notebook, resources: (with_points(notebook), resources), *kept]
        _start(converter, f"cannot generate {step}")

    def register(self, step: str) -> bool:
        """Put a step into the gradebook if it is missing or the source has changed; return whether that was needed.

        Raises:
            InputError: the gradebook has submissions of a version with other test cells.
        """
        if self._registered(step) == self._cells(step):
            return False
        with tempfile.TemporaryDirectory() as folder:
            self.generate(step, Path(folder), register=True)
        return True

    def autograde(self, student: str, step: str) -> None:
        """Run nbgrader's autograde on one submission, even if it was graded before; keep its log beside the result.

        Raises:
            InputError: it could not be graded; the message ends with the reason.
            CourseError: the course's disk or gradebook failed.
        """
        directory = self._directory(student_id=student, assignment_id=step)
        converter = Autograde(coursedir=directory, config=self.config, force=True)
        _start(converter, f"{step} could not be graded", self.autograded(student) / f"{step}.log")

    def feedback(self, student: str, step: str) -> None:
        """Write nbgrader's feedback HTML to feedback/<student>/<step>/.

        Raises:
            InputError: it could not be written; the message ends with the reason.
            CourseError: the course's disk or gradebook failed.
        """
        directory = self._directory(student_id=student, assignment_id=step)
        converter = GenerateFeedback(coursedir=directory, config=self.config, force=True)
        _start(converter, f"no feedback for {step}")

    def _directory(self, config: Config | None = None, **chosen: str) -> CourseDirectory:
        guard_timestamps()  # this process may not have read nbgrader_config.py
        return CourseDirectory(config=config or self.config, **chosen)

    def _cells(self, step: str) -> dict[str, str]:
        """Return the checksum of each nbgrader cell of the source, as generate_assignment computes it."""
        source, _ = ClearSolutions(config=self.config).preprocess(self.notebook(step), {})
        kinds = (is_grade, is_solution, is_locked, is_task)
        cells = [cell for cell in source.cells if any(kind(cell) for kind in kinds)]
        return {cell.metadata.nbgrader.grade_id: compute_checksum(cell) for cell in cells}

    def _registered(self, step: str) -> dict[str, str]:
        with self.gradebook() as gradebook:
            try:
                return {cell.name: cell.checksum for cell in gradebook.find_notebook(step, step).source_cells}
            except MissingEntry:
                return {}


def with_points(notebook: NotebookNode) -> NotebookNode:
    """Give a source notebook's graded cells the points of course.toml, in place, and return it."""
    for cell in filter(is_grade, notebook.cells):
        about = cell.metadata.nbgrader
        about.points = TERM.points.get(about.grade_id, about.points)
    return notebook


def _start(converter: BaseConverter, failed: str, log: Path | None = None) -> None:
    """Run a converter, keep its log, and turn what it raises into one line."""
    here, kept = os.getcwd(), _Lines()
    converter.log = logging.Logger("grading", logging.INFO)
    converter.log.addHandler(kept)
    try:
        converter.start()
    except (Exception, SystemExit) as error:
        if fault := course_fault(error) or course_fault(kept.raised):
            raise fault from error
        ours = isinstance(error, EngineError) or isinstance(kept.raised, EngineError)
        raise (EngineError if ours else InputError)(f"{failed}: {_reason(kept.lines, error)}") from error
    finally:
        os.chdir(here)
        if log is not None:
            _keep(log, kept.lines)


def _keep(log: Path, lines: list[str]) -> None:
    try:
        atomic_write(log, "".join(f"{printable(part)}\n" for line in lines for part in line.splitlines()))
    except InputError as error:
        raise CourseError(str(error)) from error


class _Lines(logging.Handler):
    """Keeps what is logged, and the last exception that was being handled: nbgrader passes none on."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        self.lines: list[str] = []
        self.raised: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the formatted record."""
        self.lines.append(self.format(record))
        self.raised = sys.exc_info()[1] or self.raised


def _reason(lines: list[str], error: BaseException) -> str:
    """Return why a conversion failed: nbgrader logs the traceback and only raises that there was one."""
    if not isinstance(error, NbGraderException):
        said = str(error).splitlines() or ["no reason given"]
        return f"{type(error).__name__}: {said[0]}"
    logged = "\n".join(lines).splitlines()
    raised = [found for line in logged if (found := _RAISED.match(line.strip()))]
    named = [found for found in raised if found[1] != "NbGraderException"]
    return named[-1][2][:300] if named else str(error)[:300]
