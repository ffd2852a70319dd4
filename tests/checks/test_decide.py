"""Deciding points: points, partial credit, and the difference between a student's mistake and ours."""

import errno
from pathlib import Path

import nbformat
import pytest

from helpers.checks.missed import Missed
from helpers.checks.points.task import Earned, Point
from helpers.course.steps import CELLS, CRITERIA, TABLE
from solutions.checks.core.decide import decide, run_points
from solutions.checks.core.record import read_record, record_path
from solutions.checks.core.seed import SEED_VARIABLE, cell_seed, fresh_seed
from trtcpu.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
MISSED = Missed("a tick", "a cross", "again")


def _raises(error: BaseException):
    def check(case: object) -> str:
        raise error

    return check


@pytest.mark.parametrize(
    ("check", "status", "earned"),
    [
        (lambda case: "seen", "kept", 2),
        (lambda case: Earned(0.25, "a quarter", MISSED), "partial", 0.5),
        (lambda case: Earned(0.0, "none", MISSED), "lost", 0),
        (lambda case: Earned(7, "too much"), "kept", 2),
        (_raises(MISSED), "lost", 0),
        (_raises(KeyboardInterrupt()), "lost", 0),
        (_raises(ZeroDivisionError("ours")), "error", 0),
    ],
)
def test_a_point_is_kept_partial_lost_or_our_error(check, status: str, earned: float) -> None:
    result = decide(Point("made.up", 2, "Made up", check), None)
    assert (result.status, result.earned) == (status, earned)


def test_a_full_disk_decides_no_point() -> None:
    full, told = OSError(errno.ENOSPC, "No space left on device"), InputError("cannot write x")
    told.__cause__ = full
    for error in (full, told):
        with pytest.raises(type(error)):
            decide(Point("made.up", 2, "Made up", _raises(error)), None)


def test_the_record_is_on_disk_after_each_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRT_LAB_RECORDS", str(tmp_path))
    seen = []

    def first(case: object) -> str:
        return "kept"

    def second(case: object) -> str:
        seen.append(read_record(record_path("fp16_engine")).earned)
        raise MISSED

    points = [Point("a", 2, "A", first), Point("b", 1, "B", second)]
    monkeypatch.setattr("solutions.checks.core.decide.points_of", lambda cell: points)
    record = run_points("fp16_engine", None)
    assert seen == [2] and record.earned == 2 and record.points == 3
    assert "try       again" in str(record.card()) and "[2 of 2 points]" in str(record.card())
    assert read_record(record_path("fp16_engine")) == record


EXPECTED = {"correctness": 40, "performance": 30, "accuracy": 15, "documentation": 15}


def _graded_cells() -> dict[str, float]:
    found = {}
    for path in sorted((ROOT / "solutions").glob("[0-9]*/*.ipynb")):
        for cell in nbformat.read(path, as_version=4).cells:
            about = cell.metadata.get("nbgrader", {})
            if about.get("grade"):
                found[about["grade_id"]] = about["points"]
    return found


def test_the_test_cells_are_all_known_and_the_criteria_add_up_to_100() -> None:
    cells = _graded_cells()
    assert set(cells) == set(CELLS)
    for criterion in CRITERIA:
        total = sum(points for name, points in cells.items() if CELLS[name].criterion == criterion)
        assert total == pytest.approx(EXPECTED[criterion]), criterion
    for step in TABLE:
        assert sum(cells[name] for name in step.cells) == pytest.approx(step.points), step


@pytest.mark.parametrize("wrong", ["abc", "-1", "1.5", "9" * 400, str(2**32)])
def test_a_seed_that_is_none_is_named(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    monkeypatch.setenv(SEED_VARIABLE, "7")
    assert fresh_seed() == 7
    monkeypatch.setenv(SEED_VARIABLE, wrong)
    with pytest.raises(InputError, match=f"{SEED_VARIABLE}=.* is no seed; give a whole number"):
        fresh_seed()


def test_test_cells_of_one_run_draw_from_seeds_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SEED_VARIABLE, "7")
    seeds = {name: cell_seed(name) for name in CELLS}
    assert len(set(seeds.values())) == len(CELLS) and seeds == {name: cell_seed(name) for name in CELLS}
    monkeypatch.setenv(SEED_VARIABLE, "8")
    assert not set(seeds.values()) & {cell_seed(name) for name in CELLS}
    monkeypatch.delenv(SEED_VARIABLE)
    assert len({cell_seed("export_model") for _ in range(20)}) == 20
