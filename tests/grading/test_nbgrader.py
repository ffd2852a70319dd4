"""nbgrader's own doors: the list of assignments, `nbgrader autograde`, formgrader over HTTP, Validate."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
import requests
from nbformat import NotebookNode
from nbgrader.apps.api import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from nbgrader.validator import Validator

from helpers.course.steps import NOTEBOOKS
from solutions.grading.course import Course
from solutions.grading.layout import ROOT, StepFolders, course_config, exchange_folder
from tests.browser.jupyter_server import JupyterServer
from tests.grading.conftest import hand_in
from tests.grading.tiny import STEP, index_of, solved

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # nbgrader's own


def _listed(root: Path) -> set[str]:
    config = course_config(root)
    return NbGraderAPI(CourseDirectory(config=config), config=config).get_source_assignments()


def test_formgrader_lists_the_steps_and_nothing_else(course: Course) -> None:
    assert _listed(course.root) == {STEP}
    assert _listed(ROOT) == {step for step in NOTEBOOKS if (ROOT / "solutions" / step).is_dir()}


def test_the_directory_structure_is_an_ordinary_one_but_for_every_assignment() -> None:
    structure = StepFolders("{nbgrader_step}/{student_id}/{assignment_id}")
    fields = {"nbgrader_step": "submitted", "student_id": "ada", "assignment_id": STEP}
    assert structure.format(**fields) == f"submitted/ada/{STEP}"
    assert structure.format(**{**fields, "assignment_id": "*"}) == "submitted/ada/[0-9][0-9]_*"


def test_plain_nbgrader_autograde_takes_the_same_way(course: Course, lab: NotebookNode) -> None:
    hand_in(course, "plain", solved(lab, "cube"))
    command = [sys.executable, "-m", "nbgrader", "autograde", STEP, "--student", "plain"]
    done = subprocess.run(command, cwd=course.root, env=_environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    graded = nbformat.read(course.autograded("plain") / STEP / f"{STEP}.ipynb", as_version=4)
    assert "Simplify the graph: 2 of 2 points" in str(graded.cells[index_of(graded, "simplify_model")].outputs)
    assert (course.autograded("plain") / "records" / "export_model.json").is_file()


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "TRT_LAB_ENGINE": "cpu"}


def _address(server: JupyterServer) -> str:
    return f"http://127.0.0.1:{server.port}"


@pytest.fixture(scope="module")
def server(course: Course, lab: NotebookNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterServer]:
    """JupyterLab's server in the course's folder."""
    hand_in(course, "ada", solved(lab))
    environment = {"PYTHONPATH": str(ROOT), "TRT_LAB_ENGINE": "cpu"}
    with JupyterServer(course.root, tmp_path_factory.mktemp("home"), environment) as running:
        yield running


@pytest.fixture(scope="module")
def session(server: JupyterServer) -> requests.Session:
    """A browser's session: the token, and the cookie and header against forged requests."""
    found = requests.Session()
    found.headers["Authorization"] = f"token {server.token}"
    found.get(f"{_address(server)}/lab")
    found.headers["X-XSRFToken"] = found.cookies.get("_xsrf", "")
    return found


def test_the_formgrader_lists_the_course_over_http(server: JupyterServer, session: requests.Session) -> None:
    assert session.get(f"{_address(server)}/formgrader").ok
    assignments = session.get(f"{_address(server)}/formgrader/api/assignments").json()
    assert [(found["name"], found["max_score"]) for found in assignments] == [(STEP, 5.0)]


def test_the_formgrader_warns_of_nothing(server: JupyterServer, session: requests.Session) -> None:
    page = session.get(f"{_address(server)}/formgrader/manage_assignments").text
    assert "Add new assignment" in page and "alert-warning" not in page


def test_the_formgraders_button_grades_as_make_grade_does(server: JupyterServer, session: requests.Session) -> None:
    answer = session.post(f"{_address(server)}/formgrader/api/submission/{STEP}/ada/autograde")
    assert answer.json()["success"], answer.json()
    submission = session.get(f"{_address(server)}/formgrader/api/submission/{STEP}/ada").json()
    assert (submission["score"], submission["autograded"]) == (5.0, True)
    notebooks = session.get(f"{_address(server)}/formgrader/api/submitted_notebooks/{STEP}/{STEP}").json()
    own = next(row["id"] for row in notebooks if row["student"] == "ada")
    page = session.get(f"{_address(server)}/formgrader/submissions/{own}")
    assert page.ok and "Export to ONNX: 3 of 3 points" in page.text


def test_the_lab_extension_validates_over_http(server: JupyterServer, session: requests.Session) -> None:
    answer = session.post(f"{_address(server)}/assignments/validate", data={"path": f"labs/{STEP}/{STEP}.ipynb"})
    failed = json.loads(answer.text)["value"]["failed"]
    assert "fill in this TODO, then remove this line" in failed[0]["raw_error"]


def test_validate_passes_a_filled_notebook_and_fails_an_empty_one(lab: NotebookNode, tmp_path: Path) -> None:
    validator = Validator(config=course_config(ROOT))
    for name, notebook in (("empty", lab), ("filled", solved(lab))):
        nbformat.write(notebook, tmp_path / f"{name}.ipynb")
    empty = validator.validate(str(tmp_path / "empty.ipynb"))
    assert len(empty["failed"]) == 2
    assert "fill in this TODO, then remove this line" in empty["failed"][0]["raw_error"]
    assert validator.validate(str(tmp_path / "filled.ipynb")) == {}


def test_an_exchange_of_the_system_is_used_where_everybody_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    course, system = tmp_path / "course", tmp_path / "system"
    course.mkdir()
    monkeypatch.setattr("solutions.grading.layout.EXCHANGE", str(system))
    assert exchange_folder(course) == str(course / ".exchange") and (course / ".exchange").is_dir()
    system.mkdir()
    assert exchange_folder(course) == str(system)
