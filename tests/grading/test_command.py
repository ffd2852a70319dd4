"""`python -m solutions.grading`: collects what was downloaded, grades, and says what went wrong in one line."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from solutions.grading.collector import collect
from solutions.grading.course import Course
from solutions.grading.layout import ROOT
from solutions.grading.submissions import ROSTER
from tests.grading.conftest import hand_in
from tests.grading.tiny import STEP, solved

pytestmark = pytest.mark.slow


def _grade(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TRT_LAB_ENGINE": "cpu"}
    command = [sys.executable, "-m", "solutions.grading", "--unsafe-no-sandbox", *options]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


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
BOTH = f"ada_attempt 1/{NOTEBOOK} and ada_attempt 2/{NOTEBOOK} would both be the work of ada: keep one of them"
DOWNLOADS = {
    "a platform's files": (
        "",
        {
            "jane.doe.zip": {NOTEBOOK: "jane", f".ipynb_checkpoints/{STEP}-checkpoint.ipynb": "old"},
            f"bob_{NOTEBOOK}": "bob",
            "unnamed.ipynb": "?",
        },
        {"jane.doe": "jane", "bob": "bob"},
        [f"unnamed.ipynb left out: its name holds no {STEP}"],
    ),
    "without a class list an underscore is asked about": (
        "",
        {"ada_k.zip": {NOTEBOOK: "k"}, f"ada_l_{NOTEBOOK}": "l"},
        {},
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
        [f"all of them/eve_1/{NOTEBOOK} left out: no student of students.csv in its name"],
    ),
    "two files of one student": (
        "id\nada\nben\neve\n",
        {
            "ada_attempt 1.zip": {NOTEBOOK: "1"},
            "ada_attempt 2.zip": {NOTEBOOK: "2"},
            "ben.zip": {NOTEBOOK: "b", f"../{NOTEBOOK}": "out", "data.bin": "0" * 1000},
            "eve.zip": "PK not really",
        },
        {"ben": "b"},
        [
            f"refused: ben.zip: '../{NOTEBOOK}' would leave the archive's folder",
            "refused: eve.zip: it cannot be unpacked: File is not a zip file",
            *(f"ada_attempt {number}/{NOTEBOOK} left out: {BOTH}" for number in (1, 2)),
        ],
    ),
    "a submission that is a link": (
        "",
        {f"linked_{NOTEBOOK}": "x"},
        {},
        [f"linked_{NOTEBOOK} left out: submitted/linked/{STEP} is a link, and links are not followed"],
    ),
}


@pytest.mark.parametrize(("roster", "files", "taken", "lines"), DOWNLOADS.values(), ids=DOWNLOADS)
def test_what_a_learning_platform_gave_is_collected_and_the_rest_named(
    bare: Course, roster: str, files: dict, taken: dict[str, str], lines: list[str]
) -> None:
    hand_in(bare, "ada", "handed in before")
    (bare.root / "submitted" / "linked").symlink_to("nowhere")
    if roster:
        (bare.root / ROSTER).write_text(roster)
    expected = ["collected into submitted/", *lines]
    assert _download(bare, files) == [f"downloaded/{STEP}: {line}" for line in expected]
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
    path = course.submitted("Ada B", STEP)
    path.parent.mkdir(parents=True)
    nbformat.write(solved(lab, "square"), path)
    done = _grade(course.root, "--students", "Ada B")
    assert done.returncode == 0, done.stderr
    assert "Ada B · 01_export · graded" in done.stdout and "correctness" in done.stdout
    assert "Traceback" not in done.stderr
    assert (
        "grades.csv comes when the whole class is graded" in done.stdout and not (course.root / "grades.csv").exists()
    )


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
