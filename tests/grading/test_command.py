"""The ways in: the grading command, which collects downloads; nbgrader's autograde, Validate and formgrader."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest
import requests
from nbformat import NotebookNode
from nbgrader.apps.api import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from nbgrader.validator import Validator

from helpers.course.steps import NOTEBOOKS
from solutions.grading.collector import collect
from solutions.grading.course import Course
from solutions.grading.layout import ROOT, StepFolders, course_config, exchange_folder
from solutions.grading.submissions import ROSTER
from tests.browser.jupyter_server import JupyterServer
from tests.grading.conftest import hand_in
from tests.grading.tiny import STEP, index_of, solved

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # nbgrader's own

ENVIRONMENT = {"PYTHONPATH": str(ROOT), "TRT_LAB_ENGINE": "cpu"}


def _run(folder: Path, module: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *options]
    return subprocess.run(command, cwd=folder, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True)


def _grade(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return _run(folder, "solutions.grading", "--unsafe-no-sandbox", *options)


def _download(course: Course, files: dict[str, str | dict[str, str]]) -> list[str]:
    """Put files, and zips of files, into downloaded/<step>/archive/; return what collecting them says."""
    archive = course.root / "downloaded" / STEP / "archive"
    archive.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if isinstance(content, str):
            (archive / name).write_text(content)
            continue
        with zipfile.ZipFile(archive / name, "w") as file:
            for member, text in content.items():
                file.writestr(member, text)
    return collect(course)


def _collected(course: Course) -> dict[str, str]:
    """Return the text of each student's notebook in submitted/, by student."""
    paths = (course.root / "submitted").glob(f"*/{STEP}/{STEP}.ipynb")
    return {path.parent.parent.name: path.read_text() for path in paths}


NOTEBOOK = f"{STEP}.ipynb"
BOTH = (
    f"ada_attempt 1/{NOTEBOOK} and ada_attempt 2/{NOTEBOOK} would both be the work of ada: "
    "keep one of them; a new zip takes the old one's place"
)
DOWNLOADS = {
    "a platform's files": (
        "",
        {
            "jane.doe.zip": {NOTEBOOK: "jane", f".ipynb_checkpoints/{STEP}-checkpoint.ipynb": "old"},
            f"bob_{NOTEBOOK}": "bob",
            "unnamed.ipynb": "?",
        },
        {"jane.doe": "jane", "bob": "bob"},
        "2 notebooks for submitted/; other files: copies of Jupyter's and macOS' 1",
        [f"unnamed.ipynb left out: its name holds no {STEP}"],
    ),
    "without a class list an underscore is asked about": (
        "",
        {"ada_k.zip": {NOTEBOOK: "k"}, f"ada_l_{NOTEBOOK}": "l"},
        {},
        "0 notebooks for submitted/",
        [
            f"{name} left out: {student!r} may be a student, or a file of 'ada': students.csv must say"
            for name, student in ((f"ada_k/{NOTEBOOK}", "ada_k"), (f"ada_l_{NOTEBOOK}", "ada_l"))
        ],
    ),
    "with a class list ids may hold underscores": (
        "id,first_name,last_name\nada,Ada,B\nada_k,Ada,King\nada_l,Ada,Lovelace\nz1,Zoë,Ångström\n",
        {
            "ada_k.zip": {NOTEBOOK: "k"},
            "ada_l_late_01_Export-1.IPYNB": "l",
            "all of them.zip": {
                f"Zoe\u0308 Ångström_4711_file_/{NOTEBOOK}": "z",
                f"ada_99/work/{NOTEBOOK}": "a",
                f"eve_1/{NOTEBOOK}": "e",
            },
        },
        {"ada": "a", "ada_k": "k", "ada_l": "l", "z1": "z"},
        "4 notebooks for submitted/",
        [f"all of them/eve_1/{NOTEBOOK} left out: no student of students.csv in its name"],
    ),
    "two files of one student": (
        "id\nada\nben\neve\n",
        {
            "ada_attempt 1.zip": {NOTEBOOK: "1"},
            "ada_attempt 2.zip": {NOTEBOOK: "2"},
            "ben.zip": {NOTEBOOK: "b", "data.bin": "0" * 1000},
            "eve.zip": "PK not really",
        },
        {"ben": "b"},
        "1 notebooks for submitted/; other files: .bin 1",
        [
            "refused: eve.zip: it cannot be unpacked: File is not a zip file",
            *(f"ada_attempt {number}/{NOTEBOOK} left out: {BOTH}" for number in (1, 2)),
        ],
    ),
    "a submission that is a link": (
        "",
        {f"linked_{NOTEBOOK}": "x"},
        {},
        "1 notebooks for submitted/",
        [f"linked_{NOTEBOOK} left out: submitted/linked/{STEP} is a link; links are not followed"],
    ),
}


