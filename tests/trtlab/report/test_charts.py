"""Charts are drawn from whatever was measured, name the device, and label their axes with units."""

import dataclasses
import functools
import itertools
import re
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import rc_context, rcParams
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from PIL import Image

from helpers.course.plots import colour
from tests.overlaps import overlaps
from tests.trtlab.sample_results import ENGINE, MS_PER_IMAGE, results_of, row, sample_results, write_folder
from trtlab.report import charts
from trtlab.report.chart_parts import DARK, STYLE, contrast, spread, tint
from trtlab.report.charts import CHARTS, best_trades, draw_charts, draw_pareto
from trtlab.report.findings import figures
from trtlab.report.results import Results, with_speedups
from trtlab.report.sources import load_sources

FIXTURES, RECORDED = Path(__file__).parents[1] / "fixtures", Path(__file__).parents[3] / "docs" / "results"
GPU = {"name": "tensorrt", "version": "8.6.0", "device": "TensorRT 8.6.0, TEST GPU"}


@pytest.fixture(autouse=True)
def drawn_as_in_the_report():
    with rc_context(STYLE):
        yield


@pytest.mark.parametrize("batches", [(1,), (1, 8), (1, 4, 8, 16, 32)])
def test_every_chart_is_a_png_that_can_be_read(tmp_path, batches):
    drawn = draw_charts(sample_results(batches), tmp_path)
    assert set(drawn) == set(CHARTS)
    for path in drawn.values():
        with Image.open(path) as image:
            image.load()
            assert image.format == "PNG" and min(image.size) > 400
        drawing = ElementTree.parse(path.with_suffix(".svg")).getroot()
        assert drawing.tag == "{http://www.w3.org/2000/svg}svg" and float(drawing.get("width")[:-2]) > 400


@pytest.mark.parametrize("name", CHARTS)
def test_every_chart_names_the_device_and_its_units(name):
    figure = CHARTS[name](sample_results())
    assert any(ENGINE["device"] in text.get_text() for text in figure.texts)
    assert all(re.search(r"\((ms|images/s|images|×.*|%|MB)\)", axis.get_xlabel()) for axis in figure.axes)


def test_a_bar_is_the_median_or_a_short_log_s_mean_and_its_line_reaches_to_p99_where_there_is_one():
    rows = [row("fp32", 1, median_ms=10.0, p99_ms=30.0, iterations=200), row("int8", 1, median_ms=5.0, iterations=20)]
    (axis,) = CHARTS["latency_by_precision"](results_of(*rows, row("mine", 1, mean_ms=4.0))).axes
    (tails,) = axis.collections
    assert [bar.get_width() for bar in axis.patches] == [10.0, 5.0, 4.0]
    assert [segment[:, 0].tolist() for segment in tails.get_segments()] == [[10.0, 30.0], [5.0, 5.0], [4.0, 4.0]]
    assert axis.get_xlim()[0] == 0 and axis.get_xlim()[1] > 30, "neither bar nor line is cut"
    assert {"n = 20 to 200 calls", "4.00 mean"} <= {text.get_text() for text in axis.texts}


def beside_a_gpu() -> Results:
    """Sample results on a GPU, with ONNX Runtime on the CPU beside it."""
    rows = [
        {**row, "elsewhere": "CPU, 2 threads" if row["engine"] == "onnxruntime-fp32" else None}
        for row in sample_results().found
    ]
    return dataclasses.replace(sample_results(), engine=GPU, found=with_speedups(rows))


def test_what_ran_beside_a_gpu_is_in_no_chart(tmp_path):
    drawn = draw_charts(beside_a_gpu(), tmp_path)
    file, _ = CHARTS["size_memory"](beside_a_gpu().by_machine()[0]).axes
    assert [bar.get_width() > 0 for bar in file.patches] == [False, *[True] * 5], "PyTorch has no engine file"
    assert set(drawn) == set(CHARTS)
    assert all("ONNX Runtime" not in path.with_suffix(".svg").read_text() for path in drawn.values())


def test_a_ring_marks_where_throughput_saturates():
    rows = [row("int8", batch, images_per_s=rate) for batch, rate in ((1, 100.0), (2, 180.0), (4, 185.0), (8, 400.0))]
    (axis,) = CHARTS["throughput_by_batch"](results_of(*rows)).axes
    rings = [line for line in axis.lines if line.get_markerfacecolor() == "none"]
    assert [(list(ring.get_xdata()), list(ring.get_ydata())) for ring in rings] == [([2], [180.0])]


