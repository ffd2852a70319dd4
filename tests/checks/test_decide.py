"""Deciding points: points, partial credit, and the difference between a student's mistake and ours."""

import errno
from pathlib import Path

import pytest

from helpers.checks.missed import Missed
from helpers.checks.points.task import Earned, Point
from helpers.course.artifacts import use_artifacts
from solutions.checks.core.decide import decide, run_points
from solutions.checks.core.record import read_record, record_path
from solutions.checks.core.record_schema import LONGEST_TEXT
from solutions.checks.core.seed import fresh_seed, use_seed
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


def test_long_texts_are_cut() -> None:
    missed = Missed("a tick", "é" * 100_000, "again")
    found = decide(Point("made.up", 2, "Made up", lambda case: Earned(0.5, "é" * 100_000, missed)), None)
    assert len(found.evidence) == len(found.missed["found"]) == LONGEST_TEXT


def test_a_full_disk_decides_no_point() -> None:
    full, told = OSError(errno.ENOSPC, "No space left on device"), InputError("cannot write x")
    told.__cause__ = full
    for error in (full, told):
        with pytest.raises(type(error)):
            decide(Point("made.up", 2, "Made up", _raises(error)), None)


def test_the_record_is_on_disk_after_each_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_artifacts(tmp_path / "artifacts")
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


@pytest.mark.parametrize("wrong", [-1, 2**32])
def test_a_seed_that_is_none_is_named(wrong: int) -> None:
    use_seed(7)
    assert fresh_seed() == 7
    with pytest.raises(InputError, match=f"{wrong} is no seed; give a whole number"):
        use_seed(wrong)
