"""draw_charts(report) -> {name: Figure}: each name's line or bars hold the report's numbers, at its batches.

What is asked is the form that the task gives. Colours, sizes and contrast are for a person to judge.
"""

import html
import io
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypedDict

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.container import BarContainer
from matplotlib.figure import Figure

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.pure import agree
from helpers.checks.points.s08_report.report import OnRuns, Run
from helpers.checks.points.task import Task
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.student import one_each
from helpers.course.settings import BASELINE

FUNCTION = "draw_charts"
LABELS = {  # the charts, and what the labels of their x and y axes contain
    "latency": ("batch", "ms"),
    "throughput": ("batch", "images/s"),
    "speedup": ("batch", "×"),
    "accuracy": ("×", "%"),
}
_RELATIVE = 0.005  # how far a drawn number may lie from the report's: a tenth of what an eye can tell
_DRAWN = "where each mark of a figure stands: it is read in the student's process, since no pickle is ever loaded"

PICTURES = Task("report_charts", check="check_charts", takes=(FUNCTION, "write_page"))


class Series(TypedDict):
    """A line, a cloud of points or bars: its label, and where its points stand; of a bar, the middle of its end."""

    label: str
    x: list[float]
    y: list[float]


class Drawn(TypedDict):
    """A figure: how many pairs of axes it has, what the current one shows, and the picture that a reader gets.

    `ticks` are the places on the x axis by their text, `faults` what misleads a reader.
    """

    axes: int
    x_label: str
    y_label: str
    ticks: dict[str, float]
    legend: bool
    faults: list[str]
    series: list[Series]
    svg: bytes


@probe
def charts_drawn(notebook: Notebook, *, reports: list[dict[str, Any]]) -> list[dict[str, Drawn]]:
    """Return the Figures that `draw_charts` gives for each report, by name.

    Those that it leaves open stay so until the last, as in a notebook whose cell runs again; then they are closed.
    """
    import matplotlib.pyplot as plt

    opened = set(plt.get_fignums())
    try:
        returned = [notebook[FUNCTION](report) for report in reports]
        found = [charts.items() if isinstance(charts, dict) else () for charts in returned]
        return [{str(name): drawn(figure) for name, figure in charts if isinstance(figure, Figure)} for charts in found]
    finally:
        for number in set(plt.get_fignums()) - opened:
            plt.close(number)


def drawn(figure: Figure) -> Drawn:
    """Return what a figure holds."""
    content, number, axes = io.BytesIO(), len(figure.get_axes()), figure.gca()
    with matplotlib.rc_context({"svg.fonttype": "none"}):  # texts stay texts
        figure.savefig(content, format="svg")
    series = [*_lines(axes), *_bars(axes)]
    return {
        **{"axes": number, "x_label": axes.get_xlabel(), "y_label": axes.get_ylabel()},
        "ticks": {tick.get_text(): float(tick.get_position()[0]) for tick in axes.get_xticklabels()},
        "legend": bool(axes.get_legend() or figure.legends),
        "faults": list(_faults(axes, series)),
        "series": series,
        "svg": content.getvalue(),
    }


def _lines(axes: Axes) -> Iterator[Series]:
    for line in axes.get_lines():
        x, y = line.get_xdata(orig=False), line.get_ydata(orig=False)
        seen = len(x) > 1 or line.get_marker() != "None"
        if seen and line.get_transform() == axes.transData:  # which axhline's is not
            yield _series(line, x, y)
    for cloud in axes.collections:
        if isinstance(cloud, PathCollection):
            yield _series(cloud, *np.ma.getdata(cloud.get_offsets()).T)


def _bars(axes: Axes) -> Iterator[Series]:
    for bars in axes.containers:
        if isinstance(bars, BarContainer):
            middles = [bar.get_x() + bar.get_width() / 2 for bar in bars]
            yield _series(bars, middles, [bar.get_y() + bar.get_height() for bar in bars])


def _series(artist: Any, x: Any, y: Any) -> Series:
    x, y = (np.asarray(values, float).tolist() for values in (x, y))
    return {"label": str(artist.get_label()), "x": x, "y": y}


def _faults(axes: Axes, series: list[Series]) -> Iterator[str]:
    middles = [round(x, 6) for bars in _bars(axes) for x in bars["x"]]
    if middles and (axes.get_yscale() != "linear" or min(axes.get_ylim()) > 0):
        yield f"bars on a {axes.get_yscale()} axis from {min(axes.get_ylim()):.4g}"
    if len(set(middles)) < len(middles):
        yield "bars at the same place, one over the other"
    for side, (low, high) in (("x", sorted(axes.get_xlim())), ("y", sorted(axes.get_ylim()))):
        for value in (value for one in series for value in one[side] if not low <= value <= high):
            yield f"{side} = {value:.4g} outside of {low:.4g} to {high:.4g}"


def name_of(label: str, names: Sequence[str]) -> str:
    """Return the name that a label contains, "" for none; the longest, since fp32 stands in pytorch-fp32 too."""
    return max((name for name in names if name in label.lower()), key=len, default="")


def says(text: str, engine: str) -> bool:
    """Return whether a page or a picture contains the engine's name, wherever its lines break."""
    shown, wanted = (re.sub(r"\W", "", words) for words in (html.unescape(re.sub(r"<[^<>]*>", "", text)), engine))
    return wanted in shown