def test_every_line_of_a_later_source_is_dashed_and_none_of_the_first():
    rows = [row(name, 8, source=source, images_per_s=9.0) for source, name in (("", "fp32"), ("b", "fp32"), ("b", "a"))]
    rows += [row("int8", 8, how=how, images_per_s=9.0) for how in (None, "2 streams")]
    figure = CHARTS["throughput_by_batch"](results_of(*rows))
    titles = {text.get_text().split("  ")[0]: place for place, text in enumerate(figure.axes[0].texts)}
    looks = [line.get_linestyle() for line in figure.axes[0].lines]
    assert {title: looks[place] for title, place in titles.items()} == {
        "FP32": "-", "FP32 · b": "--", "A · b": "--", "INT8": "-", "INT8, 2 streams": "--",
    }  # fmt: skip


def test_the_accuracy_bars_span_the_interval_of_the_difference():
    results = sample_results()
    axis, _ = CHARTS["accuracy_speedup"](results).axes
    span = axis.collections[0].get_segments()[-1][:, 0]
    assert list(span) == pytest.approx([93.9, 94.9]), "INT8: 95.0 less its loss's interval, 0.1 to 1.1"


def test_what_was_not_measured_is_not_drawn(tmp_path):
    rows = [row("pytorch-fp32", 1, images_per_s=30.0), row("int8", 1, images_per_s=150.0)]
    assert set(draw_charts(results_of(*rows), tmp_path)) == {"throughput_by_batch", "speedup"}
    assert draw_charts(results_of(), tmp_path) == {}


def test_another_machine_has_charts_of_its_own_and_the_colours_of_its_engines():
    home, away = with_machines().by_machine()
    (axis,) = [axis for axis in CHARTS["latency_by_precision"](away).axes if axis.get_title(loc="left") == "batch 1"]
    assert [label.get_text() for label in axis.get_yticklabels()][:2] == ["PyTorch FP32", "FP32"]
    assert [bar.get_facecolor() for bar in axis.patches] == [
        to_rgba(colour(name)) for name in ("pytorch-fp32", "fp32", "tf32", "fp16", "dynamic-fp16", "int8")
    ]
    assert away.device in axis.figure.texts[1].get_text() and CHARTS["speedup"](away) is None, "no speed-up is shared"
    assert home.device in CHARTS["speedup"](home).texts[1].get_text()


def test_a_row_that_contradicts_itself_is_in_no_chart():
    rows = [row("fp32", 8, median_ms=8.0, images_per_s=1000.0), row("int8", 8, median_ms=1.0, images_per_s=1000.0)]
    results = results_of(*rows)
    (axis,) = CHARTS["latency_by_precision"](results).axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["FP32"]
    (axis,) = CHARTS["throughput_by_batch"](results).axes
    assert [list(line.get_ydata()) for line in axis.lines] == [[1000.0]]


@functools.cache
def with_machines() -> Results:
    """A run on the CPU engine beside one on a GPU, with ONNX Runtime on the CPU there."""
    home = sample_results((1, 8))
    rows = [{**row, "device": None} if row["engine"] == "pytorch-fp32" else row for row in sample_results().found]
    away = dataclasses.replace(sample_results(), engine={**GPU, "device": "TensorRT 8.6.0, NVIDIA TEST"}, found=rows)
    with tempfile.TemporaryDirectory() as folder:
        runs = {"home": home, "away": away}
        return load_sources([write_folder(Path(folder) / name, results=run) for name, run in runs.items()])


def with_long_names() -> Results:
    """Sample results of an engine, a model and rows with names that no axis has room for."""
    results = sample_results()
    long = {name: f"{name} of_a_model_whose_name_is_much_longer_than_usual and_goes_on_and_on" for name in MS_PER_IMAGE}
    long["pytorch-fp32"] = "pytorch-fp32"
    rows, scores = (
        [{**row, "engine": long[row["engine"]]} for row in part] for part in (results.found, results.scored)
    )
    engine = {**ENGINE, "device": "an engine, " + "with a processor that has a long name, " * 5}
    return dataclasses.replace(
        results, engine=engine, model="my_own_model_" * 4, data="imagenet:/a/folder", found=rows, scored=scores
    )


def test_batch_sizes_without_room_have_no_number():
    rows = [row("fp32", batch, images_per_s=100.0 + batch) for batch in range(1, 33)]
    figure = CHARTS["throughput_by_batch"](results_of(*rows))
    (axis,) = figure.axes
    assert [len(line.get_xdata()) for line in axis.lines][0] == 32 and axis.get_xticks()[-1] == 32
    assert overlaps(FigureCanvasAgg(figure).figure) == []


FOLDERS = {"H200": RECORDED / "h200", "CPU": RECORDED / "cpu", "quick CPU": FIXTURES / "quick_cpu"}
CASES = {
    "one batch": lambda: sample_results((1,)),
    "five batches": sample_results,
    "beside a GPU": beside_a_gpu,
    "long names": with_long_names,
    "two machines": with_machines,
    **{name: functools.partial(load_sources, [folder]) for name, folder in FOLDERS.items()},
}


