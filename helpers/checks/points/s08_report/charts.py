"""draw_charts(report) -> {name: Figure}: each name's line or bars have the report's numbers at its batches.

The points check the form that the task gives. Colours, sizes and contrast are for a person to judge.
"""

import io
import re
from collections.abc import Callable, Iterable, Iterator
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
from helpers.course.settings import BASELINE

FUNCTION = "draw_charts"
LABELS = {  # the charts, and words of their x and y labels
    "latency": ("batch", "ms"),
    "throughput": ("batch", "images/s"),
    "speedup": ("batch", "×"),
    "accuracy": ("×", "%"),
}
_RELATIVE = 0.005  # allowed error of a drawn number: a tenth of what the eye can see
_DRAWN = "the place of each mark in a figure: read in the student's process, since no pickle is ever loaded"

PICTURES = Task("report_charts", check="check_charts", takes=(FUNCTION, "write_page"))


class Drawn(TypedDict):
    """A figure: its number of axes, the content of the last one, and the picture itself.

    `ticks` are positions on the x axis by their text, `faults` what misleads a reader. `series` has the label and the
    points (x and y) of each line, scatter plot or set of bars; a bar's point is the middle of its end.
    """

    axes: int
    labels: dict[str, str]
    ticks: dict[str, float]
    legend: bool
    faults: list[str]
    series: list[list[Any]]
    svg: bytes


@probe
def charts_drawn(notebook: Notebook, *, report: dict[str, Any]) -> dict[str, Drawn]:
    """Return the Figures that `draw_charts` returns for a report, by name, and close them."""
    import matplotlib.pyplot as plt

    figures = notebook[FUNCTION](report).items()
    shown = {str(name): drawn(figure) for name, figure in figures if isinstance(figure, Figure)}
    plt.close("all")
    return shown


def drawn(figure: Figure) -> Drawn:
    """Return the content of a figure."""
    content, axes = io.BytesIO(), figure.gca()
    with matplotlib.rc_context({"svg.fonttype": "none"}):  # texts stay texts
        figure.savefig(content, format="svg")
    return {
        "axes": len(figure.get_axes()),
        "labels": {"x": axes.get_xlabel(), "y": axes.get_ylabel()},
        "ticks": {tick.get_text(): float(tick.get_position()[0]) for tick in axes.get_xticklabels()},
        "legend": bool(axes.get_legend() or figure.legends),
        "faults": list(_faults(axes)),
        "series": list(_series(axes)),
        "svg": content.getvalue(),
    }


def _bars(axes: Axes) -> list[BarContainer]:
    return [bars for bars in axes.containers if isinstance(bars, BarContainer)]


def _series(axes: Axes) -> Iterator[list[Any]]:
    lines = [line for line in axes.get_lines() if line.get_transform() == axes.transData]  # leaves axhline out
    seen = [
        line for line in lines if len(line.get_xdata()) > (line.get_marker() == "None")
    ]  # a single point shows only by its marker
    found: list[tuple[Any, Any]] = [(line, line.get_xydata()) for line in seen]
    found += [(cloud, cloud.get_offsets()) for cloud in axes.collections if isinstance(cloud, PathCollection)]
    found += [(bars, [bar.get_corners()[2:].mean(axis=0) for bar in bars]) for bars in _bars(axes)]
    for artist, points in found:
        x, y = np.reshape(points, (-1, 2)).T.tolist()
        yield [str(artist.get_label()), x, y]


def _faults(axes: Axes) -> Iterator[str]:
    data, view = axes.dataLim, axes.viewLim  # bars reach to 0
    if (data.min < view.min).any() or (data.max > view.max).any():
        yield f"marks from {data.min} to {data.max} (x, y), axes from {view.min} to {view.max}"
    places = [round(bar.get_center()[0], 6) for bars in _bars(axes) for bar in bars]
    if len(set(places)) < len(places):
        yield "bars on top of each other"


def name_of(label: str, names: Iterable[str]) -> str:
    """Return the name that a label contains, "" for none; the longest, since pytorch-fp32 contains fp32."""
    return max((name for name in names if name in label.lower()), key=len, default="")


def names_engine(content: str, run: Run, where: str) -> str:
    """Return evidence that a page or picture contains the report's engine, whatever its line breaks."""
    shown, wanted = (re.sub(r"<[^<>]*>|&#?\w+;|\W", "", text) for text in (content, run.report["engine"]))
    if wanted not in shown:
        raise Missed(f"{run.report['engine']!r} in {where}", "no such text", "put the report's `engine` into a title")
    return f"{where} names it"


