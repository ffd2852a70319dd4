"""Parts of the report's charts: a canvas with its heading, bars with their values, names that do not overlap."""

import colorsys
import textwrap
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy.optimize import isotonic_regression

from helpers.course.plots import INK, SOFT, colour
from trtlab.report.results import KEY, Results

STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "axes.facecolor": "white",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#8a8f98",
    "axes.labelcolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "axes.axisbelow": True,
    "xtick.color": SOFT,
    "ytick.color": INK,
    "ytick.major.size": 0,
    "grid.color": "#e4e6ea",
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "trtlab",
    "text.parse_math": False,
}

_CARD, _PALE, _FAINT = "#1d2025", "#e8eaed", "#a3a9b5"
# The same on the report's dark ground.
DARK = STYLE | {
    "text.color": _PALE,
    "axes.edgecolor": "#6b717c",
    "axes.labelcolor": _PALE,
    "axes.titlecolor": _PALE,
    "axes.facecolor": _CARD,
    "xtick.color": _FAINT,
    "ytick.color": _PALE,
    "grid.color": "#343941",
    "figure.facecolor": _CARD,
    "savefig.facecolor": _CARD,
}
# The least that WCAG 2.2 asks of text on its ground.
_CONTRAST = 4.5

_DPI, _MOST_PIXELS = 160, 60_000
_HEAD_SIZE, _SUBTITLE_SIZE, _LABEL_SIZE = 14, 9, 9.5
_HEAD_INCHES, _SUBTITLE_INCHES = 0.27, 0.18
_NAME_WIDTH, _NAME_LINES = 28, 2


def canvas(
    results: Results, title: str, size: tuple[float, float], columns: int = 1, rows: int = 1
) -> tuple[Figure, list[Axes]]:
    """Return a figure with rows of axes that share their names, below a heading: title, model, data and device.

    `size` is that of the figure in inches, the heading not included.
    """
    heads = textwrap.wrap(title, int(8.5 * size[0]))
    lines = textwrap.wrap(f"{results.subject} · {results.where}", int(12 * size[0]))
    head = 0.2 + _HEAD_INCHES * len(heads) + _SUBTITLE_INCHES * len(lines)
    height = size[1] + head
    figure = Figure((size[0], height), min(_DPI, _MOST_PIXELS / max(size[0], height)), layout="constrained")
    figure.get_layout_engine().set(rect=(0.01, 0.01, 0.98, 0.98 - head / height), wspace=0.08, hspace=0.08)
    figure.text(0.015, 1 - 0.14 / height, "\n".join(heads), fontsize=_HEAD_SIZE, fontweight="bold", va="top")
    below = 1 - (0.14 + _HEAD_INCHES * len(heads)) / height
    figure.text(0.015, below, "\n".join(lines), fontsize=_SUBTITLE_SIZE, color=soft(), va="top")
    return figure, list(figure.subplots(rows, columns, sharey=True, squeeze=False).flat)


def tint(engine: str, text: bool = False) -> str:
    """Return an engine's colour; as text, and on a dark ground, as much darker or lighter as it needs to be read."""
    own, ground = colour(engine), rcParams["axes.facecolor"]
    hue, lightness, saturation = colorsys.rgb_to_hls(*to_rgb(own))
    while (text or ground == _CARD) and contrast(own, ground) < _CONTRAST:
        lightness += 0.01 if ground == _CARD else -0.01
        own = to_hex(colorsys.hls_to_rgb(hue, lightness, saturation))
    return own


def soft() -> str:
    """Return the colour of notes on the ground at hand."""
    return rcParams["xtick.color"]


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, 1 to 21, as WCAG 2.2 defines it."""
    parts = np.array([to_rgb(one), to_rgb(other)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    low, high = sorted(linear @ (0.2126, 0.7152, 0.0722))
    return (high + 0.05) / (low + 0.05)


def wrapped(name: str) -> str:
    """Return a name in at most two lines; a longer one loses its end."""
    lines = textwrap.wrap(name, _NAME_WIDTH)
    return "\n".join(lines[:_NAME_LINES]) + "…" * (len(lines) > _NAME_LINES)


def name_rows(axis: Axes, names: Iterable[str]) -> None:
    """Write the names beside the vertical axis, the first on top, at 0, 1, 2 and so on."""
    names = [wrapped(name) for name in names]
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.grid(axis="x")


def bars(axis: Axes, engines: pd.DataFrame, lines: pd.DataFrame) -> None:
    """Draw a bar for each engine, the first on top: its line's `value` with the `text`, a dash if it has no line.

    A thin line reaches on to `tail`, if the lines have one.
    """
    rows = engines[[*KEY, "title"]].merge(lines.drop(columns="title"), "left", KEY)
    rows = rows.fillna({"value": 0.0, "text": "–"})
    ends = np.fmax(rows.value, rows.get("tail", 0.0))
    name_rows(axis, rows.title)
    axis.barh(rows.index, rows.value, 0.68, color=rows.engine.map(tint))
    axis.hlines(rows.index, rows.value, ends, color=rcParams["text.color"], linewidth=1)
    beside(axis, rows.text, ends, rows.index)
    axis.set_xlim(0, 1.38 * ends.max())
    plain_numbers(axis.xaxis)


def beside(axis: Axes, texts: Iterable[str], x: Iterable[float], y: Iterable[float], gap: int = 4) -> None:
    """Write each text `gap` points to the right of its point, on a light ground: lines behind it do not disturb."""
    ground = {"facecolor": rcParams["axes.facecolor"], "edgecolor": "none", "alpha": 0.85, "pad": 0.6}
    for text, *point in zip(texts, x, y, strict=True):
        axis.annotate(text, point, (gap, 0), textcoords="offset points", va="center", fontsize=9, bbox=ground)


def plain_numbers(axis: Axis, ticks: int = 5) -> None:
    """Let an axis have few ticks at round numbers, with thousands separated."""
    axis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 5, 10]))
    axis.set_major_formatter("{x:,.10g}")


def spread(wanted: Sequence[float], least: float, low: float) -> np.ndarray:
    """Return positions near `wanted`, at least `least` apart and none below `low`, in the order of `wanted`.

    What would overlap becomes a group, which stands as near to the middle of its points as it can.
    """
    order = np.argsort(wanted, kind="stable")
    steps = least * np.arange(len(order))
    places = np.empty(len(order))
    places[order] = isotonic_regression(np.take(wanted, order) - steps).x.clip(low) + steps
    return places


def end_labels(axis: Axes, ends: Sequence[tuple[float, float]], texts: Sequence[str], engines: Sequence[str]) -> None:
    """Write each series' text beside its last point (x, y) in its engine's colour; pushed apart to overlap nowhere."""
    axis.figure.draw_without_rendering()  # the height of the axis is known only then
    low, high = axis.get_ylim()
    lines = max(text.count("\n") + 1 for text in texts)
    pixels = 1.35 * lines * _LABEL_SIZE * axis.figure.dpi / 72
    least = pixels * (high - low) / axis.get_window_extent().height
    heights = spread([y for _, y in ends], least, low)
    for end, height, text, engine in zip(ends, heights, texts, engines, strict=True):
        line = {
            **{"arrowstyle": "-", "color": tint(engine), "linewidth": 0.7, "shrinkA": 2, "shrinkB": 4},
            "relpos": (0, 0.5),  # from the text's left edge, so that it crosses no other text
        }
        font = {"color": tint(engine, text=True), "fontsize": _LABEL_SIZE, "fontweight": "bold", "va": "center"}
        axis.annotate(text, end, (end[0] * 1.12, height), annotation_clip=False, arrowprops=line, **font)
