"""Shares of INT8's error: arithmetic, from drifts whose parts are known."""

import math

import pytest

from helpers.engine.layer_groups import Group
from trtlab.quality.sensitivity import Row, of_layers, rank, single_layers, variants

GROUPS = [Group("a", ("a1", "a2"), ("a1",)), Group("b", ("b1",), ("b1",)), Group("c", ("c1", "c2"), ("c1", "c2"))]


def row(name: str, kind: str, unit: str, drift: float) -> Row:
    return Row(name, kind, unit, [], drift, 100.0, 90.0, 0.0, 0.0, 0.0, {}, {}, {}, 1, 1.0)


def measured(parts: dict[str, float], fp16: float = 0.0) -> dict[str, Row]:
    """Return rows of networks whose groups add independent errors of these norms to FP16's."""
    total = fp16**2 + sum(part**2 for part in parts.values())
    rows = [row("fp16", "baseline", "", fp16), row("int8+fp16", "baseline", "", math.sqrt(total))]
    for unit, part in parts.items():
        rows.append(row(f"keep {unit}", "keep", unit, math.sqrt(total - part**2)))
        rows.append(row(f"only {unit}", "only", unit, math.sqrt(fp16**2 + part**2)))
    return {each.name: each for each in rows}


@pytest.mark.parametrize("fp16", [0.0, 0.02])
def test_shares_of_independent_errors_are_those_of_their_squares(fp16: float) -> None:
    found = rank(measured({"a": 0.03, "b": 0.06, "c": 0.02}, fp16))
    assert [each.unit for each in found] == ["b", "a", "c"]
    assert [each.share for each in found] == pytest.approx([100 * 36 / 49, 100 * 9 / 49, 100 * 4 / 49])


def test_where_int8_adds_no_error_nobody_has_a_share() -> None:
    assert [each.share for each in rank(measured({"a": 0.0, "b": 0.0}, 0.01))] == [0.0, 0.0]


def test_each_group_is_kept_once_and_is_alone_once() -> None:
    found = {each.name: set(each.kept) for each in variants(GROUPS)}
    everything = {"a1", "a2", "b1", "c1", "c2"}
    for group in GROUPS:
        assert found[f"keep {group.name}"] == set(group.layers)
        assert found[f"only {group.name}"] == everything - set(group.layers)
    assert len(found) == 6


def test_single_layers_are_those_with_weights_of_the_named_groups() -> None:
    found = {each.name: set(each.kept) for each in single_layers(GROUPS, ["c"])}
    assert found == {
        "keep-layer c1": {"c1"},
        "only-layer c1": {"a1", "a2", "b1", "c2"},
        "keep-layer c2": {"c2"},
        "only-layer c2": {"a1", "a2", "b1", "c1"},
    }


def test_a_mix_keeps_the_first_and_the_last_layer_too() -> None:
    assert set(of_layers(GROUPS, []).kept) == {"a1", "c2"}
    assert set(of_layers(GROUPS, ["b"]).kept) == {"a1", "b1", "c2"} and of_layers(GROUPS, ["b"]).groups == ("b",)
