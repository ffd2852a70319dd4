"""What the grader knows of step 3's table; the bank holds the students' builders."""

from typing import Any

import pytest

from helpers.checks.missed import Missed
from helpers.checks.points import s03_dynamic as points
from helpers.checks.points.case import Case
from helpers.checks.probes.student import Student
from solutions.checks import s03_dynamic


def _case(table: Any, monkeypatch: pytest.MonkeyPatch, ours: float | None = 100.0) -> Case:
    monkeypatch.setattr(s03_dynamic, "_images_per_second", lambda case: ours)
    monkeypatch.setattr(points.rate, "judge", lambda case: "right")
    return Case(Student.in_process({points.TABLE: table}), 4)


@pytest.mark.parametrize("table", [None, {}, {1: 5.0}, "fast", {"a": 1}, {1: 1.0, 4: 2.0, 16: 3.0, 32: "fast"}])
def test_without_four_measurements_a_good_engine_was_not_measured(table: Any, monkeypatch: Any) -> None:
    with pytest.raises(Missed, match="images per second"):
        s03_dynamic.measured(_case(table, monkeypatch))


@pytest.mark.parametrize(("largest", "kept"), [(11.0, True), (900.0, True), (9.0, False), (1100.0, False)])
def test_a_measurement_may_be_ten_times_off(largest: float, kept: bool, monkeypatch: Any) -> None:
    case = _case({1: 10.0, 4: 20.0, 16: 30.0, 32: largest}, monkeypatch)
    if kept:
        assert s03_dynamic.measured(case)
    else:
        with pytest.raises(Missed, match="about 100"):
            s03_dynamic.measured(case)
