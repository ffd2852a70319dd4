"""Step 9's known answers: what a search of all sets chooses, and what is drawn."""

import itertools
from typing import Any

import pytest

from helpers.checks.points.case import Case
from helpers.checks.points.s09_mixed_precision import study
from helpers.checks.points.s09_mixed_precision.networks import CONVOLUTIONS, KEPT
from helpers.checks.probes.student import Student

Table = dict[str, dict[str, float]]


def case_of(seed: int = 5, **functions: Any) -> Case:
    return Case(Student.in_process(functions), seed)


def searched(table: Table, fp16: float, int8: float, target: float) -> list[str]:
    """Return the smallest set by trying every one, the one that predicts the least first among those of a size."""
    part = {name: (int8**2 - row["kept"] ** 2 + row["alone"] ** 2 - fp16**2) / 2 for name, row in table.items()}
    for number in range(len(part) + 1):
        best = max(itertools.combinations(part, number), key=lambda names: sum(part[name] for name in names))
        if int8**2 - sum(part[name] for name in best) <= target**2 * (1 + 1e-12):
            return sorted(best, key=lambda name: -part[name])
    raise ValueError("none")


@pytest.mark.parametrize("seed", range(3))
def test_a_search_of_all_sets_is_a_right_choice(seed: int) -> None:
    case = case_of(seed, choose_groups=searched)
    assert [point(case) for point in study.CHOOSE.points]


def test_one_name_begins_with_another_among_groups_and_layers() -> None:
    for seed in range(10):
        groups, error = study.known(case_of(seed))
        assert {"b1", "b10"} <= groups.keys() and len({*error.values()}) == len(error)
    assert "conv1" in KEPT and "conv10" not in KEPT and {"conv1", "conv10"} <= {*CONVOLUTIONS}
