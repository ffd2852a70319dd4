"""Charts and tables that give numbers to the wrong name, batch or axis are told so; any right form is not."""

from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from helpers.feedback.chart_parts import check_numbers
from helpers.feedback.table_places import check_table
from helpers.missed import Missed
from helpers.probes.figures import Drawn, drawn_as, recorded_figures
from helpers.probes.measurements import made_up
from helpers.probes.pages import Page

SIZES = {name: 10_000_000 + place for place, name in enumerate(("onnx", "fp32", "fp16", "int8"))}
REPORT = made_up(5).report(SIZES, SIZES)
LATENCY = REPORT["latency_ms"]
FRAME = pd.DataFrame(LATENCY).rename(index=int)
ENGINES = ("fp32", "fp16", "int8")
POINTS = {name: (REPORT["speedup"][name]["32"], REPORT["accuracy"][name]["top1"]) for name in ENGINES}


def _draw(folder: Path, chart: str, draw: Callable[[], None]) -> Drawn:
    with recorded_figures() as drawn:
        draw()
        plt.savefig(folder / chart)
        return drawn_as(drawn, folder / chart)


def _labels(x: str = "batch size", y: str = "median latency (ms)") -> None:
    plt.xlabel(x)
    plt.ylabel(y)


def _lines(legend: list[str] | None = None, **style: float) -> None:
    for name in LATENCY:
        plt.plot(FRAME.index, FRAME[name], label=name, **style)
    plt.legend(*([legend] if legend else []))
    plt.yscale("log")
    _labels()


def _categories(order: list[int]) -> None:
    for name in LATENCY:
        plt.plot([str(batch) for batch in order], FRAME[name], "o", label=name)
    plt.legend()
    _labels()


def _bars(lying: bool = False) -> None:
    FRAME.plot.barh() if lying else FRAME.plot.bar()
    _labels(*(("latency (ms)", "batch") if lying else ()))


def _ticks(order: list[int]) -> None:
    for name in LATENCY:
        plt.plot(range(5), FRAME[name], label=name)
    plt.xticks(range(5), order)
    plt.legend()
    _labels()


def _swapped() -> None:
    for name in LATENCY:
        plt.plot(FRAME[name], FRAME.index, label=name)
    plt.legend()
    _labels()


def _beside() -> None:
    _lines()
    for name, series in REPORT["throughput"].items():
        plt.plot(FRAME.index, list(series.values()), label=name)


def _beside_on_an_axis_of_its_own() -> None:
    _lines()
    plt.twinx().plot(FRAME.index, list(REPORT["throughput"]["int8"].values()), ":", color="black")


def _names_on_the_axis() -> None:
    FRAME.T.plot.bar()
    _labels("engine", "ms")


RIGHT = {
    "lines": _lines,
    "categories": lambda: _categories([1, 4, 8, 16, 32]),
    "bars": _bars,
    "lying bars": lambda: _bars(lying=True),
    "ticks": lambda: _ticks([1, 4, 8, 16, 32]),
    "names on the axis": _names_on_the_axis,
    "another axis": _beside_on_an_axis_of_its_own,
}
WRONG = {
    "legend reversed": (lambda: _lines(list(LATENCY)[::-1]), "in the colour that the legend gives"),
    "invisible": (lambda: _lines(alpha=0), "0 of them drawn"),
    "out of sight": (lambda: (_lines(), plt.xlim(100, 200)), "0 of them drawn"),
    "sorted as text": (lambda: _categories([1, 16, 32, 4, 8]), "it stands at 16"),
    "wrong ticks": (lambda: _ticks([32, 16, 8, 4, 1]), "it stands at 32"),
    "axes swapped": (_swapped, "the unit ms at the axis"),
    "lines of another chart": (_beside, "a line of throughput among them"),
}


@pytest.mark.parametrize("form", RIGHT)
def test_a_right_chart_in_any_form_is_right(tmp_path: Path, form: str) -> None:
    assert "20 of 20 numbers" in check_numbers("latency.png", _draw(tmp_path, "latency.png", RIGHT[form]), REPORT)


@pytest.mark.parametrize("form", WRONG)
def test_a_chart_that_misleads_is_told_how(tmp_path: Path, form: str) -> None:
    draw, found = WRONG[form]
    with pytest.raises(Missed, match=found):
        check_numbers("latency.png", _draw(tmp_path, "latency.png", draw), REPORT)


def _annotated(order: tuple[str, ...]) -> None:
    for name, (x, y) in zip(order, POINTS.values(), strict=True):
        plt.plot(x, y, "o")
        plt.annotate(name, (x, y), (0, 9), textcoords="offset points")
    _labels("speed-up (×)", "top-1 (%)")


def _scattered() -> None:
    points = np.array(list(POINTS.values()))
    plt.scatter(points[:, 0], points[:, 1])
    for name, point in POINTS.items():
        plt.text(*point, name)
    plt.xscale("log")
    _labels("speed-up (×)", "top-1 (%)")


def test_points_of_accuracy_are_those_of_their_names(tmp_path: Path) -> None:
    for draw in (lambda: _annotated(ENGINES), _scattered):
        assert check_numbers("accuracy.png", _draw(tmp_path, "accuracy.png", draw), REPORT)
    for draw, found in (
        (lambda: _annotated(ENGINES[::-1]), "fp32's point, named int8"),
        (lambda: (_annotated(ENGINES), _labels("top-1 (%)", "speed-up (×)")), "swap the two labels"),
    ):
        with pytest.raises(Missed) as missed:
            check_numbers("accuracy.png", _draw(tmp_path, "accuracy.png", draw), REPORT)
        assert found in str(missed.value)


TABLE = pd.DataFrame(LATENCY).T
LONG = "".join(
    f"<tr><td>{name}<td>{batch}<td>{value:.1f}" for name, row in LATENCY.items() for batch, value in row.items()
)


@pytest.mark.parametrize(
    "table", [TABLE.to_html(), TABLE.T.to_html(), TABLE.round(1).to_html(), f"<table>{LONG}</table>"]
)
def test_a_right_table_in_any_form_is_right(table: str) -> None:
    (rows,) = Page(f"<p>2</p>{table}<p>after").tables
    assert any("int8" in cell for row in rows for cell in row)
    check_table(rows, REPORT)


@pytest.mark.parametrize(
    ("table", "found"),
    [
        (TABLE.set_axis(list(TABLE.index)[::-1]), "the median latency of"),
        (TABLE.T.set_axis(list(TABLE.index)[::-1], axis=1), "the median latency of"),
        (TABLE.set_axis(["1", "16", "32", "4", "8"], axis=1), "in other columns"),
    ],
)
def test_a_table_whose_rows_or_columns_are_mixed_up_is_told(table: pd.DataFrame, found: str) -> None:
    with pytest.raises(Missed, match=found):
        check_table(Page(table.to_html()).tables[0], REPORT)
