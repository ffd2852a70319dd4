"""A class's table: four criteria that make the total, a bonus beside it; rebuilt from records, and checked in advance.

A cell that is worth more or less than its claims stops the commands before anything is written.
"""

import csv
import io
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import nbformat
import pytest
from rich.console import Console

import solutions.grading.__main__ as grading
from helpers.course.steps import BONUS, COLUMNS, CRITERIA
from solutions.grading import labs, regrade
from solutions.grading.course import Course
from solutions.grading.grades import StudentGrades, check_worth, rebuilt, summed, table, write_grades
from solutions.grading.layout import ROOT
from solutions.grading.step_record import REFUSED, UNDER_WAY, CellGrade, StepRecord
from tests.grading.conftest import hand_in
from tests.grading.tiny import STEP, index_of
from trtcpu.errors import InputError

FP16, MIXED = "02_fp16", "09_mixed_precision"
ADA = StudentGrades(
    "ada",
    dict(zip(COLUMNS, (30.0, 20.0, 10.0, 8.5, 7.25), strict=True)),
    {FP16: 11.0, MIXED: 7.25},
    6.0,
)
WORTH = dict(zip(COLUMNS, (40.0, 30.0, 15.0, 15.0, 24.0), strict=True))


def _shown(worth: dict[str, float]) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(table([ADA], worth))
    return console.export_text()


def test_a_bonus_is_no_part_of_the_hundred_and_has_a_column_where_there_is_one() -> None:
    shown = _shown(WORTH)
    last = shown.splitlines()[-2]
    assert last.split() == "│ ada │ 30 │ 20 │ 10 │ 8.5 + 6 pending │ 68.5 + 6 pending │ 7.25 │".split()
    assert "/100" in shown and "/24" in shown and BONUS not in _shown({**WORTH, BONUS: 0.0})


@pytest.mark.parametrize(
    ("ungraded", "empty"),
    [
        ([], set()),
        ([FP16], {"correctness", "performance", "total", FP16}),
        ([MIXED], {BONUS, MIXED}),
    ],
)
def test_what_is_not_graded_is_empty_in_every_file(tmp_path: Path, ungraded: list[str], empty: set[str]) -> None:
    row = replace(ADA, pending=0.0, ungraded=ungraded)
    write_grades(tmp_path, [row], WORTH, [FP16, MIXED])
    shown = _read(tmp_path / "grades.csv")
    assert list(shown) == ["student", *CRITERIA, "pending", "late", "total", BONUS, FP16, MIXED, "notes"]
    expected = {**ADA.points, "total": 68.5, **ADA.steps}
    assert {name: shown[name] for name in expected} == {
        name: "" if name in empty else f"{points:g}" for name, points in expected.items()
    }
    kept = json.loads((tmp_path / "grades.json").read_text())
    (student,) = kept["students"]
    assert {**student["points"], "total": student["total"], **student["steps"]} == {
        name: None if name in empty else points for name, points in expected.items()
    }
    assert kept["maximum"] == WORTH


def _read(path: Path) -> dict[str, str]:
    return list(csv.DictReader(path.read_text().splitlines()))[-1]


RECORD = StepRecord(
    "ada", STEP, cells={"export_model": CellGrade(3.0, 3.0), "simplify_model": CellGrade(2.0, None, 1.5, 0.25)}
)


@pytest.mark.parametrize(("penalty", "total", "late"), [(None, 4.75, 0), (1.5, 3.25, 1.5), (50.0, 0, 4.75)])
def test_being_late_costs_no_more_than_the_step_earned(penalty: float | None, total: float, late: float) -> None:
    grades = summed("ada", [STEP], {STEP: replace(RECORD, penalty=penalty)})
    assert (grades.total, grades.late, grades.steps[STEP], grades.pending) == (total, late, total, 0)


