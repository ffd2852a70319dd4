"""A cell that is worth more or less than its claims stops the three commands before anything is written."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import nbformat
import pytest

import solutions.grading.__main__ as grading
from solutions.grading import labs, regrade
from solutions.grading.course import Course
from solutions.grading.grades import check_worth
from solutions.grading.layout import ROOT
from tests.grading.tiny import index_of
from trtcpu.errors import InputError

STEP = "02_fp16"


def _course(root: Path, cell: str, points: object, step: str = STEP) -> Course:
    """Return a course that has one of our steps, with other points for one of its cells."""
    (root / "nbgrader_config.py").write_text((ROOT / "nbgrader_config.py").read_text())
    notebook = nbformat.read(ROOT / "solutions" / step / f"{step}.ipynb", as_version=4)
    notebook.cells[index_of(notebook, cell)].metadata.nbgrader.points = points
    (root / "solutions" / step).mkdir(parents=True)
    nbformat.write(notebook, root / "solutions" / step / f"{step}.ipynb")
    return Course.at(root)


@pytest.mark.parametrize("points", [10, 5.5, None, "6", float("nan"), 6.0000001])
def test_other_points_are_refused_by_name(tmp_path: Path, points: object) -> None:
    with pytest.raises(InputError) as raised:
        check_worth(_course(tmp_path, "fp16_engine", points))
    assert str(raised.value) == (
        f"the cell fp16_engine has {points!r} points in solutions/02_fp16/02_fp16.ipynb, "
        "those of its tasks (helpers/checks/points/ and solutions/checks/, s02_fp16) sum to 6: "
        "set the same points in both"
    )


def test_what_a_person_reads_has_the_points_that_the_notebook_says(tmp_path: Path) -> None:
    check_worth(_course(tmp_path, "analysis", 60, step="08_report"))


def test_a_test_cell_without_claims_is_refused(tmp_path: Path) -> None:
    course = _course(tmp_path, "fp16_engine", 6)
    path = course.source(STEP)
    path.write_text(path.read_text().replace('"fp16_speed"', '"a_cell_of_mine"'))
    with pytest.raises(InputError, match="the cell a_cell_of_mine has 5 points in .*, those of its tasks .* sum to 0"):
        check_worth(course)


@pytest.mark.parametrize(
    "command",
    [
        labs.write,
        labs.pack,
        grading.main,
        partial(grading.main, dry_run=True),
        partial(regrade.main, diff=True),
    ],
)
def test_the_commands_refuse_it_with_one_line_and_write_nothing(
    tmp_path: Path,
    command: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _course(tmp_path, "fp16_engine", 10)
    monkeypatch.chdir(tmp_path)
    for name in labs._FOLDERS:  # packed before the notebooks are
        (tmp_path / name).mkdir()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SystemExit) as ended:
        command()
    said = capsys.readouterr().err
    assert ended.value.code == 2 and said.count("\n") == 1
    assert said.startswith("error: the cell fp16_engine has 10 points in solutions/02_fp16/02_fp16.ipynb, those of")
    assert sorted(tmp_path.rglob("*")) == before
