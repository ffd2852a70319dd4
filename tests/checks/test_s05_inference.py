"""Step 5's known answers: right outputs are told from those of another image."""

import pytest

from helpers.checks.missed import Missed
from helpers.checks.points.s05_inference import images_of, judge
from helpers.tools.outputs import onnx_outputs
from helpers.toys.networks import tiny_onnx


def test_outputs_of_other_images_are_told_apart_row_by_row() -> None:
    expected = onnx_outputs(tiny_onnx(1), images_of(1, (8, 3, 224, 224)))
    assert judge(expected.copy(), expected, "a batch", "") == 0
    with pytest.raises(Missed, match="2 of 8 rows differ, the first is row 2"):
        judge(expected[[0, 1, 3, 2, 4, 5, 6, 7]], expected, "a batch", "")
