"""Step 5's known answers: right outputs are told from those of another image, and each form holds the same images."""

import numpy as np
import pytest

from helpers.checks.missed import Missed
from helpers.checks.points.s05_inference import FORMS, images_of, judge, row_errors
from helpers.tools.outputs import onnx_outputs
from helpers.toys.networks import tiny_onnx


@pytest.mark.parametrize("seed", range(4))
def test_two_images_never_have_nearly_the_same_outputs(seed: int) -> None:
    outputs = onnx_outputs(tiny_onnx(seed), images_of(seed, (8, 3, 224, 224)))
    for shift in range(1, 8):
        assert row_errors(np.roll(outputs, shift, axis=0), outputs).max() > 0.1


def test_one_wrong_row_is_told() -> None:
    expected = np.random.default_rng(0).standard_normal((8, 10)).astype(np.float32)
    assert judge(expected.copy(), expected, "a batch", "") == 0
    with pytest.raises(Missed, match="1 of 8 rows are others, the first is row 2"):
        judge(expected + (np.arange(8) == 2)[:, None], expected, "a batch", "")


def test_each_form_holds_the_same_images_in_another_way() -> None:
    images = images_of(1, (4, 3, 5, 6))
    for name, form in FORMS.items():
        given = form(images.copy())
        assert np.array_equal(given, images)
        assert (name == "plain") == (given.dtype == images.dtype and given.flags.c_contiguous)
