"""course.toml: what a course has, and what is refused in one line."""

import datetime
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.course.steps import CELLS, NOTEBOOKS, STEPS, taught
from helpers.tools.term import FILE, Late, Term, read_term
from solutions.checks.core import asked
from trtcpu.errors import InputError

ROOT = Path(__file__).parents[3]


def _read(tmp_path: Path, text: str) -> Term:
    (tmp_path / FILE).write_text(text)
    return read_term(tmp_path / FILE)


def test_the_file_of_the_repository_changes_nothing_and_its_examples_are_right(tmp_path: Path) -> None:
    text = (ROOT / FILE).read_text()
    assert _read(tmp_path, text) == read_term(tmp_path / "none") == Term()
    examples = "\n".join(re.findall(r"^# ((?:\w+ = |\[).*)$", text, re.M))
    term = _read(tmp_path, examples)
    assert [step.name for step in taught(term)] == list(STEPS[:5])
    assert term.deadlines["01_export"] == datetime.datetime(2026, 12, 1, 22, 59)
    assert term.late == Late(10, 15) and (term.model, term.engine) == ("resnet50", "cpu")


def test_a_course_has_the_steps_and_points_that_it_names() -> None:
    steps = taught(Term(("03_dynamic", "01_export", "09_mixed_precision"), {"export_model": 5.25}, total=17.0))
    assert [(step.name, step.points) for step in steps] == [
        ("01_export", 7.0),
        ("03_dynamic", 10.0),
        ("09_mixed_precision", 5.0),
    ]
    assert [step.name for step in taught(Term())] == list(NOTEBOOKS)


def test_a_day_alone_ends_at_midnight_here(tmp_path: Path) -> None:
    found = _read(tmp_path, "[deadlines]\n01_export = 2026-12-08\n").deadlines["01_export"]
    here = datetime.datetime(2026, 12, 8, 23, 59, 59).astimezone(datetime.timezone.utc)
    assert found == here.replace(tzinfo=None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("steps = [", "is not TOML: "),
        ("[late]\npercent_per_day = 10%", "; lines are written as  percent_per_day = 10, "),
        ("[deadlines]\n01_export = 2026-12-01 23:59", ",  01_export = 2026-12-01 23:59:00, "),
        ('model = "resnet-18"', "model is 'resnet-18', expected one of resnet18, resnet50"),
        ('engine = "gpu"', "engine is 'gpu', expected one of auto, tensorrt, cpu"),
        ("step = []", "there is no setting step; there are deadlines, engine, late, model, points, steps, total"),
        ("[late]\nper_day = 1", "there is no setting late.per_day; there are free_minutes, percent_per_day"),
        ("points = 3", "points is 3, expected a table that begins with the line [points]"),
        ("[points]\nfp16_engine = -1", "points.fp16_engine is -1, expected a number of at least 0"),
        ("[late]\npercent_per_day = true", "late.percent_per_day is True, expected a number"),
        ("total = inf", "total is inf, expected a number"),
        ('steps = "01_export"', "steps is '01_export', expected a list such as"),
        ("steps = [[]]", "steps is [[]], expected a list such as"),
        ('[deadlines]\n01_export = "soon"', "deadlines.01_export is 'soon', expected a time such as 2026-12-01"),
        (
            "[deadlines]\n01_export = 0001-01-01",
            "deadlines.01_export is '0001-01-01 23:59:59', expected a time such as",
        ),
    ],
)
def test_a_setting_that_cannot_be_is_named_with_what_was_found(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)) as caught:
        _read(tmp_path, text)
    assert str(tmp_path / FILE) in str(caught.value)


def test_the_mark_that_editors_of_windows_put_first_is_no_mistake(tmp_path: Path) -> None:
    assert _read(tmp_path, "\ufefftotal = 57\n").total == 57


@pytest.mark.slow
@pytest.mark.parametrize("text", ["step = []", 'steps = ["1_export"]', 'model = "resnet-18"'])
@pytest.mark.parametrize("command", ["solutions.grading", "solutions.grading.labs", "helpers.course.handout"])
def test_a_mistake_ends_each_command_with_one_line_and_exit_code_2(tmp_path: Path, command: str, text: str) -> None:
    shutil.copytree(ROOT / "helpers", tmp_path / "helpers", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / FILE).write_text(text)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    argv = [sys.executable, "-m", command]
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"error: \S*course\.toml: (there is no|the lab has no|model is) .+\n", done.stderr)


@pytest.mark.parametrize(
    ("term", "said"),
    [
        (Term(steps=("1_export",)), "the lab has no step '1_export'; it has 01_export, 02_fp16"),
        (Term(deadlines={"17_x": datetime.datetime.min}), "the lab has no step '17_x'"),
        (Term(points={"fp16": 1.0}), "the lab has no graded cell 'fp16'; it has export_model"),
        (Term(points={"fp16_engine": 0.0}), "the cell fp16_engine would have no points; leave out its step instead"),
        (Term(total=90.0), "the points of the steps sum to 100, not to the total of 90"),
    ],
)
def test_a_course_that_the_lab_cannot_give_is_refused(term: Term, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"course.toml: {said}")):
        taught(term)


@pytest.mark.parametrize("worth", [0.25, 1.0, 7.0, 100.0])
@pytest.mark.parametrize("cell", ["export_model", "fp16_engine", "inference_class", "mixed_engine"])
def test_the_points_of_a_cell_are_scaled_in_hundredths_and_sum_to_what_the_course_gives(
    monkeypatch: pytest.MonkeyPatch, cell: str, worth: float
) -> None:
    declared = {point.name: point.worth for point in asked.points_of(cell)}
    monkeypatch.setattr(asked, "TERM", Term(points={cell: worth}))
    scaled = {point.name: point.worth for point in asked.points_of(cell)}
    assert sum(scaled.values()) == pytest.approx(worth, abs=1e-9)
    for name, points in scaled.items():
        assert points == round(points, 2)
        assert points == pytest.approx(declared[name] * worth / CELLS[cell].points, abs=0.0101)