@pytest.mark.parametrize("chart", CHARTS)
@pytest.mark.parametrize("case", CASES)
def test_no_text_of_a_chart_overlaps_another_or_leaves_the_picture(case, chart):
    drawn = [figure for part in CASES[case]().by_machine() if (figure := CHARTS[chart](part))]
    assert drawn and [overlaps(FigureCanvasAgg(figure).figure) for figure in drawn] == [[] for _ in drawn]


@given(st.lists(st.floats(0, 100), min_size=1, max_size=12), st.floats(0.1, 20))
def test_labels_are_spread_just_as_far_as_they_must(wanted, least):
    places = spread(wanted, least, low=0.0)
    ordered = sorted(places)
    assert all(b - a >= least * (1 - 1e-9) for a, b in zip(ordered, ordered[1:], strict=False)) and ordered[0] >= 0
    for (one, place), (other, its) in itertools.combinations(zip(wanted, places, strict=True), 2):
        assert one == other or (one < other) == (place < its), "their order is that of the points"
    far = sorted(wanted)
    if all(b - a >= least for a, b in zip(far, far[1:], strict=False)):
        assert places == pytest.approx(wanted), "nothing moves that has room"


@pytest.mark.parametrize(
    ("value", "text"), [(0.5, "0.500"), (4.044, "4.04"), (57.53, "57.5"), (292.4, "292"), (1234.5, "1,234")]
)
def test_latencies_have_three_figures(value, text):
    assert figures(value) == text


@pytest.mark.parametrize("style", [STYLE, DARK], ids=["light", "dark"])
def test_every_label_can_be_read_on_its_ground(style):
    with rc_context(style):
        ground = rcParams["axes.facecolor"]
        for name in [*MS_PER_IMAGE, "pytorch-fp16", "torch-compile-fp32", "bf16", "int8+fp16", "a", "of mine"]:
            assert contrast(tint(name, text=True), ground) >= 4.5, name
        for part in ("text.color", "axes.labelcolor", "xtick.color", "ytick.color"):
            assert contrast(rcParams[part], ground) >= 4.5, part


@pytest.mark.parametrize("style", [STYLE, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("lighter", [("pytorch-fp32", "pytorch-fp16", "torch-compile-fp32"), ("fp32", "tf32")])
def test_rows_of_one_hue_keep_their_order_of_lightness(style, lighter):
    with rc_context(style):
        steps = [contrast(tint(name), "black") for name in lighter]
    assert all(one < 0.95 * other for one, other in zip(steps, steps[1:], strict=False))


def point(name: str, ms: float, loss: float) -> dict:
    return {"name": name, "median_ms": ms, "loss": loss, "loss_low": loss - 1, "loss_high": loss + 1, "batch": 8}


POINTS = [point("fp32", 8, 0), point("fp16", 2, 0.1), point("int8", 1, 3), point("mixed-2", 1.5, 0.3)]


def test_what_is_slower_and_loses_more_is_no_trade():
    trades = best_trades(pd.DataFrame([*POINTS, point("mixed-1", 1.7, 0.3)]))
    assert list(trades["name"]) == ["int8", "mixed-2", "fp16", "fp32"]


@pytest.fixture()
def drawn(monkeypatch) -> list[Figure]:
    """The figures that are drawn after this."""
    figures: list[Figure] = []
    monkeypatch.setattr(charts, "Figure", lambda *size, **look: figures.append(Figure(*size, **look)) or figures[-1])
    return figures


def test_the_pareto_chart_of_engines_that_are_nearly_as_fast_has_ticks_among_them(tmp_path, drawn):
    draw_pareto(tmp_path / "p.png", [point("fp32", 0.19, 0), point("fp16", 0.145, 0.1)], "m.onnx")
    (axes,) = drawn[0].axes
    assert list(axes.get_xticks()) == pytest.approx([0.14, 0.16, 0.18, 0.2])


def test_the_pareto_chart_has_each_engine_where_it_was_measured(tmp_path, drawn):
    draw_pareto(tmp_path / "p.png", POINTS, "m.onnx on a CPU")
    (axes,) = drawn[0].axes
    assert {text.get_text(): text.xy for text in axes.texts} == {p["name"]: (p["median_ms"], p["loss"]) for p in POINTS}
    assert "batch 8" in axes.get_xlabel() and "ms" in axes.get_xlabel() and "points" in axes.get_ylabel()
    assert "m.onnx on a CPU" in axes.get_title(loc="left")
    assert (tmp_path / "p.png").read_bytes()[:4] == b"\x89PNG"
