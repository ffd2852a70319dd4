"""draw_charts(report) -> {name: Figure}: each name's line or bars hold the report's numbers, at its batches.

What is asked is the form that the task gives. Colours, sizes and contrast are for a person to judge.
"""

import html
import io
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
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


Series = list[Any]
"""Of a line, a cloud of points or bars: its label, and where its points stand, x and y; a bar's is its end's middle."""


class Drawn(TypedDict):
    """A figure: how many pairs of axes it has, what the current one shows, and the picture that a reader gets.

    `ticks` are the places on the x axis by their text, `faults` what misleads a reader.
    """

    axes: int
    labels: dict[str, str]
    ticks: dict[str, float]
    legend: bool
    faults: list[str]
    series: list[Series]
    svg: bytes


@probe
def charts_drawn(notebook: Notebook, *, reports: list[dict[str, Any]]) -> list[dict[str, Drawn]]:
    """Return the Figures that `draw_charts` gives for each report, by name.

    Those that it leaves open stay so until the last, as in a notebook whose cell runs again; then all are closed.
    """
    import matplotlib.pyplot as plt

    returned = [notebook[FUNCTION](report) for report in reports]
    found = [charts.items() if isinstance(charts, dict) else () for charts in returned]
    shown = [{str(name): drawn(figure) for name, figure in charts if isinstance(figure, Figure)} for charts in found]
    plt.close("all")
    return shown


def drawn(figure: Figure) -> Drawn:
    """Return what a figure holds."""
    content, number, axes = io.BytesIO(), len(figure.get_axes()), figure.gca()
    with matplotlib.rc_context({"svg.fonttype": "none"}):  # texts stay texts
        figure.savefig(content, format="svg")
    series = list(_series(axes))
    return {
        "axes": number,
        "labels": {"x": axes.get_xlabel(), "y": axes.get_ylabel()},
        "ticks": {tick.get_text(): float(tick.get_position()[0]) for tick in axes.get_xticklabels()},
        "legend": bool(axes.get_legend() or figure.legends),
        "faults": list(_faults(axes, series)),
        "series": series,
        "svg": content.getvalue(),
    }


def _bars(axes: Axes) -> list[BarContainer]:
    return [bars for bars in axes.containers if isinstance(bars, BarContainer)]


def _series(axes: Axes) -> Iterator[Series]:
    lines = [line for line in axes.get_lines() if line.get_transform() == axes.transData]  # which axhline's is not
    points: list[tuple[Any, Any, Any]] = [(one, one.get_xdata(orig=False), one.get_ydata(orig=False)) for one in lines]
    found = [(one, x, y) for one, x, y in points if len(x) > (one.get_marker() == "None")]  # no marker: no single point
    clouds = [cloud for cloud in axes.collections if isinstance(cloud, PathCollection) and len(cloud.get_offsets())]
    found += [(cloud, *np.ma.getdata(cloud.get_offsets()).T) for cloud in clouds]
    found += [(bars, *np.transpose([bar.get_corners()[2:].mean(axis=0) for bar in bars])) for bars in _bars(axes)]
    for artist, x, y in found:
        yield [str(artist.get_label()), [*map(float, x)], [*map(float, y)]]


def _faults(axes: Axes, series: list[Series]) -> Iterator[str]:
    places = [round(bar.get_center()[0], 6) for bars in _bars(axes) for bar in bars]
    if places and (axes.get_yscale() != "linear" or min(axes.get_ylim()) > 0):
        yield f"bars on a {axes.get_yscale()} axis from {min(axes.get_ylim()):.4g}"
    if len(set(places)) < len(places):
        yield "bars at the same place, one over the other"
    for label, *places_of in series:
        for side, values, limits in zip("xy", places_of, (axes.get_xlim(), axes.get_ylim()), strict=True):
            if not min(limits) <= min(values) <= max(values) <= max(limits):
                yield f"{label}: {side} from {min(values):.4g} to {max(values):.4g}, where the axis shows {limits}"


def name_of(label: str, names: Sequence[str]) -> str:
    """Return the name that a label contains, "" for none; the longest, since fp32 stands in pytorch-fp32 too."""
    return max((name for name in names if name in label.lower()), key=len, default="")


