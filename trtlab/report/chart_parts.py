"""Parts of the report's charts: a canvas with its heading, bars with their values, names that do not overlap."""

import colorsys
import math
import textwrap
from collections.abc import Sequence
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from helpers.course.plots import INK, SOFT, colour
from trtlab.report.results import Results

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
    "grid.color": "#e4e6ea",
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "trtlab",
    "text.parse_math": False,
}

_CARD, _PALE, _FAINT = "#1d2025", "#e8eaed", "#a3a9b5"
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
"""The same on the report's dark ground."""
_CONTRAST = 4.5
"""The least that WCAG 2.2 asks of text on its ground."""

_HEAD_SIZE, _SUBTITLE_SIZE, _LABEL_SIZE = 14, 9, 9.5
_HEAD_INCHES, _SUBTITLE_INCHES = 0.27, 0.18
_NAME_WIDTH, _NAME_LINES = 28, 2


class Bar(NamedTuple):
    """A bar from 0 to `value`: its name, its number as text, and its colour."""

    name: str
    value: float
    text: str
    colour: str


def canvas(
    results: Results, title: str, widths: Sequence[float], size: tuple[float, float], rows: int = 1
) -> tuple[Figure, list[Axes]]:
    """Return a figure with rows of axes of these relative widths, below a heading: title, model, data and device.

    `size` is that of the figure in inches, the heading not included.
    """
    heads = textwrap.wrap(title, int(8.5 * size[0]))
    lines = textwrap.wrap(f"{results.subject} · {results.where}", int(12 * size[0]))
    head = 0.2 + _HEAD_INCHES * len(heads) + _SUBTITLE_INCHES * len(lines)
    height = size[1] + head
    figure, axes = plt.subplots(
        rows, len(widths), figsize=(size[0], height), squeeze=False, layout="constrained", width_ratios=widths
    )
    figure.get_layout_engine().set(rect=(0.01, 0.01, 0.98, 0.98 - head / height), wspace=0.08, hspace=0.08)
    top = 1 - 0.14 / height
    figure.text(0.015, top, "\n".join(heads), fontsize=_HEAD_SIZE, fontweight="bold", va="top")
    top -= _HEAD_INCHES * len(heads) / height
    figure.text(0.015, top, "\n".join(lines), fontsize=_SUBTITLE_SIZE, color=soft(), va="top")
    return figure, list(axes.flat)


def tint(engine: str, text: bool = False) -> str:
    """Return an engine's colour; as text, and on a dark ground, one that can be read."""
    own, ground = colour(engine), plt.rcParams["axes.facecolor"]
    return readable(own, ground) if text or ground == _CARD else own


def soft() -> str:
    """Return the colour of notes on the ground at hand."""
    return plt.rcParams["xtick.color"]


def readable(own: str, ground: str) -> str:
    """Return a colour as it is, or as much lighter or darker as text of it needs to be read on the ground."""
    hue, lightness, saturation = colorsys.rgb_to_hls(*to_rgb(own))
    step = 0.01 if _luminance(ground) < _MIDDLE else -0.01
    while contrast(own, ground) < _CONTRAST:
        lightness += step
        own = to_hex(colorsys.hls_to_rgb(hue, lightness, saturation))
    return own


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, 1 to 21, as WCAG 2.2 defines it."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


_MIDDLE = 0.18


def _luminance(name: str) -> float:
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(name)]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


def wrapped(name: str, width: int = _NAME_WIDTH, most: int = _NAME_LINES) -> str:
    """Return a name in at most `most` lines; a longer one loses its end."""
    lines = textwrap.wrap(name, width) or [""]
    if len(lines) > most:
        lines = [*lines[: most - 1], lines[most - 1][: width - 1] + "…"]
    return "\n".join(lines)


def name_rows(axis: Axes, names: Sequence[str]) -> list[int]:
    """Write the names beside the vertical axis, the first on top; return their heights."""
    places = list(range(len(names) - 1, -1, -1))
    axis.set_yticks(places, [wrapped(name) for name in names])
    axis.set_ylim(-0.6, len(names) - 0.4)
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="x")
    return places


def bars(axis: Axes, rows: Sequence[Bar], tails: Sequence[float] = ()) -> None:
    """Draw horizontal bars, the first on top, each with a thin line to its tail, where there is one (else NaN)."""
    ends = [bar.value for bar in rows]
    for number, place in enumerate(name_rows(axis, [bar.name for bar in rows])):
        bar, tail = rows[number], tails[number] if len(tails) else math.nan
        axis.barh(place, bar.value, color=bar.colour, height=0.68)
        if tail > bar.value:
            axis.plot([bar.value, tail], [place, place], color=plt.rcParams["text.color"], linewidth=1)
            ends[number] = tail
        beside(axis, bar.text, ends[number], place)
    axis.set_xlim(0, 1.38 * max(ends))
    plain_numbers(axis.xaxis)


def beside(axis: Axes, text: str, x: float, y: float, gap: int = 4) -> None:
    """Write `text` beside a point, `gap` points to the right, on a light ground: lines behind it do not disturb."""
    ground = {"facecolor": plt.rcParams["axes.facecolor"], "edgecolor": "none", "alpha": 0.85, "pad": 0.6}
    axis.annotate(text, (x, y), (gap, 0), textcoords="offset points", va="center", fontsize=9, bbox=ground)


def plain_numbers(axis: Axis, ticks: int = 5) -> None:
    """Let an axis have few ticks at round numbers, with thousands separated."""
    axis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def spread(wanted: Sequence[float], least: float, low: float) -> list[float]:
    """Return positions near `wanted`, at least `least` apart and none below `low`, in the order of `wanted`.

    What would overlap becomes a group, which stands as near to the middle of its points as it can.
    """

    def start(group: Sequence[int]) -> float:
        middle = sum(wanted[index] for index in group) / len(group)
        return max(low, middle - least * (len(group) - 1) / 2)

    groups: list[list[int]] = []
    for index in sorted(range(len(wanted)), key=wanted.__getitem__):
        groups.append([index])
        while len(groups) > 1 and start(groups[-1]) < start(groups[-2]) + least * len(groups[-2]):
            groups[-2:] = [groups[-2] + groups[-1]]
    places = {index: start(group) + number * least for group in groups for number, index in enumerate(group)}
    return [places[index] for index in range(len(wanted))]


def end_labels(axis: Axes, ends: Sequence[tuple[float, float]], texts: Sequence[str], engines: Sequence[str]) -> None:
    """Write each series' text beside its last point (x, y) in its engine's colour; pushed apart to overlap nowhere."""
    axis.figure.canvas.draw()  # the height of the axis is known only then
    low, high = axis.get_ylim()
    lines = max(text.count("\n") + 1 for text in texts)
    pixels = 1.35 * lines * _LABEL_SIZE * axis.figure.dpi / 72
    least = pixels * (high - low) / axis.get_window_extent().height
    heights = spread([y for _, y in ends], least, low)
    for end, height, text, engine in zip(ends, heights, texts, engines, strict=True):
        line = {"arrowstyle": "-", "color": tint(engine), "linewidth": 0.7, "shrinkA": 2, "shrinkB": 4}
        line["relpos"] = (0, 0.5)  # from the text's left edge, so that it crosses no other text
        font = {"color": tint(engine, text=True), "fontsize": _LABEL_SIZE, "fontweight": "bold", "va": "center"}
        axis.annotate(text, end, (end[0] * 1.12, height), annotation_clip=False, arrowprops=line, **font)
