"""Reads matplotlib figures as plain data: what is drawn where, under which name of a legend, at which tick.

A *mark* is a point of a line or a scatter, or a bar: its place in data units and in pixels, the legend's text for it,
and the text of the tick nearest to it on each axis. Marks, texts and ticks that cannot be seen are left out.
"""

import io
from collections.abc import Iterator
from typing import Any, TypedDict

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import to_rgba_array
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text

from helpers.checks.probes.answer import Notebook, probe

FUNCTION = "draw_charts"
MOST_MARKS = 2000
_NOTHING = ("None", "none", "", " ", None)
"""How matplotlib writes that a line has no stroke, or no marker."""

Look = tuple[tuple[float, ...], str]
Shape = tuple[str, str, Look, float, float, float, float]


class Axis(TypedDict):
    """What `_axis` answers; `limits` are two, a tick is its place and its text."""

    label: str
    limits: list[float]
    scale: str
    ticks: list[list[float | str]]
    offset: str


class Note(TypedDict):
    """A text in a plot, and the two pixels that it points at."""

    text: str
    at: list[float]


class MarkFacts(TypedDict):
    """What `_marks` answers of a mark; `at` is two pixels, a tick its text and how far away it is."""

    series: int
    kind: str
    x: float
    y: float
    base: float
    thick: float
    at: list[float]
    legend: str
    x_tick: list[str | float]
    y_tick: list[str | float]


class Plot(TypedDict):
    """What `_axes` answers."""

    title: str
    place: list[float]
    x: Axis
    y: Axis
    notes: list[Note]
    marks: list[MarkFacts]


class Drawn(TypedDict):
    """What `drawn` answers."""

    texts: list[str]
    x_label: str
    y_label: str
    axes: list[Plot]


class Chart(TypedDict):
    """What `charts_drawn` answers of a chart."""

    type: str
    figure: Drawn | None
    same_as: str
    svg: bytes


class Charts(TypedDict):
    """What `charts_drawn` answers of a report."""

    returned_type: str
    charts: dict[str, Chart]


@probe
def charts_drawn(notebook: Notebook, *, reports: list[dict[str, Any]]) -> list[Charts]:
    """Call `draw_charts(report)` for each report; figures that it leaves open stay so meanwhile, then they are closed.

    Returns for each `returned_type` and `charts`: for each name `type`, `figure` (`drawn`; None where it is no Figure),
    `same_as`, the first name that has the same Figure, and `svg`, the picture that a reader gets.
    """
    import matplotlib.pyplot as plt

    opened = set(plt.get_fignums())
    try:
        return [_charts(notebook[FUNCTION](report)) for report in reports]
    finally:
        for number in set(plt.get_fignums()) - opened:
            plt.close(number)


def _charts(returned: Any) -> Charts:
    found = {str(name): value for name, value in returned.items()} if isinstance(returned, dict) else {}
    charts = {name: _chart(name, found) for name in found}
    pictures = {name: _picture(figure) if isinstance(figure, Figure) else b"" for name, figure in found.items()}
    return {
        "returned_type": type(returned).__name__,
        "charts": {name: chart | {"svg": pictures[name]} for name, chart in charts.items()},
    }


def _picture(figure: Figure) -> bytes:
    """Return a figure as SVG whose texts are texts; an effect would make a path of one."""
    for text in figure.findobj(Text):
        text.set_path_effects(None)
    content = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(content, format="svg")
    return content.getvalue()


def _chart(name: str, found: dict[str, Any]) -> dict[str, Any]:
    figure = found[name]
    first = next(other for other, value in found.items() if value is figure)
    return {
        "type": type(figure).__name__,
        "figure": drawn(figure) if isinstance(figure, Figure) else None,
        "same_as": first,
    }


def drawn(figure: Figure) -> Drawn:
    """Return `texts` (all that is written in a figure), `x_label`, `y_label` (of the whole) and `axes`."""
    figure.draw_without_rendering()
    return {
        "texts": [text for artist in figure.findobj(Text) if (text := _text_inside(artist))],
        "x_label": _text(getattr(figure, "_supxlabel", None)),
        "y_label": _text(getattr(figure, "_supylabel", None)),
        "axes": [_axes(axes) for axes in figure.get_axes() if axes.get_visible()],
    }


