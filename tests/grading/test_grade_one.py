"""One notebook is graded: JSON on stdout, an exit code, and Gradescope's results."""

import json
import zipfile
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from solutions.grading import grade_one, gradescope
from solutions.grading.course import Course
from tests.grading.tiny import STEP, solved

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # nbgrader's and nbformat's own


@pytest.fixture
def handed_in(course: Course, lab: NotebookNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a notebook with a right square and no cube, of the tiny course in the repository's place."""
    monkeypatch.setattr(grade_one, "ROOT", course.root)
    nbformat.write(solved(lab, "square"), path := tmp_path / "any name.ipynb")
    return path


def test_a_notebook_gets_its_points_and_messages(handed_in: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grade_one.main(handed_in, at_least=3.0)
    said = json.loads(capsys.readouterr().out)
    assert (said["step"], said["points"], said["maximum"]) == (STEP, 3.0, 5.0)
    square, cube = said["cells"]
    assert (square["cell"], square["points"], square["lost"]) == ("export_model", 3.0, [])
    assert (cube["points"], cube["maximum"]) == (0.0, 2.0)
    assert cube["lost"][0].keys() == {"claim", "points", "expected", "found", "try_this"}
    with pytest.raises(SystemExit, match="1"):
        grade_one.main(handed_in, at_least=3.25)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("no notebook", "error: it.ipynb is not a notebook (it is not JSON)"),
        (nbformat.writes(nbformat.v4.new_notebook()), "it.ipynb has no graded cell of the lab: is it one of 01_export"),
    ],
)
def test_what_cannot_be_graded_is_one_line_and_exit_code_2(
    tmp_path: Path, content: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "it.ipynb").write_text(content)
    with pytest.raises(SystemExit, match="2"):
        grade_one.main(tmp_path / "it.ipynb")
    shown = capsys.readouterr()
    assert said in shown.err and shown.err.count("\n") == 1 and shown.out == ""


def test_gradescope_gets_a_test_a_cell_or_the_reason(handed_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradescope, "SUBMISSION", handed_in.parent)
    monkeypatch.setattr(gradescope, "RESULTS", path := handed_in.parent / "results" / "results.json")
    gradescope.grade(STEP)
    square, cube = json.loads(path.read_text())["tests"]
    assert (square["score"], square["max_score"], square["output"]) == (3.0, 3.0, "all checks passed")
    assert cube["score"] == 0.0 and "lost 2\n  expected: " in cube["output"]
    handed_in.unlink()
    gradescope.grade(STEP)
    assert json.loads(path.read_text()) == {"score": 0.0, "output": f"upload one notebook, {STEP}.ipynb; there are 0"}


def test_the_autograder_has_its_scripts_and_no_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    gradescope.pack(STEP)
    with zipfile.ZipFile(f"dist/gradescope-{STEP}.zip") as archive:
        names = archive.namelist()
        assert archive.getinfo("run_autograder").external_attr >> 16 == 0o755
        assert f"grade {STEP}\n" in archive.read("run_autograder").decode()
    assert {"setup.sh", "install.py", "solutions/checks/__init__.py", f"solutions/{STEP}/{STEP}.ipynb"} <= set(names)
    assert not [name for name in names if "__pycache__" in name or name.startswith(("tests/", "submitted/"))]
