"""Reads a matplotlib figure as a person does: which points can be seen, under which name, at which tick of an axis."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Series", "named", "points_in_view", "series_of", "visible"]

_NAMES = ("fp32", "fp16", "int8")
_COLOUR_DIGITS = 3
_NEAR, _APART = 60.0, 5.0
"""How far in pixels a name may lie from its point, and how much farther than twice that any other point must be."""


@dataclass(frozen=True)
class Series:
    """Points that belong together: a line, the bars of one kind, a cloud of markers; or one point that is named.

    `name` is the engine that the legend gives the series' colour, or that is written beside the point ("" where neither
    says so). `x` and `y` are the visible points in data units, a bar's length being its value; `x_ticks` and `y_ticks`
    the text of the tick nearest to each point, or under each bar; `plane` numbers the axes of the figure.
    """

    plane: int
    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    x_ticks: tuple[str, ...]
    y_ticks: tuple[str, ...]


def named(text: str) -> str:
    """Return the one engine (pytorch-fp32, fp32, fp16, int8) that a text names; "" where it is none or several."""
    lower = text.lower()
    if "pytorch" in lower or "torch" in lower.split():
        return "" if "int8" in lower or "fp16" in lower else "pytorch-fp32"
    found = [name for name in _NAMES if re.search(rf"(?<![a-z0-9]){name}(?![0-9])", lower)]
    return found[0] if len(found) == 1 else ""


def visible(artist: Any) -> bool:
    """Return whether anything of an artist can be seen: it is shown, and not wholly transparent."""
    alpha = artist.get_alpha()
    return bool(artist.get_visible()) and not (np.isscalar(alpha) and alpha is not None and float(alpha) < 0.02)


def points_in_view(axes: Any, x: Any, y: Any) -> np.ndarray:
    """Return those of the points, [N, 2] in data units, that lie within the limits of the axes."""
    points = _columns(x, y)
    bottom, top = sorted(axes.get_ylim())
    left, right = sorted(axes.get_xlim())
    margin = 1e-6 * max(right - left, 1e-12), 1e-6 * max(top - bottom, 1e-12)
    inside = (points[:, 0] >= left - margin[0]) & (points[:, 0] <= right + margin[0])
    inside &= (points[:, 1] >= bottom - margin[1]) & (points[:, 1] <= top + margin[1])
    return points[inside]


def series_of(figure: Any) -> tuple[Series, ...]:
    """Return the series of all axes of a figure that has been drawn."""
    found: list[Series] = []
    for plane, axes in enumerate(figure.get_axes()):
        drawn = [(colour, points) for colour, points in _drawn(axes) if len(points)]
        legend = _legend(figure, axes)
        colours = [colour for colour, _ in drawn]
        names = [legend.get(colour, "") if colours.count(colour) == 1 else "" for colour in colours]
        found += [_series(plane, axes, name, points) for name, (_, points) in zip(names, drawn, strict=True)]
        found += [_series(plane, axes, name, point) for name, point in _beside(axes, [points for _, points in drawn])]
    return tuple(found)


def _series(plane: int, axes: Any, name: str, points: np.ndarray) -> Series:
    x_ticks, y_ticks = (_nearest(points[:, side], _ticks(axis)) for side, axis in enumerate((axes.xaxis, axes.yaxis)))
    return Series(plane, name, tuple(points[:, 0].tolist()), tuple(points[:, 1].tolist()), x_ticks, y_ticks)


def _drawn(axes: Any) -> Iterator[tuple[Any, np.ndarray]]:
    """Yield (colour, points [N, 2]) of every line, group of bars and cloud of markers."""
    for line in axes.get_lines():
        if visible(line):
            yield (
                _colour(line.get_color()),
                points_in_view(axes, line.get_xdata(orig=False), line.get_ydata(orig=False)),
            )
    for bars in axes.containers:
        patches = [patch for patch in getattr(bars, "patches", ()) if hasattr(patch, "get_height") and visible(patch)]
        if not patches:
            continue
        lying = getattr(bars, "orientation", None) == "horizontal"
        boxes = np.array([[p.get_x(), p.get_y(), p.get_width(), p.get_height()] for p in patches], dtype=float)
        if lying:
            points = np.stack([boxes[:, 2], boxes[:, 1] + boxes[:, 3] / 2], axis=1)
        else:
            points = np.stack([boxes[:, 0] + boxes[:, 2] / 2, boxes[:, 3]], axis=1)
        colours = {_colour(patch.get_facecolor()) for patch in patches}
        yield (colours.pop() if len(colours) == 1 else None), points
    for collection in axes.collections:
        offsets = np.ma.filled(np.ma.asarray(collection.get_offsets(), dtype=float), np.nan).reshape(-1, 2)
        colours = {_colour(colour) for colour in collection.get_facecolor()}
        if visible(collection) and len(offsets):
            colour = colours.pop() if len(colours) == 1 else None
            yield colour, points_in_view(axes, offsets[:, 0], offsets[:, 1])


def _legend(figure: Any, axes: Any) -> dict[Any, str]:
    """Return the engine by colour, as the legends of the axes and of the figure show them; no colour that two share."""
    found: dict[Any, set[str]] = {}
    for legend in [axes.get_legend(), *figure.legends]:
        if legend is None or not visible(legend):
            continue
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=False):
            found.setdefault(_handle_colour(handle), set()).add(named(text.get_text()))
    return {colour: names.pop() for colour, names in found.items() if colour is not None and len(names) == 1}


def _handle_colour(handle: Any) -> Any:
    if hasattr(handle, "get_color"):
        return _colour(handle.get_color())
    if hasattr(handle, "get_facecolor"):
        colours = np.atleast_2d(handle.get_facecolor())
        return _colour(colours[0]) if len(colours) else None
    return None


def _beside(axes: Any, clouds: list[np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield (engine, point [1, 2]) for each point that one text, and no other point, lies beside or points at."""
    if not clouds:
        return
    points = np.unique(np.concatenate(clouds), axis=0)
    for text in axes.texts:
        name = named(text.get_text())
        if name and visible(text):
            spot = axes.transData.transform(text.xy if hasattr(text, "xy") else text.get_position())
            distances = np.hypot(*(axes.transData.transform(points) - spot).T)
            order = np.argsort(distances)
            far = distances[order[1]] if len(order) > 1 else np.inf
            if distances[order[0]] <= _NEAR and far >= 2 * distances[order[0]] + _APART:
                yield name, points[order[:1]]


def _ticks(axis: Any) -> list[tuple[float, str]]:
    texts = [label.get_text() for label in axis.get_majorticklabels()]
    places = axis.get_majorticklocs()
    return [(float(place), text) for place, text in zip(places, texts, strict=False)]


def _nearest(values: np.ndarray, ticks: list[tuple[float, str]]) -> tuple[str, ...]:
    if not ticks:
        return ("",) * len(values)
    return tuple(min(ticks, key=lambda tick: abs(tick[0] - value))[1] for value in values)


def _columns(x: Any, y: Any) -> np.ndarray:
    columns = [np.ma.filled(np.ma.asarray(values).astype(float), np.nan).ravel() for values in (x, y)]
    points = np.stack(columns, axis=1) if len(columns[0]) == len(columns[1]) else np.empty((0, 2))
    return points[np.isfinite(points).all(axis=1)]


def _colour(value: Any) -> Any:
    from matplotlib.colors import to_rgb

    try:
        return tuple(round(part, _COLOUR_DIGITS) for part in to_rgb(value))
    except (TypeError, ValueError):
        return None
