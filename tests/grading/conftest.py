"""A made-up course in a temporary folder, with the repository's own nbgrader configuration."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbgrader import api

from solutions.grading.course import Course
from solutions.grading.grade import grade_class
from solutions.grading.grades import ClassGrades
from solutions.grading.labs import make_labs
from solutions.grading.layout import ROOT
from solutions.grading.submissions import Submission, find_submissions
from solutions.grading.work.pool import HERE, Pool
from tests.grading.tiny import CONFIG, STEP, source_notebook


@pytest.fixture(scope="session", autouse=True)
def _one_alembic() -> Iterator[None]:
    """nbgrader starts `alembic` for every new gradebook, seconds each, to ask for a version that does not change."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(api, "get_alembic_version", cache(api.get_alembic_version))
        yield


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """A course with one step, its labs/ made and the step in its gradebook."""
    return make_course(tmp_path_factory.mktemp("course"))


@pytest.fixture
def bare(tmp_path: Path) -> Course:
    """A course with its source and configuration, and nothing handed in."""
    return _bare_course(tmp_path)


def make_course(root: Path) -> Course:
    """Return the course that is made in an empty folder."""
    made = _bare_course(root)
    for package in ("checks", "grading", "sandbox"):
        (root / "solutions" / package).mkdir()
    make_labs(made, root / "labs")
    made.register(STEP)
    return made


def _bare_course(root: Path) -> Course:
    (root / "nbgrader_config.py").write_text((ROOT / "nbgrader_config.py").read_text() + CONFIG)
    (root / "solutions" / STEP).mkdir(parents=True)
    nbformat.write(source_notebook(), root / "solutions" / STEP / f"{STEP}.ipynb")
    return Course.at(root)


@pytest.fixture(scope="module")
def lab(course: Course) -> NotebookNode:
    """The notebook that students get."""
    return nbformat.read(course.root / "labs" / STEP / f"{STEP}.ipynb", as_version=4)


def hand_in(course: Course, student: str, notebook: NotebookNode | str | bytes) -> Path:
    """Write a submission of the step and return its path."""
    path = course.submitted(student, STEP)
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(notebook, NotebookNode):
        notebook = nbformat.writes(notebook)
    path.write_bytes(notebook.encode() if isinstance(notebook, str) else notebook)
    return path


def _nothing(*line: str) -> None:
    """Say nothing."""


def graded_class(course: Course, report: Callable[..., None] = _nothing, pool: Pool = HERE) -> ClassGrades:
    """Grade what was handed in, each step with a line to `report`."""
    return grade_class(course, find_submissions(course, [STEP]), [STEP], report, pool=pool)


def feedback_of(course: Course, student: str, notebook: NotebookNode) -> str:
    """Hand the step in, grade it, and return the student's page."""
    hand_in(course, student, notebook)
    grade_class(course, [Submission(student, [STEP])], [STEP], _nothing)
    return course.feedback_page(student, STEP).read_text()