def _shown(figure: Drawn, run: Run, chart: str) -> str:
    found = {"pairs of axes": figure["axes"], "anything drawn": bool(figure["series"])}
    advice = "draw into a figure of plt.subplots() and return it; a single point needs a marker"
    agree(found, {"pairs of axes": 1, "anything drawn": True}, f"the chart {chart!r}", advice)
    return f"{chart}: {len(figure['series'])} names"


def _labels(figure: Drawn, run: Run, chart: str) -> str:
    wanted = [*zip("xy", LABELS[chart], strict=True), *[("x", run.batches[-1])] * (chart == "accuracy")]
    lacking = [
        f"{word!r} in the {side} label"
        for side, word in wanted
        if not re.search(rf"(?<![a-z\d]){word}", figure["labels"].get(side, ""), re.IGNORECASE)
    ]
    lacking += ["a legend"] * (not figure["legend"])
    if lacking:
        advice = "write quantity and unit into the labels, the batch where one is fixed, and call axes.legend()"
        raise Missed(f"{', '.join(lacking)} of {chart!r}", f"labels {figure['labels']}", advice)
    return f"{chart}: {' and '.join(figure['labels'].values())}"


def _device(figure: Drawn, run: Run, chart: str) -> str:
    return names_engine(figure["svg"].decode(errors="replace"), run, f"the picture of {chart!r}")


def _numbers(figure: Drawn, run: Run, chart: str) -> str:
    found: dict[str, Any] = {}
    for label, x, y in figure["series"]:
        name = name_of(label, run.report["throughput"])
        keys = ("speed-up", "top-1") if chart == "accuracy" else _batches(x, figure["ticks"], run.batches)
        values = [*x, *y] if chart == "accuracy" else y
        found[name] = f"several for {name}" if name in found else dict(zip(keys, values, strict=False))
    advice = "start each chart with plt.subplots(), and draw each name once, with label=…, at its batches"
    agree(found, right_of(run)[chart], f"the chart {chart!r}", advice, rtol=_RELATIVE)
    return f"{chart}: {len(found)} names"


def _batches(places: list[float], ticks: dict[str, float], batches: list[str]) -> list[str]:
    """Return the batch at each place: its own x, or the number in the nearest tick's text."""
    own = {batch: float(batch) for batch in batches}
    marks = own if set(places) <= set(own.values()) else ticks
    near = [min(marks, key=lambda text: abs(marks[text] - x), default="") for x in places]
    return ["".join(re.findall(r"\d+", text)[:1]) for text in near]


def right_of(run: Run) -> dict[str, Any]:
    """Return the right values of each chart by name; PyTorch's own speed-up may be left out."""
    report, largest = run.report, run.batches[-1]
    ratios = {name: row for name, row in report["speedup"].items() if name != BASELINE}
    points = {n: {"speed-up": row[largest], "top-1": report["accuracy"][n]["top1"]} for n, row in ratios.items()}
    return {"latency": report["latency_ms"], "throughput": report["throughput"], "speedup": ratios, "accuracy": points}


def _limits(figure: Drawn, run: Run, chart: str) -> str:
    if figure["faults"]:
        expected = f"all of {chart!r} inside its axes, bars side by side and starting at 0"
        raise Missed(expected, "; ".join(figure["faults"]), "leave the limits automatic, and put bars side by side")
    return f"{chart}: nothing cut off"


def _judge(check: Callable[[Drawn, Run, str], str], case: Case, run: Run, chart: str) -> str:
    figures = case.call(charts_drawn, report=run.report).require(FUNCTION)
    if chart not in figures:
        expected = f"{FUNCTION} to return a dictionary with a matplotlib Figure named {chart!r}"
        advice = f"return {{name: figure}} for {', '.join(LABELS)}; axes.get_figure() gives a figure"
        raise Missed(expected, f"Figures named: {', '.join(figures) or 'none'}", advice)
    return check(figures[chart], run, chart)


for _name, _worth, _title, _check, _reported in (
    ("figures", 0.5, "Four figures, none of them empty", _shown, ""),
    ("labels", 0.5, "Axis labels with units, and a legend", _labels, _DRAWN),
    ("device", 0.5, "Each chart names the report's engine", _device, ""),
    ("numbers", 0.75, "Each value is drawn under its name, at its batch", _numbers, _DRAWN),
    ("limits", 0.25, "Nothing is cut off, and bars start at 0", _limits, _DRAWN),
):
    PICTURES.point(f"charts.{_name}", _worth, _title, _reported)(OnRuns(partial(_judge, _check), tuple(LABELS)))
