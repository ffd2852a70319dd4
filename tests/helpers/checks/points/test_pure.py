"""Does a comparison name what differs, by its place, and accept what is equal in another form?"""

import numpy as np
import pytest
import torch

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.pure import OneOf, Raises, agree, compare
from helpers.checks.probes.student import Student


def _case(function: object) -> Case:
    return Case(Student.in_process({"f": function}), 0)


@pytest.mark.parametrize("given", [(1, 0.5), [np.float32(1), torch.tensor(0.5)], torch.tensor([1.0, 0.5]).tolist()])
def test_equal_values_of_any_form_agree(given: object) -> None:
    assert compare(_case(lambda x: {"a": given, "more": 1}), "f", [((1,), {"a": [1, 0.5]})], "hint").startswith(
        "1 call"
    )


def test_the_first_three_differences_are_named_by_their_place() -> None:
    with pytest.raises(Missed) as missed:
        agree({"a": [1, 2.5]}, {"a": [1, 2], "b": 3, "c": 4, "d": 5}, "f()", "count again")
    assert missed.value.expected == "f(): a[1] = 2, b = 3, c = 4"
    assert missed.value.found == "a[1] = 2.5, b = nothing, c = nothing (and 1 more differ)"


def test_arrays_of_one_shape_differ_by_their_numbers() -> None:
    with pytest.raises(Missed) as missed:
        agree(np.array([[1, np.nan], [2.5, 4]], np.float32), np.array([[1, np.nan], [2, 4]]), "f()", "count again")
    assert (missed.value.expected, missed.value.found) == ("f(): [1, 0] = 2", "[1, 0] = 2.5")


@pytest.mark.parametrize("value", [True, "1", None, [1], 1.01])
def test_what_is_not_the_number_is_missed(value: object) -> None:
    with pytest.raises(Missed, match="expected 1 from f"):
        compare(_case(lambda: value), "f", [((), 1)], "hint")


def test_an_expected_error_is_one_of_its_type() -> None:
    class Own(ValueError):
        pass

    def f(x: int) -> int:
        if x < 0:
            raise Own("below zero")
        return x

    compare(_case(f), "f", [((1,), OneOf((1, 2))), ((-1,), Raises("ValueError"))], "hint")
    with pytest.raises(Missed, match=r"f\(-1\) to raise KeyError; found Own: below zero"):
        compare(_case(f), "f", [((-1,), Raises("KeyError"))], "hint")
    with pytest.raises(Missed, match=r"f\(1\) to raise ValueError; found 1"):
        compare(_case(f), "f", [((1,), Raises("ValueError"))], "hint")
