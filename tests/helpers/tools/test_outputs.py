"""The relative error is computed in float64, whatever the outputs' type."""

import numpy as np
import pytest

from helpers.tools.outputs import relative_error


@pytest.mark.parametrize(
    ("expected", "outputs", "error"),
    [
        (np.full(8, 30_000, np.float16), np.full(8, 36_000, np.float16), 0.2),  # squares end beyond FP16's 65,504
        (np.array([True, True, True, True]), np.array([True, True, True, False]), 0.5),
        (np.array([0, 4], np.uint8), np.array([1, 4], np.uint8), 0.25),
    ],
)
def test_types_that_would_overflow_or_wrap(expected: np.ndarray, outputs: np.ndarray, error: float) -> None:
    assert relative_error(outputs, expected) == pytest.approx(error, rel=1e-3)
