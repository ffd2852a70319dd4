"""What step 8 asks: recorded runs as the oracle of the solution, figures read as data, tables and texts as given."""

from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from matplotlib.figure import Figure

from helpers.checks.missed import Missed
from helpers.checks.points.s08_report import charts, page, text
from helpers.checks.points.s08_report.report import EXAMPLES, Run
from helpers.course.settings import BASELINE
from solutions.checks import s08_report

RUN = EXAMPLES[0]
LATENCY = RUN.report["latency_ms"]
BATCHES = [int(batch) for batch in RUN.batches]
FRAME = pd.DataFrame(LATENCY)


@pytest.fixture(autouse=True)
def _closed() -> Any:
    yield
    plt.close("all")


@pytest.mark.parametrize("run", EXAMPLES, ids=[run.report["model"] for run in EXAMPLES])
def test_the_solution_says_of_recorded_runs_what_was_recorded(run: Run) -> None:
    follows = s08_report._solution("build_report")(run.latency, run.throughput, run.accuracy, {})
    made_up = {key: run.report[key] for key in ("sizes_bytes", "memory_bytes")}
    assert follows | made_up == run.report
    assert s08_report._solution("key_figures")(run.report) == run.figures


def test_fresh_runs_keep_who_is_fastest_and_where_int8_saturates() -> None:
    for seed in range(20):
        runs = [s08_report.fresh(seed, kind) for kind in range(len(EXAMPLES))]
        places = [run.batches.index(str(run.figures["int8_saturation_batch"])) for run in runs]
        assert places == [run.batches.index(str(run.figures["int8_saturation_batch"])) for run in EXAMPLES]
        assert {run.figures["fastest_name"] for run in runs} == {BASELINE, "fp32", "fp16", "int8"}
        assert sum(run.figures["int8_top1_loss"] < 0 for run in runs) == 2


def _lines(**style: Any) -> Figure:
    figure, axes = plt.subplots()
    for name, series in LATENCY.items():
        axes.plot(BATCHES, list(series.values()), label=f"Engine {name.upper()}", **style)
    axes.set(xlabel="batch", ylabel="median latency (ms)", yscale="log")
    axes.axhline(1, label="fp32")
    axes.legend()
    return figure


def _of_pandas(kind: str, frame: pd.DataFrame) -> Figure:
    axes = frame.plot(kind=kind, xlabel="batch", ylabel="ms")
    axes.set_xticks(range(len(frame)), frame.index)
    return axes.get_figure()


@pytest.mark.parametrize(
    "figure",
    [_lines, lambda: _of_pandas("bar", FRAME), lambda: _of_pandas("line", FRAME)],
    ids=["lines at the batches", "bars of pandas", "lines of pandas"],
)
def test_numbers_are_read_by_label_and_batch(figure: Callable[[], Figure]) -> None:
    assert charts._numbers(charts.drawn(figure()), RUN, "latency") == "latency: 5 names"


@pytest.mark.parametrize(
    ("figure", "found"),
    [
        (lambda: _of_pandas("bar", FRAME[sorted(FRAME)].set_axis(list(FRAME), axis=1)), "found"),
        (lambda: _of_pandas("bar", FRAME.set_axis(sorted(FRAME.index))), "found"),
        (lambda: _of_pandas("line", FRAME / 1000), "found"),
        (lambda: _of_pandas("line", FRAME[1:]), "found .* = nothing"),
    ],
    ids=["names in another order", "ticks sorted as text", "seconds", "a batch left out"],
)
def test_a_chart_that_misleads_is_told(figure: Callable[[], Figure], found: str) -> None:
    with pytest.raises(Missed, match=f"the chart 'latency': .*; {found}"):
        charts._numbers(charts.drawn(figure()), RUN, "latency")


@pytest.mark.parametrize(
    "html",
    [FRAME.T.to_html(), FRAME.T.round(1).rename_axis("name").to_html(), FRAME.T.style.to_html()],
)
def test_a_table_is_read_by_its_names_and_heads(html: str) -> None:
    assert page._table(f"<p>throughput, latency</p><h2>Latency</h2>{html}<p>after", RUN, "latency") == "latency: 5 rows"
    for wrong in (html.replace("Latency", "All"), html.replace("fp16", "fp8", 1).replace("fp8", "fp16")):
        with pytest.raises(Missed):
            page._table(wrong, RUN, "latency")


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("4.82× as fast", ["4.82 ×"]),
        ("**1,234.5 images/s**, 2.9x, 1.2e+03 img/s", ["1234.5 images/s", "2.9 ×", "1200 images/s"]),
        ("12 images per second, 1.4 times as much", ["12 images/s", "1.4 ×"]),
        ("92.61 % top-1, −0.12 points, 26.1 MB, 5.3 ms", ["92.61 %", "-0.12 points", "26.1 MB", "5.3 ms"]),
        ("224×224 images, batch 32, 8 bits, int8, TensorRT 10.3", []),
        ("at most 50 ms, a budget of 20 ms, the 10 % rule, batch 8 under 1.5 points", []),
    ],
)
def test_figures_are_read_with_their_units(written: str, found: list[str]) -> None:
    assert [f"{quote.value:g} {quote.unit}" for quote in text.quotes(written)] == found


def test_a_figure_that_the_report_does_not_hold_or_that_stays_the_same_is_named() -> None:
    times, rates = (list(RUN.report[key]["int8"].values()) for key in ("latency_ms", "throughput"))
    said = (
        f"{times[0]:.2f} ms, {times[-1] / BATCHES[-1]:.3f} ms, {rates[1]:,.1f} images/s, {rates[1] / rates[0]:.3f}×, "
    )
    said += f"{RUN.report['accuracy']['int8']['top1']:.2f} %"
    assert text.check_quotes(said, RUN.report).startswith("5 figures")
    with pytest.raises(Missed, match="'0.0123 ms', which matches nothing"):
        text.check_quotes(f"{said}, 0.0123 ms", RUN.report)
    with pytest.raises(Missed, match="'4.1×' in the texts about 2"):
        text.check_typed(["4.1× and 1.00×", "4.1× and 1.00×"])