def _shown(figure: Drawn, run: Run, chart: str) -> str:
    """Return evidence that something is drawn; the other points ask for it first."""
    if figure["axes"] != 1 or not figure["series"] or b"<svg" not in figure["svg"]:
        found = f"{figure['axes']} pairs of axes with {len(figure['series'])} lines, points or sets of bars"
        advice = "begin with plt.subplots(), draw into it, return it; a single point is seen only by its marker"
        raise Missed(f"{chart!r} to be drawn into one pair of axes", found, advice)
    return f"{chart}: {len(figure['series'])} names"


def _labels(figure: Drawn, run: Run, chart: str) -> str:
    across, upright = LABELS[chart]
    wanted = [("x_label", across), ("y_label", upright), ("x_label", run.batches[-1])]
    for side, word in wanted if chart == "accuracy" else wanted[:2]:
        if not re.search(rf"(?<![a-z\d]){word}", figure[side], re.IGNORECASE):
            expected = f"the {side} of {chart!r} to contain {word!r}"
            raise Missed(expected, repr(figure[side]), "say what the axis shows, its unit, and the report's batch")
    if not figure["legend"]:
        raise Missed(f"a legend in {chart!r}", "none", "axes.legend() shows the labels of what is drawn")
    return f"{chart}: {figure['x_label']} and {figure['y_label']}"


def _device(figure: Drawn, run: Run, chart: str) -> str:
    if not says(figure["svg"].decode(errors="replace"), run.report["engine"]):
        expected = f"{run.report['engine']!r} in the picture of {chart!r}"
        raise Missed(expected, "no such text", "put the report's `engine` into the title")
    return f"{chart} names it"


def _numbers(figure: Drawn, run: Run, chart: str) -> str:
    found: dict[str, Any] = {}
    for series in figure["series"]:
        name = name_of(series["label"], run.names)
        if name and name in found:
            advice = "draw each name once; begin each chart with a figure of its own: plt.subplots()"
            raise Missed(f"one line or one set of bars for {name} in {chart!r}", "several", advice)
        found[name] = dict(zip(_batches(series, figure["ticks"], run.batches), series["y"], strict=False))
        if chart == "accuracy":
            found[name] = dict(zip(("speed-up", "top-1"), [*series["x"][:1], *series["y"][:1]], strict=False))
    advice = "draw each value at its own batch, and give its line or bars the name as label=…"
    agree(found, right_of(run)[chart], f"the chart {chart!r}", advice, rtol=_RELATIVE)
    return f"{chart}: {len(found)} names"


def _batches(series: Series, ticks: dict[str, float], batches: list[str]) -> list[str]:
    """Return the batch of each point: its own x, or the number that the nearest tick says."""
    own = {float(batch): batch for batch in batches}
    if set(series["x"]) <= set(own):
        said = {place: text for text, place in ticks.items() if text.isdigit()}
        return [said.get(x, own[x]) for x in series["x"]]
    near = [min(ticks, key=lambda text: abs(ticks[text] - x), default="") for x in series["x"]]
    return ["".join(re.findall(r"\d+", text)[:1]) for text in near]


def right_of(run: Run) -> dict[str, Any]:
    """Return what each chart shows by name; PyTorch's own speed-up may be left out."""
    report, largest = run.report, run.batches[-1]
    ratios = {name: row for name, row in report["speedup"].items() if name != BASELINE}
    top1 = {name: score["top1"] for name, score in report["accuracy"].items()}
    points = {name: {"speed-up": row[largest], "top-1": top1[name]} for name, row in ratios.items()}
    return {"latency": report["latency_ms"], "throughput": report["throughput"], "speedup": ratios, "accuracy": points}


def _limits(figure: Drawn, run: Run, chart: str) -> str:
    for fault in figure["faults"]:
        expected = f"all of {chart!r} within its axes, bars side by side and from 0, whose length is read as the value"
        raise Missed(expected, fault, "let the limits follow the numbers, and move each name's bars by their width")
    return f"{chart}: nothing cut off"


def _declare(name: str, worth: float, title: str, check: Callable[[Drawn, Run, str], str], reported: str = "") -> None:
    def judge(case: Case, runs: Sequence[Run], chart: str) -> str:
        replies, said = case.call(charts_drawn, reports=[run.report for run in runs]).require(FUNCTION), ""
        for figures, run in zip(one_each(replies, runs, "reports"), runs, strict=True):
            if chart not in figures:
                expected = f"{FUNCTION} to return a dictionary with a matplotlib Figure named {chart!r}"
                advice = f"return {{name: figure}} for {', '.join(LABELS)}; axes.get_figure() gives a figure"
                raise Missed(expected, f"Figures named: {', '.join(figures) or 'none'}", advice)
            _shown(figures[chart], run, chart)
            said = check(figures[chart], run, chart)
        return said

    PICTURES.point(name, worth, title, reported)(OnRuns(judge, tuple(LABELS)))


_declare("charts.figures", 0.5, "Four figures that show something", _shown)
_declare("charts.labels", 0.5, "The axes have labels with units, the names a legend", _labels, _DRAWN)
_declare("charts.device", 0.5, "Each chart names the engine of its report", _device)
_declare("charts.numbers", 0.75, "Each number stands under its name, at its batch", _numbers, _DRAWN)
_declare("charts.limits", 0.25, "Nothing is cut off, and bars start at 0", _limits, _DRAWN)