@pytest.mark.parametrize(("roster", "files", "taken", "said", "lines"), DOWNLOADS.values(), ids=DOWNLOADS)
def test_what_a_learning_platform_gave_is_collected_and_the_rest_named(
    bare: Course, roster: str, files: dict, taken: dict[str, str], said: str, lines: list[str]
) -> None:
    hand_in(bare, "ada", "handed in before")
    (bare.root / "submitted" / "linked").symlink_to("nowhere")
    if roster:
        (bare.root / ROSTER).write_text(roster)
    assert _download(bare, files) == [f"downloaded/{STEP}: {line}" for line in (said, *lines)]
    assert _collected(bare) == {"ada": "handed in before", **taken}


def test_what_was_put_into_submitted_since_stays_until_a_download_has_another_notebook(bare: Course) -> None:
    _download(bare, {f"{student}.zip": {NOTEBOOK: student} for student in ("ada", "ben")})
    when = {one: bare.submitted(one, STEP).with_name("timestamp.txt") for one in ("ada", "ben")}
    for path in when.values():
        path.write_text("2026-11-01 12:00:00 UTC")
    hand_in(bare, "ada", "put there by hand")
    assert collect(bare) == [f"downloaded/{STEP}: collected before"]

    for _ in range(2):  # what is left out is said each time, and costs nobody anything
        assert "left out" in _download(bare, {"ben.zip": {NOTEBOOK: "ben's second"}, "unnamed.ipynb": "?"})[1]
        assert _collected(bare) == {"ada": "put there by hand", "ben": "ben's second"}
        assert when["ada"].is_file() and not when["ben"].exists()  # the time of his first

    bare.submitted("ada", STEP).unlink()
    collect(bare)
    assert _collected(bare)["ada"] == "ada"


def test_the_command_prints_the_class_and_writes_the_grades(course: Course, lab: NotebookNode) -> None:
    hand_in(course, "Ada B", solved(lab, "square"))
    done = _grade(course.root, "--students", "Ada B")
    assert done.returncode == 0, done.stderr
    assert "Ada B · 01_export · graded" in done.stdout and "correctness" in done.stdout
    assert "Traceback" not in done.stderr and "grades.csv comes when the whole class is graded" in done.stdout
    assert not (course.root / "grades.csv").exists()