# Of each student: the record, and the one line about it.
RECORDS: dict[str, tuple[dict, str]] = {
    "ada": (asdict(replace(RECORD, notes=["of ada"])), "of ada"),
    "ben": (
        asdict(replace(RECORD, student="ben", state=UNDER_WAY)),
        "no points: it was being graded when grading stopped; grade the step again",
    ),
    "cleo": (asdict(replace(RECORD, student="cleo", state=REFUSED, notes=["of cleo"])), "of cleo"),
    "dora": ({"earned": "lots"}, "no points: the record "),
    "eve": (asdict(RECORD), "no points: it was being graded when"),  # ada's, copied
    "fay": ({}, "no points: it was handed in and is not graded yet; grade the step"),
    "gil": (
        asdict(replace(RECORD, student="gil", state=REFUSED)),
        "no points: it was refused, and what is handed in now is not graded yet",
    ),
}


def test_grades_are_rebuilt_without_the_gradebook(bare: Course) -> None:
    for student, (record, _) in RECORDS.items():
        path = bare.autograded(student) / "grades" / f"{STEP}.json"
        path.parent.mkdir(parents=True)
        if record:
            path.write_text(json.dumps(record))
    hand_in(bare, "fay", "not reached")
    hand_in(bare, "gil", bare.source(STEP).read_text())
    result = rebuilt(bare)
    assert {row.student: row.total for row in result.students} == {**dict.fromkeys(RECORDS, 0), "ada": 4.75}
    for row in result.students:
        (note,) = row.notes
        assert note.startswith(f"{STEP}: {RECORDS[row.student][1]}")
        assert row.ungraded == ([] if row.student in ("ada", "cleo") else [STEP])
    assert result.worth["correctness"] == 5 and not bare.gradebook_file.exists()


def test_nothing_to_rebuild_from_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no records to rebuild grades from"):
        rebuilt(Course.at(tmp_path, ROOT))


def _course(root: Path, cell: str = "fp16_engine", step: str = FP16, **label: object) -> Course:
    """Return a course that has one of our steps, with another label of one of its cells."""
    (root / "nbgrader_config.py").write_text((ROOT / "nbgrader_config.py").read_text())
    notebook = nbformat.read(ROOT / "solutions" / step / f"{step}.ipynb", as_version=4)
    notebook.cells[index_of(notebook, cell)].metadata.nbgrader.update(label)
    (root / "solutions" / step).mkdir(parents=True)
    nbformat.write(notebook, root / "solutions" / step / f"{step}.ipynb")
    return Course.at(root)


@pytest.mark.parametrize(
    ("label", "what", "worth"),
    [
        *(
            ({"points": points}, f"fp16_engine has {points!r}", 6)
            for points in (10, 5.5, None, "6", float("nan"), 6.0000001)
        ),
        ({"grade_id": "a_cell_of_mine"}, "a_cell_of_mine has 6", 0),
    ],
)
def test_other_points_are_refused_by_name(tmp_path: Path, label: dict, what: str, worth: int) -> None:
    with pytest.raises(InputError) as raised:
        check_worth(_course(tmp_path, **label))
    assert str(raised.value) == (
        f"the cell {what} points in solutions/02_fp16/02_fp16.ipynb, "
        f"those of its tasks (helpers/checks/points/ and solutions/checks/, s02_fp16) sum to {worth}: "
        "set the same points in both"
    )


def test_what_a_person_reads_has_the_points_that_the_notebook_says(tmp_path: Path) -> None:
    check_worth(_course(tmp_path, "analysis", "08_report", points=60))


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
    _course(tmp_path, points=10)
    monkeypatch.chdir(tmp_path)
    for name in labs._FOLDERS:  # packed before the notebooks are
        (tmp_path / name).mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SystemExit) as ended:
        command()
    said = capsys.readouterr().err
    assert ended.value.code == 2 and said.count("\n") == 1
    assert said.startswith("error: the cell fp16_engine has 10 points in solutions/02_fp16/02_fp16.ipynb, those of")
    assert sorted(tmp_path.rglob("*")) == before
