"""What step 8 asks: recorded runs as the oracle of the solution, figures read as data, tables and texts as given."""

from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from matplotlib.figure import Figure

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.s08_report import charts, page, text
from helpers.checks.points.s08_report.report import EXAMPLES, Run
from helpers.checks.probes.student import Student
from helpers.course.settings import BASELINE
from solutions.checks import s08_report

RUN = EXAMPLES[0]
FRAME = pd.DataFrame(RUN.report["latency_ms"])


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


def _of_pandas(kind: str, frame: pd.DataFrame) -> Figure:
    axes = frame.plot(kind=kind, xlabel="batch", ylabel="ms")
    axes.set_xticks(range(len(frame)), frame.index)
    axes.axhline(1, label="fp32")
    return axes.get_figure()


@pytest.mark.parametrize(
    ("figure", "found"),
    [
        (lambda: _of_pandas("bar", FRAME), ""),
        (lambda: _of_pandas("line", FRAME), ""),
        (lambda: _of_pandas("line", FRAME.set_axis(FRAME.index.astype(int))), ""),
        (lambda: _of_pandas("bar", FRAME[sorted(FRAME)].set_axis(list(FRAME), axis=1)), "found"),
        (lambda: _of_pandas("bar", FRAME.set_axis(sorted(FRAME.index))), "found"),
        (lambda: _of_pandas("line", FRAME / 1000), "found"),
        (lambda: _of_pandas("line", FRAME[1:]), "found .* = nothing"),
    ],
    ids=[
        "bars",
        "lines",
        "numbers as x",
        "names in another order",
        "ticks sorted as text",
        "seconds",
        "a batch left out",
    ],
)
def test_numbers_are_read_by_label_and_batch(figure: Callable[[], Figure], found: str) -> None:
    drawn = charts.drawn(figure())
    plt.close("all")
    if not found:
        assert charts._numbers(drawn, RUN, "latency").startswith("latency")
        return
    with pytest.raises(Missed, match=f"the chart 'latency': .*; {found}"):
        charts._numbers(drawn, RUN, "latency")


@pytest.mark.parametrize("html", [FRAME.T.to_html(), FRAME.T.rename_axis("name").to_html(), FRAME.T.style.to_html()])
def test_a_table_is_read_by_its_names_and_heads(html: str) -> None:
    assert page._table(f"<p>throughput</p><h2>Latency</h2>{html}<p>after", RUN, "latency") == "latency: 5 rows"
    with pytest.raises(Missed):
        page._table(f"<h2>Latency</h2>{html.replace('fp16', 'fp8', 1).replace('fp8', 'fp16')}", RUN, "latency")


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("**1,234.5 images/s**, 2.9x, 12 images per second", ["1,234.5 images/s", "2.9 ×", "12 images/s"]),
        ("1.4 times as much, 92.61 % top-1, −0.12 points", ["1.4 ×", "92.61 %", "−0.12 points"]),
        ("224×224 images, batch 32, 8 bits, int8, TensorRT 10.3", []),
        ("at most 50 ms, a budget of 20 ms, the 10 % rule, batch 8 under 1.5 points", []),
    ],
)
def test_figures_are_read_with_their_units(written: str, found: list[str]) -> None:
    assert [" ".join(quote) for quote in text.quotes(written)] == found


@pytest.mark.parametrize(
    ("more", "found"),
    [("", ""), ("0.0123 ms", "'0.0123 ms', which matches nothing"), ("1.3×", "'1.3 ×' in the texts about")],
)
def test_a_figure_that_the_report_does_not_hold_or_that_stays_the_same_is_named(more: str, found: str) -> None:
    def write_analysis(report: dict[str, Any]) -> str:
        times, rates = (list(report[key]["int8"].values()) for key in ("latency_ms", "throughput"))
        said = f"{times[0]:.2f} ms, {times[1]:.3f} ms, {rates[1]:,.1f} images/s, {rates[1] / rates[0]:.3f}×, "
        return said + f"{report['accuracy']['int8']['top1']:.2f} %, {more}"

    case = Case(Student.in_process({"write_analysis": write_analysis}), 1)
    if not found:
        assert text._quoted(case, RUN, "").startswith("5 figures")
        return
    with pytest.raises(Missed, match=found):
        text._quoted(case, RUN, "")