def test_an_empty_course_is_one_clear_line(course: Course, tmp_path: Path) -> None:
    (tmp_path / "nbgrader_config.py").write_text((ROOT / "nbgrader_config.py").read_text())
    done = _grade(tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: nothing to grade: expected") and done.stderr.count("\n") == 1


@pytest.mark.parametrize("option, part", [(("--export", "canvas"), "--students"), (("--rebuild",), "--steps")])
def test_what_is_of_the_whole_class_is_not_made_of_a_part(course: Course, option: tuple[str, ...], part: str) -> None:
    done = _grade(course.root, *option, part, "any")
    assert done.returncode == 2
    assert done.stderr == f"error: {option[0]} is of the whole class: without --students, --steps\n"


def _listed(root: Path) -> set[str]:
    config = course_config(root)
    return NbGraderAPI(CourseDirectory(config=config), config=config).get_source_assignments()


def test_formgrader_lists_the_steps_and_nothing_else(course: Course) -> None:
    assert _listed(course.root) == {STEP}
    assert _listed(ROOT) == {step for step in NOTEBOOKS if (ROOT / "solutions" / step).is_dir()}


@pytest.mark.parametrize(("step", "found"), [(STEP, STEP), ("*", "[0-9][0-9]_*")])
def test_the_directory_structure_is_an_ordinary_one_but_for_every_assignment(step: str, found: str) -> None:
    structure = StepFolders("{nbgrader_step}/{student_id}/{assignment_id}")
    path = structure.format(nbgrader_step="submitted", student_id="ada", assignment_id=step)
    assert path == f"submitted/ada/{found}"


def test_plain_nbgrader_autograde_takes_the_same_way(course: Course, lab: NotebookNode) -> None:
    hand_in(course, "plain", solved(lab, "cube"))
    done = _run(course.root, "nbgrader", "autograde", STEP, "--student", "plain")
    assert done.returncode == 0, done.stderr
    graded = nbformat.read(course.autograded("plain") / STEP / f"{STEP}.ipynb", as_version=4)
    assert "Simplify the graph: 2 of 2 points" in str(graded.cells[index_of(graded, "simplify_model")].outputs)
    assert (course.autograded("plain") / "records" / "export_model.json").is_file()


Ask = Callable[..., requests.Response]


@pytest.fixture(scope="module")
def ask(course: Course, lab: NotebookNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Asks JupyterLab's server in the course's folder, with a browser's cookie and header against forged requests."""
    hand_in(course, "ada", solved(lab))
    home = tmp_path_factory.mktemp("home")
    with JupyterServer(course.root, home, ENVIRONMENT) as server, requests.Session() as session:
        address = f"http://127.0.0.1:{server.port}"
        session.headers["Authorization"] = f"token {server.token}"
        session.get(f"{address}/lab")
        session.headers["X-XSRFToken"] = session.cookies.get("_xsrf", "")
        yield lambda path, method="GET", **given: session.request(method, f"{address}/{path}", **given)


def test_the_formgrader_lists_the_course_and_warns_of_nothing(ask: Ask) -> None:
    assert ask("formgrader").ok
    assignments = ask("formgrader/api/assignments").json()
    assert [(found["name"], found["max_score"]) for found in assignments] == [(STEP, 5.0)]
    page = ask("formgrader/manage_assignments").text
    assert "Add new assignment" in page and "alert-warning" not in page


def test_the_formgraders_button_grades_as_make_grade_does(ask: Ask) -> None:
    answer = ask(f"formgrader/api/submission/{STEP}/ada/autograde", "POST")
    assert answer.json()["success"], answer.json()
    submission = ask(f"formgrader/api/submission/{STEP}/ada").json()
    assert (submission["score"], submission["autograded"]) == (5.0, True)
    notebooks = ask(f"formgrader/api/submitted_notebooks/{STEP}/{STEP}").json()
    own = next(row["id"] for row in notebooks if row["student"] == "ada")
    page = ask(f"formgrader/submissions/{own}")
    assert page.ok and "Export to ONNX: 3 of 3 points" in page.text


def test_the_lab_extension_validates_over_http(ask: Ask) -> None:
    answer = ask("assignments/validate", "POST", data={"path": f"labs/{STEP}/{STEP}.ipynb"})
    failed = answer.json()["value"]["failed"]
    assert "fill in this TODO, then remove this line" in failed[0]["raw_error"]


def test_validate_passes_a_filled_notebook_and_fails_an_empty_one(lab: NotebookNode, tmp_path: Path) -> None:
    validator, path = Validator(config=course_config(ROOT)), tmp_path / "one.ipynb"
    nbformat.write(lab, path)
    empty = validator.validate(str(path))["failed"]
    assert len(empty) == 2 and "fill in this TODO, then remove this line" in empty[0]["raw_error"]
    nbformat.write(solved(lab), path)
    assert validator.validate(str(path)) == {}


def test_an_exchange_of_the_system_is_used_where_everybody_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("solutions.grading.layout.EXCHANGE", str(tmp_path / "system"))
    assert exchange_folder(tmp_path) == str(tmp_path / ".exchange") and (tmp_path / ".exchange").is_dir()
    (tmp_path / "system").mkdir()
    assert exchange_folder(tmp_path) == str(tmp_path / "system")


def test_what_the_database_logs_where_a_command_is_stopped_is_not_shown() -> None:
    code = 'import logging, solutions.grading.course; logging.getLogger("sqlalchemy.pool").error("a cursor")'
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