def names_engine(content: str, run: Run, where: str) -> str:
    """Return evidence that a page or a picture contains the report's engine, wherever its lines break."""
    engine = run.report["engine"]
    shown, wanted = (re.sub(r"\W", "", text) for text in (html.unescape(re.sub(r"<[^<>]*>", "", content)), engine))
    if wanted not in shown:
        raise Missed(f"{engine!r} in {where}", "no such text", "put the report's `engine` into a title")
    return f"{where} names it"


def _shown(figure: Drawn, run: Run, chart: str) -> str:
    if figure["axes"] != 1 or not figure["series"] or b"<svg" not in figure["svg"]:
        found = f"{figure['axes']} pairs of axes with {len(figure['series'])} lines, points or sets of bars"
        advice = "begin with plt.subplots(), draw into it, return it; a single point is seen only by its marker"
        raise Missed(f"{chart!r} to be drawn into one pair of axes", found, advice)
    return f"{chart}: {len(figure['series'])} names"


def _labels(figure: Drawn, run: Run, chart: str) -> str:
    across, upright = LABELS[chart]
    wanted = [("x", across), ("y", upright), *[("x", run.batches[-1])] * (chart == "accuracy")]
    for side, word in wanted:
        if not re.search(rf"(?<![a-z\d]){word}", figure["labels"][side], re.IGNORECASE):
            expected, advice = f"the {side} label of {chart!r} to contain {word!r}", "say what the axis shows, its unit"
            raise Missed(expected, repr(figure["labels"][side]), f"{advice}, and the report's batch")
    if not figure["legend"]:
        raise Missed(f"a legend in {chart!r}", "none", "axes.legend() shows the labels of what is drawn")
    return f"{chart}: {' and '.join(figure['labels'].values())}"


def _device(figure: Drawn, run: Run, chart: str) -> str:
    return names_engine(figure["svg"].decode(errors="replace"), run, f"the picture of {chart!r}")


def _numbers(figure: Drawn, run: Run, chart: str) -> str:
    found: dict[str, Any] = {}
    for label, x, y in figure["series"]:
        name = name_of(label, run.names)
        if name and name in found:
            advice = "draw each name once; begin each chart with a figure of its own: plt.subplots()"
            raise Missed(f"one line or one set of bars for {name} in {chart!r}", "several", advice)
        found[name] = dict(zip(_batches(x, figure["ticks"], run.batches), y, strict=False))
        if chart == "accuracy":
            found[name] = {"speed-up": x[0], "top-1": y[0]}
    advice = "draw each value at its own batch, and give its line or bars the name as label=…"
    agree(found, right_of(run)[chart], f"the chart {chart!r}", advice, rtol=_RELATIVE)
    return f"{chart}: {len(found)} names"


def _batches(places: list[float], ticks: dict[str, float], batches: list[str]) -> list[str]:
    """Return the batch at each place: its own x, or the number that the nearest tick says."""
    own = {float(batch): batch for batch in batches}
    if set(places) <= set(own):
        return [own[x] for x in places]
    near = [min(ticks, key=lambda text: abs(ticks[text] - x), default="") for x in places]
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


Check = Callable[[Drawn, Run, str], str]


def _judge(check: Check, case: Case, runs: Sequence[Run], chart: str) -> str:
    replies, said = case.call(charts_drawn, reports=[run.report for run in runs]).require(FUNCTION), ""
    for figures, run in zip(one_each(replies, runs, "reports"), runs, strict=True):
        if chart not in figures:
            expected = f"{FUNCTION} to return a dictionary with a matplotlib Figure named {chart!r}"
            advice = f"return {{name: figure}} for {', '.join(LABELS)}; axes.get_figure() gives a figure"
            raise Missed(expected, f"Figures named: {', '.join(figures) or 'none'}", advice)
        said = check(figures[chart], run, chart)
    return said


for _name, _worth, _title, _check, _reported in (
    ("figures", 0.5, "Four figures that show something", _shown, ""),
    ("labels", 0.5, "The axes have labels with units, the names a legend", _labels, _DRAWN),
    ("device", 0.5, "Each chart names the engine of its report", _device, ""),
    ("numbers", 0.75, "Each number stands under its name, at its batch", _numbers, _DRAWN),
    ("limits", 0.25, "Nothing is cut off, and bars start at 0", _limits, _DRAWN),
):
    PICTURES.point(f"charts.{_name}", _worth, _title, _reported)(OnRuns(partial(_judge, _check), tuple(LABELS)))