def _axes(axes: Axes) -> Plot:
    """Return the data of one plot: its two axes, `title`, `notes` (texts and the pixels they point at) and `marks`.

    `place` is where it lies in the figure: two plots at one place lie over each other.
    """
    titles = (_text(getattr(axes, part)) for part in ("title", "_left_title", "_right_title"))
    notes = [
        {"text": text, "at": _anchor(axes, note)} for note in axes.texts[:MOST_MARKS] if (text := _text_inside(note))
    ]
    return {
        "title": " ".join(filter(None, titles)),
        "place": np.round(axes.get_position().bounds, 3).tolist(),
        "x": _axis(axes.xaxis),
        "y": _axis(axes.yaxis),
        "notes": [note for note in notes if note["at"] is not None],
        "marks": _marks(axes),
    }


def _axis(axis: Any) -> Axis:
    return {
        "label": _text(axis.label) if _shown(axis) else "",
        "limits": sorted(float(limit) for limit in axis.get_view_interval()),
        "scale": str(axis.get_scale()),
        "ticks": [list(label) for label in _tick_labels(axis)],
        "offset": axis.get_offset_text().get_text(),
    }


def _shown(axis: Any) -> bool:
    return bool(axis.axes.axison and axis.get_visible())


def _tick_labels(axis: Any) -> list[tuple[float, str]]:
    """Return place and text of the tick labels that can be seen, where it has none of an axis that shares its scale."""
    name, axes = axis.axis_name, axis.axes
    for other in (axes, *getattr(axes, f"get_shared_{name}_axes")().get_siblings(axes)):
        own = getattr(other, f"{name}axis")
        ticks = [*own.get_major_ticks(), *own.get_minor_ticks()] if _shown(own) else []
        labels = [(float(tick.get_loc()), _text(label)) for tick in ticks for label in (tick.label1, tick.label2)]
        if found := [(place, text) for place, text in labels if text]:
            return found
    return []


def _text(artist: Text | None) -> str:
    return " ".join(artist.get_text().split()) if artist is not None and _seen(artist) else ""


def _text_inside(artist: Text) -> str:
    """Return what a text says; "" where it lies outside of the figure, and so is not in the file."""
    words = _text(artist)
    return words if words and artist.get_window_extent().overlaps(artist.figure.canvas.figure.bbox) else ""


def _anchor(axes: Axes, note: Text) -> list[float] | None:
    """Return the pixel that a text stands at or points at."""
    pointing = isinstance(note, Annotation) and note.xycoords == "data"
    x, y = note.xy if pointing else note.get_position()
    transform = axes.transData if pointing else note.get_transform()
    try:
        return [float(part) for part in transform.transform((note.convert_xunits(x), note.convert_yunits(y)))]
    except (TypeError, ValueError):
        return None


def _marks(axes: Axes) -> list[MarkFacts]:
    legend, ticks, found = _legend(axes), [_ticks(axes, side) for side in (0, 1)], []
    for series, shapes in enumerate(_series(axes)):
        for kind, label, look, x, y, base, thick in shapes:
            at = axes.transData.transform((x, y))
            if np.isfinite([x, y, *at]).all() and len(found) < MOST_MARKS:
                near = {f"{name}_tick": _nearest(at[side], ticks[side]) for side, name in enumerate("xy")}
                mark = {"series": series, "kind": kind, "x": x, "y": y, "base": base, "at": at.tolist()}
                mark["thick"] = thick
                found.append({**mark, "legend": _named(label, look, legend), **near})
    return found


def _series(axes: Axes) -> Iterator[list[Shape]]:
    """Yield (kind, own label, look, x, y, base, thickness) of what belongs together: a line, some bars, a cloud."""
    yield from _lines(axes)
    for bars in axes.containers:
        if isinstance(bars, BarContainer):
            yield [_bar(patch, bars) for patch in bars.patches if _seen(patch)]
    for cloud in axes.collections:
        if isinstance(cloud, PathCollection) and _seen(cloud):
            yield _cloud(cloud)


def _lines(axes: Axes) -> Iterator[list[Shape]]:
    """Yield the lines that are placed by the axes' data (no axhline), without the caps of error bars."""
    errors = [part for part in axes.containers if isinstance(part, ErrorbarContainer)]
    caps = {id(line) for part in errors for line in part.lines[1]}
    barred = {id(part.lines[0]) for part in errors if part.lines[2]}
    for line in axes.get_lines():
        shown = _seen(line) and (id(line) in barred or _draws(line))
        if shown and id(line) not in caps and line.get_transform() == axes.transData:
            label = next((part.get_label() for part in errors if part.lines[0] is line), line.get_label())
            points = zip(_floats(line.get_xdata(orig=False)), _floats(line.get_ydata(orig=False)), strict=True)
            yield [("line", str(label), _look(line), x, y, 0.0, 0.0) for x, y in points]


