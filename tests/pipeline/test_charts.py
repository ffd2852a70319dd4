"""Charts are drawn from whatever was measured, name the device, and label their axes with units."""

import dataclasses

import matplotlib.pyplot as plt
import pytest
from PIL import Image

from helpers.plots import colour
from solutions.pipeline.charts import CHARTS, draw_charts
from solutions.pipeline.results import Results, Row, with_speedup
from tests.pipeline.sample_results import ENGINE, sample_results


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


@pytest.mark.parametrize("batches", [(1,), (1, 8), (1, 4, 8, 16, 32)])
def test_every_chart_is_a_png_that_can_be_read(tmp_path, batches):
    drawn = draw_charts(sample_results(batches), tmp_path)
    assert set(drawn) == set(CHARTS)
    for path in drawn.values():
        with Image.open(path) as image:
            image.load()
            assert image.format == "PNG" and min(image.size) > 400


@pytest.mark.parametrize("name", CHARTS)
def test_every_chart_names_the_device_and_its_units(name):
    figure = CHARTS[name](sample_results())
    assert any(ENGINE["device"] in text.get_text() for text in figure.texts)
    for axis in figure.axes:
        units = ("(ms)", "(images/s)", "(images)", "(×", "(%)", "(MB)")
        assert any(unit in axis.get_xlabel() + axis.get_ylabel() for unit in units)


def test_the_latency_bars_are_the_medians():
    results = sample_results((1, 8))
    figure = CHARTS["latency_by_precision"](results)
    for axis, batch in zip(figure.axes, (1, 8), strict=True):
        expected = [results.row(name, batch).median_ms for name in results.names]
        assert [bar.get_width() for bar in axis.patches] == pytest.approx(expected)


def test_a_ring_marks_where_throughput_saturates():
    rates = {1: 100.0, 2: 180.0, 4: 185.0}
    rows = [Row("int8", batch, images_per_s=rate) for batch, rate in rates.items()]
    (axis,) = CHARTS["throughput_by_batch"](Results(ENGINE, "m", "d", rows)).axes
    rings = [line for line in axis.lines if line.get_markerfacecolor() == "none"]
    assert [(list(ring.get_xdata()), list(ring.get_ydata())) for ring in rings] == [([2], [180.0])]


def test_the_accuracy_bars_span_the_interval_of_the_difference():
    results = sample_results()
    (axis,) = CHARTS["accuracy_speedup"](results).axes
    spans = [segment[:, 1].tolist() for bar in axis.collections for segment in bar.get_segments()]
    assert [round(value, 6) for value in spans[-1]] == [93.9, 94.9], "INT8: 95.0 less its loss's interval, 0.1 to 1.1"


def test_what_was_not_measured_is_not_drawn(tmp_path):
    rows = with_speedup([Row("pytorch-fp32", 1, images_per_s=30.0), Row("int8", 1, images_per_s=150.0)])
    assert set(draw_charts(Results(ENGINE, "m", "d", rows), tmp_path)) == {"throughput_by_batch", "speedup"}
    assert draw_charts(Results(ENGINE, "m", "d", []), tmp_path) == {}


def test_engines_with_names_of_their_own_are_drawn(tmp_path):
    rows = [dataclasses.replace(row, name=f"my {row.name}") for row in sample_results((1, 8)).rows]
    assert "latency_by_precision" in draw_charts(Results(ENGINE, "m", "d", rows), tmp_path)
    assert colour("my engine") == colour("my engine")


def test_no_figure_stays_open(tmp_path):
    draw_charts(sample_results((1, 8)), tmp_path)
    assert plt.get_fignums() == []
