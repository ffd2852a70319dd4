"""Shares of INT8's error: arithmetic, from drifts whose parts are known."""

import math

import pytest

from helpers.engine.layer_groups import Group
from trtlab.quality.sensitivity import Row, mixed, pairs, rank

GROUPS = [Group("a", ("a1", "a2"), ("a1",)), Group("b", ("b1",), ("b1",)), Group("c", ("c1", "c2"), ("c1", "c2"))]


def measured(parts: dict[str, float], fp16: float) -> dict[str, Row]:
    """Return rows of networks whose groups add independent errors of these norms to FP16's."""
    total = fp16**2 + sum(part**2 for part in parts.values())
    squares = {("baseline", "fp16"): fp16**2, ("baseline", "int8+fp16"): total}
    for unit, part in parts.items():
        squares |= {("keep", unit): total - part**2, ("only", unit): fp16**2 + part**2}
    rows = [{"kind": kind, "unit": unit, "drift": math.sqrt(square)} for (kind, unit), square in squares.items()]
    return {row["unit"] if row["kind"] == "baseline" else f"{row['kind']} {row['unit']}": row for row in rows}


@pytest.mark.parametrize("fp16", [0.0, 0.02])
def test_shares_of_independent_errors_are_those_of_their_squares(fp16: float) -> None:
    found = rank(measured({"a": 0.03, "b": 0.06, "c": 0.02}, fp16))
    assert list(found["unit"]) == ["b", "a", "c"]
    assert list(found["share"]) == pytest.approx([100 * 36 / 49, 100 * 9 / 49, 100 * 4 / 49])


def test_where_int8_adds_no_error_nobody_has_a_share() -> None:
    assert list(rank(measured({"a": 0.0, "b": 0.0}, 0.01))["share"]) == [0.0, 0.0]


def test_a_group_of_which_one_engine_is_measured_is_not_ranked_yet() -> None:
    rows = measured({"a": 0.03, "b": 0.06}, 0.02)
    del rows["only b"]
    assert list(rank(rows)["unit"]) == ["a"] and rank(rows, "-layer").empty


def test_each_unit_is_kept_once_and_is_alone_once() -> None:
    found = {each.name: each.kept for each in pairs(GROUPS, {"c1": ("c1",), "a": ("a1", "a2")}, "-layer")}
    assert found == {
        "keep-layer c1": ("c1",),
        "only-layer c1": ("a1", "a2", "b1", "c2"),
        "keep-layer a": ("a1", "a2"),
        "only-layer a": ("b1", "c1", "c2"),
    }


def test_a_mix_keeps_the_first_and_the_last_layer_too() -> None:
    assert set(mixed(GROUPS, []).kept) == {"a1", "c2"}
    assert set(mixed(GROUPS, ["b"]).kept) == {"a1", "b1", "c2"} and mixed(GROUPS, ["b"]).groups == ("b",)