def _seen(artist: Any) -> bool:
    alpha = artist.get_alpha()
    return artist.get_visible() and (alpha is None or bool(np.any(np.asarray(alpha) > 0)))


def _draws(line: Any) -> bool:
    """Return whether a line has markers, or a stroke and two points to draw it between."""
    stroke = line.get_linestyle() not in _NOTHING and line.get_linewidth() > 0 and len(line.get_xdata(orig=False)) > 1
    return stroke or (line.get_marker() not in _NOTHING and line.get_markersize() > 0)


def _bar(patch: Any, bars: BarContainer) -> Shape:
    label, look = str(bars.get_label()), _look(patch)
    x, y, width, height = map(float, (patch.get_x(), patch.get_y(), patch.get_width(), patch.get_height()))
    if bars.orientation == "horizontal":
        return "barh", label, look, x + width, y + height / 2, x, height
    return "bar", label, look, x + width / 2, y + height, y, width


def _cloud(cloud: PathCollection) -> list[Shape]:
    points, colours = _floats(cloud.get_offsets()).reshape(-1, 2), to_rgba_array(cloud.get_facecolor())
    own = len(colours) == len(points) > 1
    looks = [_look(cloud, colours[place] if own else None) for place in range(len(points))]
    label = str(cloud.get_label())
    return [("point", label, look, float(x), float(y), 0.0, 0.0) for look, (x, y) in zip(looks, points, strict=True)]


def _floats(values: Any) -> np.ndarray:
    return np.ma.filled(np.ma.asarray(values).astype(float), np.nan)


def _look(artist: Any, colour: Any = None) -> Look:
    """Return what a legend repeats of an artist: its colour, and its marker, line style and hatch."""
    colours = [colour] if colour is not None else _asked(artist, "color", "facecolor", "edgecolor")
    rgb = next((to_rgba_array(value)[0, :3] for value in colours if len(to_rgba_array(value))), ())
    rest = _asked(artist, "marker", "linestyle", "hatch")
    return tuple(np.round(rgb, 3).tolist()), " ".join(map(str, rest))


def _asked(artist: Any, *properties: str) -> list[Any]:
    return [getattr(artist, f"get_{name}")() for name in properties if hasattr(artist, f"get_{name}")]


def _legend(axes: Axes) -> list[tuple[str, Look]]:
    """Return the texts of the legend and how each looks: the axes' own and the figure's, else that of other axes."""
    own = [legend for legend in (axes.get_legend(), *axes.figure.legends) if legend is not None]
    others = [other.get_legend() for other in axes.figure.get_axes() if other.get_legend() is not None]
    entries = []
    for legend in own or others:
        if legend.get_visible():
            entries += zip(map(_text_inside, legend.get_texts()), map(_look, legend.legend_handles), strict=False)
    return entries


def _named(label: str, look: Look, legend: list[tuple[str, Look]]) -> str:
    """Return the legend's text for what looks so; where several or none look so, its own label if the legend has it."""
    alike = {text for text, other in legend if other[0] == look[0]}
    if len(alike) > 1:
        alike = {text for text, other in legend if other == look}
    if len(alike) == 1:
        return alike.pop()
    return label if label in {text for text, _ in legend} else ""


def _ticks(axes: Axes, side: int) -> list[tuple[float, str]]:
    """Return the pixel along an axis and the text of each major tick; nothing where no text of theirs is seen."""
    axis = (axes.xaxis, axes.yaxis)[side]
    places = axis.get_majorticklocs() if _tick_labels(axis) else np.empty(0)
    points = np.full((len(places), 2), [axes.get_xlim()[0], axes.get_ylim()[0]])
    points[:, side] = places
    pixels = axes.transData.transform(points)[:, side] if len(points) else []
    return list(zip(map(float, pixels), map(str, axis.get_major_formatter().format_ticks(places)), strict=True))


def _nearest(pixel: float, ticks: list[tuple[float, str]]) -> list[Any]:
    """Return the text of the nearest tick and how many pixels away it is."""
    distance, text = min(((abs(place - pixel), text) for place, text in ticks), default=(0.0, ""))
    return [text, float(distance)]
