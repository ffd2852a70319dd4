"""What step 8 asks: runs that were made up, figures read as data, tables and texts as a reader takes them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.s08_report import CHECKS, PARTS, charts, contents, naming, page, text
from helpers.checks.points.s08_report.contents import equal
from helpers.checks.points.s08_report.figures import drawn
from helpers.checks.points.s08_report.runs import EXAMPLES, Run
from helpers.checks.probes.student import Student
from helpers.course.settings import BASELINE, ENGINES, NAMES
from helpers.engine.backend import trt
from helpers.engine.given import probe_engine
from helpers.toys.networks import tiny_onnx
from solutions.checks.trusted.report_runs import KINDS, expected_figures, expected_report, made_up

SEEDS = range(200)
RUN = EXAMPLES[0]
LATENCY = RUN.report["latency_ms"]
BATCHES = [int(batch) for batch in RUN.batches]
FRAME = pd.DataFrame(LATENCY)


@pytest.fixture(autouse=True)
def _closed() -> Any:
    yield
    plt.close("all")


@pytest.mark.parametrize("run", EXAMPLES, ids=[run.report["model"] for run in EXAMPLES])
def test_the_recorded_runs_hold_what_follows_from_their_files(run: Run) -> None:
    follows = expected_report(run.latency, run.throughput, run.accuracy)
    assert {key: run.report[key] for key in follows} == follows
    assert expected_figures(run.report) == run.figures


def test_runs_differ_in_all_that_could_be_typed() -> None:
    for seed in SEEDS:
        runs = [made_up(seed, kind) for kind in range(KINDS)]
        assert len({tuple(run.batches) for run in runs}) == KINDS
        assert all(run.batches != sorted(run.batches) for run in runs)  # as text the order is another one
        assert {len(run.names) for run in runs} == {4, 5, 6}
        assert len({run.report["engine"] for run in runs}) == len({run.report["model"] for run in runs}) == KINDS
        losses = [run.figures["int8_top1_loss"] for run in runs]
        assert min(losses) < -0.5 and max(losses) > 0.5


def _gains(rates: dict[str, float]) -> np.ndarray:
    return np.array(list(rates.values())[1:]) / list(rates.values())[:-1]


def _first_small_gain(rates: dict[str, float], limit: float = 1.1) -> int:
    small = [*np.flatnonzero(_gains(rates) < limit), len(rates) - 1]
    return int(list(rates)[small[0]])


def _last_small_gain(rates: dict[str, float]) -> int:
    return int(list(rates)[([len(rates) - 1, *np.flatnonzero(_gains(rates) < 1.1)])[-1]])


def _hardly_any_change(rates: dict[str, float]) -> int:
    return int(list(rates)[[*np.flatnonzero(abs(_gains(rates) - 1) < 0.1), len(rates) - 1][0]])


WRONG_RULES: dict[str, Callable[[dict[str, float]], int]] = {
    "largest": lambda rates: int(max(rates, key=rates.get)),
    "nine tenths of the best": lambda rates: next(int(b) for b in rates if rates[b] >= 0.9 * max(rates.values())),
    "five percent": lambda rates: _first_small_gain(rates, 1.05),
    "tenth of the larger": lambda rates: _first_small_gain(rates, 1 / 0.9),
    "fifteen percent": lambda rates: _first_small_gain(rates, 1.15),
    "last small gain": _last_small_gain,
    "a fall is a change": _hardly_any_change,
    "sorted as text": lambda rates: _first_small_gain({batch: rates[batch] for batch in sorted(rates)}),
    "last batch": lambda rates: int(list(rates)[-1]),
}


def test_no_wrong_rule_gives_the_key_figures_by_chance() -> None:
    for seed in SEEDS:
        runs = [made_up(seed, kind) for kind in range(KINDS)]
        right = [run.figures["int8_saturation_batch"] for run in runs]
        rates = [run.report["throughput"]["int8"] for run in runs]
        assert right == [_first_small_gain(series) for series in rates]
        for name, rule in WRONG_RULES.items():
            assert [rule(series) for series in rates] != right, name
            assert any(
                rule(run.report["throughput"]["int8"]) != run.figures["int8_saturation_batch"] for run in EXAMPLES
            ), name
        fastest = [run.figures["fastest_name"] for run in runs]
        assert {BASELINE, "fp32", "fp16", "int8"} <= set(fastest)
        assert any(str(run.figures["fastest_batch"]) != run.batches[-1] for run in runs)


def test_right_charts_are_right_and_mixed_up_ones_wrong_for_every_seed() -> None:
    for seed in SEEDS:
        run = made_up(seed, seed % KINDS)
        for key, chart in (("latency_ms", "latency"), ("throughput", "throughput"), ("speedup", "speedup")):
            facts = _as_drawn(run, run.report[key], charts.UNITS[chart])
            assert charts._check_numbers(facts, run, chart)
            with pytest.raises(Missed):
                turned = dict(
                    zip(run.names, [*list(run.report[key].values())[1:], run.report[key][run.names[0]]], strict=True)
                )
                charts._check_numbers(_as_drawn(run, turned, charts.UNITS[chart]), run, chart)


def _as_drawn(run: Run, table: dict[str, dict[str, float]], unit: str) -> dict[str, Any]:
    """Return what `drawn` says of a plot with a line for each row of the table."""
    marks = [
        {
            "series": place,
            "kind": "line",
            "legend": name,
            "x": index,
            "y": value,
            "base": 0.0,
            "thick": 0.0,
            "at": [0.0, 0.0],
        }
        | {"x_tick": [batch, 0.0], "y_tick": ["", 0.0]}
        for place, (name, row) in enumerate(table.items())
        for index, (batch, value) in enumerate(row.items())
    ]
    axis = {"limits": [0.0, 1e9], "scale": "linear", "ticks": [[0.0, "0"]], "offset": ""}
    plot = {
        "title": "",
        "place": [],
        "x": {**axis, "label": "batch"},
        "y": {**axis, "label": unit},
        "notes": [],
        "marks": marks,
    }
    return {"texts": [], "x_label": "", "y_label": "", "axes": [plot]}


def _lines(names: list[str] | None = None, table: dict[str, Any] = LATENCY, **style: Any) -> Figure:
    figure, axes = plt.subplots()
    for name in LATENCY:
        axes.plot(BATCHES, list(table[name].values()), label=name, **style)
    axes.legend(*([names] if names else []))
    axes.set(xlabel="batch", ylabel="median latency (ms)", xticks=BATCHES, yscale="log")
    return figure


def _of_pandas(kind: str, frame: pd.DataFrame, **labels: str) -> Figure:
    axes = frame.plot(kind=kind)
    axes.set(**labels)
    return axes.get_figure()


def _categories(order: list[str]) -> Figure:
    figure = plt.figure()
    for name in LATENCY:
        plt.plot(order, FRAME[name], "o", label=name)
    plt.legend()
    plt.xlabel("batch")
    plt.ylabel("ms")
    return figure


def _panels() -> Figure:
    figure, all_axes = plt.subplots(1, len(RUN.batches), sharey=True)
    for axes, batch in zip(all_axes, RUN.batches, strict=True):
        axes.bar(range(len(LATENCY)), FRAME.loc[batch], tick_label=[name.upper() for name in LATENCY])
        axes.set(title=f"batch {batch}", xlabel="engine")
    all_axes[0].set_ylabel("milliseconds")
    return figure


def _second_axis() -> Figure:
    figure = _lines()
    other = figure.axes[0].twinx()
    other.plot(BATCHES, list(RUN.report["throughput"]["int8"].values()), label="int8", color="black")
    other.set_ylabel("images/s")
    return figure


RIGHT = {
    "lines": _lines,
    "categories": lambda: _categories(RUN.batches),
    "bars": lambda: _of_pandas("bar", FRAME, xlabel="batch", ylabel="ms"),
    "lying bars": lambda: _of_pandas("barh", FRAME, ylabel="batch", xlabel="ms"),
    "names on the axis": lambda: _of_pandas("bar", FRAME.T, xlabel="engine", ylabel="ms"),
    "a panel a batch": _panels,
    "a second axis": _second_axis,
}
WRONG = {
    "legend reversed": (lambda: _lines(list(LATENCY)[::-1]), "is read there"),
    "no legend": (lambda: _lines(["", "", "", "", ""]), "no name"),
    "hidden": (lambda: _lines(visible=False), "no name"),
    "sorted as text": (lambda: _categories(sorted(RUN.batches)), "is read there"),
    "of another chart": (lambda: _lines(table=RUN.report["throughput"]), "is read there"),
    "in seconds": (lambda: _of_pandas("bar", FRAME / 1000, xlabel="batch", ylabel="ms"), "is read there"),
    "without a batch": (lambda: _of_pandas("bar", FRAME[1:], xlabel="batch", ylabel="ms"), "no tick that says"),
}


@pytest.mark.parametrize("form", RIGHT)
def test_a_right_chart_in_any_form_is_right(form: str) -> None:
    facts = drawn(RIGHT[form]())
    assert charts._check_numbers(facts, RUN, "latency").startswith("latency: 25 numbers")
    assert charts._check_labels(facts, RUN, "latency") and charts._check_limits(facts, RUN, "latency") or form == "bars"


@pytest.mark.parametrize("form", WRONG)
def test_a_chart_that_misleads_is_told_how(form: str) -> None:
    draw, found = WRONG[form]
    with pytest.raises(Missed, match=found):
        charts._check_numbers(drawn(draw()), RUN, "latency")


def _unread(**ticks: Any) -> Figure:
    figure = _lines()
    figure.axes[0].tick_params(which="both", **ticks)
    return figure


@pytest.mark.parametrize(
    ("ticks", "found"), [({"labelbottom": False}, "no tick that says"), ({"labelleft": False}, "no tick with a number")]
)
def test_ticks_without_texts_are_not_read(ticks: dict[str, Any], found: str) -> None:
    with pytest.raises(Missed, match=found):
        charts._check_numbers(drawn(_unread(**ticks)), RUN, "latency")


def _points(names: list[str], offset: tuple[float, float]) -> Figure:
    figure, axes = plt.subplots()
    right = [(RUN.report["speedup"][n][RUN.batches[-1]], RUN.report["accuracy"][n]["top1"]) for n in RUN.names]
    axes.scatter(*zip(*right, strict=True))
    for name, (x, y) in zip(names, right, strict=True):
        axes.text(x + offset[0], y + offset[1], name)
    axes.margins(0.5)
    axes.set(xlabel="speed-up (×)", ylabel="top-1 (%)")
    return figure


@pytest.mark.parametrize("offset", [(0, 0), (0.4, 0), (-0.2, 3)])
def test_names_beside_points_are_read_however_far_all_of_them_are_moved(offset: tuple[float, float]) -> None:
    assert charts._check_accuracy(drawn(_points(RUN.names, offset)), RUN)
    with pytest.raises(Missed, match="to show"):
        charts._check_accuracy(drawn(_points(RUN.names[::-1], offset)), RUN)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("FP16", "fp16"),
        ("TensorRT INT8 engine", "int8"),
        ("PyTorch, FP32", "pytorch-fp32"),
        ("fp-32", "fp32"),
        ("fp32 against int8", ""),
        ("int81", ""),
        ("batch 8", ""),
    ],
)
def test_a_name_is_found_in_a_text(written: str, name: str) -> None:
    assert naming.name_in(written, [BASELINE, "fp32", "fp16", "int8"]) == name


TABLE = pd.DataFrame(LATENCY).T
HEAD = "<h2>Median latency (ms)</h2>"
LONG = HEAD + TABLE.stack().reset_index().to_html()


@pytest.mark.parametrize(
    "html", [TABLE.to_html(), TABLE.T.to_html(), TABLE.round(1).to_html(), TABLE.rename_axis("name").to_html()]
)
def test_a_right_table_in_any_form_is_right(html: str) -> None:
    assert page._check_table(page.Page(f"<p>2</p>{HEAD}{html}<p>after"), RUN, "latency_ms") == "latency: 25 numbers"


@pytest.mark.parametrize(
    ("html", "found"),
    [
        (HEAD + TABLE.set_axis(list(TABLE.index)[::-1]).to_html(), "median|latency of"),
        (HEAD + TABLE.set_axis(sorted(RUN.batches), axis=1).to_html(), "latency of"),
        (HEAD + TABLE.to_html(index=False), "none with these rows"),
        ("<h2>Throughput (images/s)</h2>" + TABLE.to_html(), "no table headed so"),
        (LONG, "none with these rows"),
    ],
)
def test_a_table_whose_rows_or_columns_are_mixed_up_is_told(html: str, found: str) -> None:
    with pytest.raises(Missed, match=found):
        page._check_table(page.Page(html), RUN, "latency_ms")


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("4.82× as fast", ["4.82 ×"]),
        ("**1,234.5 images/s**, 2.9x, 3 img/s", ["1234.5 images/s", "2.9 ×", "3 images/s"]),
        ("12 images per second, 1.4 times as much", ["12 images/s", "1.4 ×"]),
        ("92.61 % top-1, −0.12 points, 26.1 MB, 5.3 ms", ["92.61 %", "-0.12 points", "26.1 MB", "5.3 ms"]),
        ("224×224 images, batch 32, 8 bits, int8, TensorRT 10.3", []),
        ("at most 50 ms, a budget of 20 ms, the 10 % rule, under 1.5 points", []),
    ],
)
def test_figures_are_read_with_their_units(written: str, found: list[str]) -> None:
    assert [f"{quote.value:g} {quote.unit}" for quote in text.quotes(written) if not quote.free] == found


def test_a_figure_that_the_report_does_not_hold_is_named() -> None:
    times, rates = (list(RUN.report[key]["int8"].values()) for key in ("latency_ms", "throughput"))
    said = (
        f"{times[0]:.2f} ms, {times[-1] / BATCHES[-1]:.3f} ms, {rates[1]:,.1f} images/s, {rates[1] / rates[0]:.3f}×, "
    )
    said += f"{RUN.report['accuracy']['int8']['top1']:.2f} %"
    assert text.check_quotes(said, RUN.report).startswith("5 figures")
    with pytest.raises(Missed, match="'0.0123 ms' matches nothing"):
        text.check_quotes(f"{said}, 0.0123 ms", RUN.report)
    with pytest.raises(Missed, match="at least 5 figures"):
        text.check_quotes(said.partition(",")[0], RUN.report)


def test_a_figure_that_stays_the_same_is_called_typed() -> None:
    text.check_typed(["4.1× and 1.00×", "4.2× and 1.00×"])
    with pytest.raises(Missed, match="'4.1×' in the texts about 2"):
        text.check_typed(["4.1×", "4.1×"])


@pytest.mark.parametrize(("words", "right"), [(199, False), (200, True), (400, True), (401, False)])
def test_an_analysis_has_200_to_400_words(words: int, right: bool) -> None:
    case = Case(Student.in_process({"write_analysis": lambda report: "word " * words}), 0)
    kept, missed = PARTS["analysis.length"].pieces_of(case, EXAMPLES)
    assert bool(kept) is right and bool(missed) is not right


def test_numbers_may_be_rounded_to_three_decimals() -> None:
    assert equal(1.235, 1.23456) and equal(4, frozenset({3, 4})) and equal("a", "a")
    assert not equal(1.23, 1.23456) and not equal(True, 1) and not equal("1.5", 1.5) and not equal(None, 1.5)


def _reads_all(latency: dict, throughput: dict, accuracy: dict, files: dict) -> dict:
    measured = latency, throughput, accuracy
    tables = [{name: [row for row in one["rows"] if row["name"] == name][0] for name in NAMES} for one in measured]
    return {"tables": tables, "engines": {name: memory_of(path) for name, path in files.items() if name != "onnx"}}


def memory_of(path: Path) -> int:
    """Return what an engine says of its activations."""
    return trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(path.read_bytes()).device_memory_size


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], None]:
    """What asks a build_report for the report of a run whose engines are in `tmp_path`."""
    monkeypatch.setenv("TRT_LAB_ARTIFACTS", str(tmp_path))
    for file in ("resnet50_simplified.onnx", *ENGINES.values()):
        (tmp_path / file).write_bytes(probe_engine(tiny_onnx(0), (1, 2, 2)))
    return lambda function: CHECKS["check_report"].points[0](Case(Student.in_process({"build_report": function}), 0))


@pytest.mark.parametrize("function", [_reads_all, lambda latency, throughput, accuracy, files: {}])
def test_a_missing_engine_is_named_with_its_step(function: Callable, built: Callable, tmp_path: Path) -> None:
    (tmp_path / "resnet50_int8.engine").unlink()
    with pytest.raises(Missed) as raised:
        built(function)
    assert str(raised.value) == (
        "expected resnet50_int8.engine among the artifacts; found no such file; try: run step 04_int8, which makes it"
    )


def test_a_file_that_is_no_engine_is_named_with_its_step(built: Callable, tmp_path: Path) -> None:
    (tmp_path / "resnet50_dynamic_fp16.engine").write_bytes(b"of another TensorRT")
    with pytest.raises(Missed, match=r"resnet50_dynamic_fp16.engine to be an engine .* run step 03_dynamic again"):
        built(_reads_all)


def test_a_measurement_without_an_engine_is_named_with_its_step(built: Callable, tmp_path: Path) -> None:
    run = replace(RUN, accuracy={**RUN.accuracy, "rows": [r for r in RUN.accuracy["rows"] if r["name"] != "int8"]})
    with pytest.raises(Missed, match=r"rows of int8 in accuracy.json; found none; try: run step 07_accuracy again"):
        contents.built(Case(Student.in_process({"build_report": _reads_all}), 0), run)
