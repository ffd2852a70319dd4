"""Ticks of logarithmic axes."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pytest

from helpers.course.plots import log_ticks, plain_log_axis


@pytest.mark.parametrize(
    ("least", "most", "ticks"),
    [
        (0.3, 40, [0.5, 1, 2, 5, 10, 20]),
        (1, 100, [1, 2, 5, 10, 20, 50, 100]),
        (27, 81, [30, 40, 50, 60, 70, 80]),
        (8.19, 8.64, [8.2, 8.3, 8.4, 8.5, 8.6]),
        (7.5, 8.642, [7.6, 7.8, 8, 8.2, 8.4, 8.6]),
        (0.1305, 0.2185, [0.14, 0.16, 0.18, 0.2]),
        (3.14159, 3.14159, [3.14]),
    ],
)
def test_ticks_are_round_numbers_between_the_ends(least: float, most: float, ticks: list[float]) -> None:
    assert log_ticks(least, most) == pytest.approx(ticks)


def test_a_logarithmic_axis_writes_its_ticks_without_powers_and_no_others() -> None:
    figure, axes = plt.subplots()
    plain_log_axis(axes.yaxis, [0.5, 1, 200, 5000, 20000])
    axes.set_ylim(0.2, 40000)
    figure.canvas.draw()
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["0.5", "1", "200", "5,000", "20,000"]
    assert axes.get_yscale() == "log" and not axes.yaxis.get_minorticklocs().size
    plt.close(figure)
