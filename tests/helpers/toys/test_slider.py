"""The slider: a picture for each value, and one line where ipywidgets is missing."""

import sys

import ipywidgets
import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from helpers.toys.slider import png, show_slider

matplotlib.use("Agg")
VALUES = (1.0, 2.5, 4.0)


def _draw(value: float) -> Figure:
    figure = matplotlib.pyplot.figure(figsize=(value, 1), dpi=20)
    return figure


def _width(picture: bytes) -> int:
    return int.from_bytes(picture[16:20], "big")


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[ipywidgets.VBox]:
    displayed: list[ipywidgets.VBox] = []
    monkeypatch.setattr("IPython.display.display", displayed.append)
    return displayed


def test_moving_it_draws_the_value_chosen(shown: list[ipywidgets.VBox]) -> None:
    show_slider(_draw, VALUES, "threshold", first=1)
    chosen, picture = shown[0].children
    widths = [_width(picture.value)]
    for index in (0, 2):
        chosen.index = index
        widths.append(_width(picture.value))
    assert widths == [_width(png(_draw(value))) for value in (2.5, 1.0, 4.0)] and len(set(widths)) == 3


def test_it_leaves_no_figure_open_that_the_notebook_would_show_again(shown: list[ipywidgets.VBox]) -> None:
    before = matplotlib.pyplot.get_fignums()
    show_slider(_draw, np.linspace(1, 2, 5), "threshold")
    assert shown and matplotlib.pyplot.get_fignums() == before


def test_without_ipywidgets_one_line_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shown: list[ipywidgets.VBox]
) -> None:
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    show_slider(_draw, VALUES, "threshold")
    assert capsys.readouterr().out == ("the slider needs ipywidgets: pip install ipywidgets, then restart the kernel\n")
    assert shown == []
