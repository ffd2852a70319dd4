"""A slider's output: a widget and a picture where ipywidgets is there, the picture alone where it is not."""

import base64
import sys
from unittest import mock

import matplotlib.pyplot as plt
import pytest

from helpers.slider import WIDGET, show_slider

_PNG = b"\x89PNG"


def _shown(drawn: list[float]) -> dict[str, object]:
    """Return the data of the one output of a slider whose drawing notes the values in `drawn`."""
    figure, _ = plt.subplots(figsize=(1, 1))
    with mock.patch("IPython.display.display") as display:
        show_slider(lambda value: drawn.append(value), "threshold", (1.0, 9.0, 4.0), figure)
    assert not plt.fignum_exists(figure.number)
    (data,), options = display.call_args
    assert options == {"raw": True}
    return data


def test_the_first_value_is_drawn_and_both_ways_of_showing_are_there() -> None:
    pytest.importorskip("ipywidgets")
    drawn: list[float] = []
    data = _shown(drawn)
    assert drawn == [4.0] and data[WIDGET]["model_id"]
    assert base64.b64decode(data["image/png"]).startswith(_PNG) and "threshold" in data["text/plain"]


def test_without_ipywidgets_the_picture_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    drawn: list[float] = []
    data = _shown(drawn)
    assert not drawn and sorted(data) == ["image/png", "text/plain"]
    assert base64.b64decode(data["image/png"]).startswith(_PNG)
