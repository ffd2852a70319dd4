"""The report's charts: every axis has its unit, every title names engine and device, every series is labelled directly.

Colours are helpers.plots'; nothing is said by colour alone.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from helpers.files import atomic_path
from helpers.plots import colour
from solutions.pipeline.findings import saturation
from solutions.pipeline.results import BASELINE, Results, pretty_name

__all__ = ["CHARTS", "draw_charts"]

_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#8a8f98",
    "axes.labelcolor": "#30343b",
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "xtick.color": "#50555e",
    "ytick.color": "#30343b",
    "grid.color": "#e4e6ea",
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}
_DPI = 160


def draw_charts(results: Results, folder: str | Path) -> dict[str, Path]:
    """Draw every chart whose numbers were measured into `folder`; return their paths by name.

    Raises:
        InputError: the folder cannot be written to.
    """
    drawn = {}
    with plt.rc_context(_STYLE):
        for name, draw in CHARTS.items():
            if (figure := draw(results)) is None:
                continue
            try:
                drawn[name] = _save(figure, Path(folder) / f"{name}.png")
            finally:
                plt.close(figure)
    return drawn


def _save(figure: Figure, path: Path) -> Path:
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=_DPI, format="png")
    return path


def _canvas(results: Results, title: str, panels: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    """Return a figure with `panels` axes in a row, the title, and under it model, data, engine and device."""
    figure, axes = plt.subplots(1, panels, figsize=size, squeeze=False, layout="constrained")
    head = 0.72 / size[1]
    figure.get_layout_engine().set(rect=(0.01, 0.01, 0.98, 0.98 - head), wspace=0.08)
    figure.text(0.015, 1 - 0.30 / size[1], title, fontsize=14, fontweight="bold", color="#1c1f24", va="center")
    subtitle = f"{results.model} on {results.data} · {results.device}"
    figure.text(0.015, 1 - 0.58 / size[1], subtitle, fontsize=9, color="#5f6368", va="center")
    return figure, list(axes[0])


def _bars(axis: Axes, values: dict[str, float], text: Callable[[float], str], room: float = 1.28) -> None:
    """Draw horizontal bars, the first name on top, each with its value written at its end."""
    names = list(values)
    places = range(len(names) - 1, -1, -1)
    axis.barh(list(places), list(values.values()), color=[colour(name) for name in names], height=0.68)
    for place, name in zip(places, names, strict=True):
        _beside(axis, text(values[name]), values[name], place)
    axis.set_yticks(list(places), [pretty_name(name) for name in names])
    axis.tick_params(axis="y", length=0)
    axis.set_xlim(0, room * max(values.values()))
    axis.grid(axis="x")
    axis.set_axisbelow(True)


def _beside(axis: Axes, text: str, x: float, y: float) -> None:
    """Write `text` to the right of a point."""
    axis.annotate(text, (x, y), (4, 0), textcoords="offset points", va="center", fontsize=9)


def _latency(results: Results) -> Figure | None:
    """One panel a batch size; bars are medians, the thin line reaches to the 99th percentile."""
    panels = [(batch, _column(results, batch, "median_ms")) for batch in results.batches]
    panels = [(batch, values) for batch, values in panels if values]
    if not panels:
        return None
    rows = max(len(values) for _, values in panels)
    size = (max(8.5, 2.4 * len(panels) + 1.8), 1.9 + 0.34 * rows)
    title = "Latency by precision and batch size: median, with a line to p99"
    figure, axes = _canvas(results, title, len(panels), size)
    for axis, (batch, values) in zip(axes, panels, strict=True):
        _latency_panel(axis, results, batch, values)
    for axis in axes[1:]:
        if axis.get_ylim() == axes[0].get_ylim():
            axis.set_yticklabels([])
    return figure


def _latency_panel(axis: Axes, results: Results, batch: int, values: dict[str, float]) -> None:
    tails = {name: row.p99_ms for name in values if (row := results.row(name, batch)) and row.p99_ms}
    _bars(axis, values, lambda value: "")
    edge = 1.5 * max(values.values())
    for place, name in enumerate(reversed(values)):
        tail = max(tails.get(name, 0.0), values[name])
        axis.plot([values[name], min(tail, edge)], [place, place], color="#30343b", linewidth=1)
        far = f" (p99 {_figures(tail)})" if tail > edge else ""
        _beside(axis, f"{_figures(values[name])}{far}", min(tail, edge), place)
    ends = [min(tail, edge) for tail in tails.values()]
    axis.set_xlim(0, (1.24 if max(ends, default=0) < edge else 1.5) * max([*values.values(), *ends]))
    axis.set_title(f"batch {batch}", fontweight="bold")
    axis.set_xlabel("latency (ms)")


def _figures(value: float) -> str:
    """Return three significant figures, never with an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _throughput(results: Results) -> Figure | None:
    """Throughput against batch on a logarithmic batch axis; a ring marks where doubling the batch stops paying."""
    series = {name: points for name in results.names if (points := results.series(name, "images_per_s"))}
    if not series:
        return None
    figure, (axis,) = _canvas(results, "Throughput against batch size", 1, (9.5, 5.4))
    for name, points in series.items():
        batches, rates = zip(*points, strict=True)
        axis.plot(batches, rates, color=colour(name), marker="o", markersize=4.5, linewidth=2)
        if (point := saturation(points)) and point.gain is not None:
            axis.plot(point.batch, point.images_per_s, "o", markersize=13, mfc="none", mec=colour(name), mew=1.8)
    _batch_axis(axis, results.batches)
    axis.set_ylim(0, None)
    axis.grid(axis="y")
    axis.set_ylabel("throughput (images/s)")
    ends = {name: points[-1] for name, points in series.items()}
    _end_labels(axis, {name: (x, y, f"{pretty_name(name)}  {y:,.0f}") for name, (x, y) in ends.items()})
    axis.set_title("ring: doubling the batch gains less than 10 % from here on", fontsize=9, color="#5f6368")
    return figure


def _batch_axis(axis: Axes, batches: list[int]) -> None:
    axis.set_xscale("log", base=2)
    axis.set_xticks(batches, [str(batch) for batch in batches])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xlim(batches[0] / 1.15, batches[-1] * (1.6 if len(batches) < 3 else 1.15))
    axis.set_xlabel("batch size (images)")


def _end_labels(axis: Axes, ends: dict[str, tuple[float, float, str]]) -> None:
    """Write each series' name beside its last point, pushed apart where they would overlap."""
    axis.figure.canvas.draw()
    least = 0.048 * (axis.get_ylim()[1] - axis.get_ylim()[0])
    heights: dict[str, float] = {}
    floor = -float("inf")
    for name in sorted(ends, key=lambda name: ends[name][1]):
        heights[name] = floor = max(ends[name][1], floor + least)
    for name, (x, y, text) in ends.items():
        axis.annotate(
            text,
            (x, y),
            (x * 1.12, heights[name]),
            color=colour(name),
            va="center",
            fontsize=9.5,
            fontweight="bold",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour(name), "linewidth": 0.7, "shrinkA": 0, "shrinkB": 4},
        )


def _speedup(results: Results) -> Figure | None:
    """Bars by engine, one shade a batch size, with a line at 1 (PyTorch FP32)."""
    table = {name: points for name in results.names if (points := results.series(name, "speedup")) and name != BASELINE}
    if not table:
        return None
    count = sum(len(points) + 1 for points in table.values())
    title = "Speed-up over PyTorch FP32 at the same batch size"
    figure, (axis,) = _canvas(results, title, 1, (9.5, 1.7 + 0.21 * count))
    place, ticks = 0.0, {}
    for name, points in table.items():
        ticks[name] = place - (len(points) - 1) / 2
        for number, (batch, value) in enumerate(points):
            shade = 0.45 + 0.55 * (number + 1) / len(points)
            axis.barh(place, value, color=colour(name), alpha=shade, height=0.86)
            _beside(axis, f"{value:.2f}×  batch {batch}", value, place)
            place -= 1
        place -= 0.8
    axis.axvline(1, color=colour(BASELINE), linewidth=1.2, linestyle="--")
    axis.set_yticks(list(ticks.values()), [pretty_name(name) for name in ticks])
    axis.set_ylim(place + 0.8, 1.0)
    axis.tick_params(axis="y", length=0)
    axis.set_xlim(0, 1.18 * max(value for points in table.values() for _, value in points))
    axis.set_xlabel("throughput relative to PyTorch FP32 (×, dashed line = 1)")
    axis.grid(axis="x")
    axis.set_axisbelow(True)
    return figure


def _accuracy(results: Results) -> Figure | None:
    """Top-1 against speed-up at the largest batch; bars are the 95 % interval of the paired difference to FP32."""
    batch = max(results.batches, default=0)
    scores = {score.name: score for score in results.accuracy}
    points = {name: row for name in scores if (row := results.row(name, batch)) and row.speedup}
    if not points:
        return None
    figure, (axis,) = _canvas(results, f"Accuracy against speed-up at batch {batch}", 1, (9.5, 5.2))
    lows, highs = [], []
    for name, row in points.items():
        score = scores[name]
        low, high = _interval(score)
        lows.append(low), highs.append(high)
        error = [[max(0.0, score.top1 - low)], [max(0.0, high - score.top1)]]
        axis.errorbar(row.speedup, score.top1, yerr=error, fmt="o", color=colour(name), markersize=8, capsize=4)
    _place_labels(axis, {name: (row.speedup, scores[name].top1) for name, row in points.items()})
    margin = max(0.5, 0.25 * (max(highs) - min(lows)))
    axis.set_ylim(min(lows) - margin, max(highs) + margin)
    axis.set_xlim(0, 1.25 * max(row.speedup for row in points.values()))
    axis.set_xlabel("throughput relative to PyTorch FP32 (×)")
    axis.set_ylabel("top-1 accuracy (%)")
    axis.grid()
    axis.set_axisbelow(True)
    samples = max(score.num_samples for score in scores.values())
    note = f"{samples:,} images · bars: 95 % interval of the paired difference to FP32 · vertical axis cut"
    axis.set_title(note, fontsize=9, color="#5f6368")
    return figure


def _interval(score: Any) -> tuple[float, float]:
    """Return the interval in which top-1 lies, from the interval of the loss against FP32."""
    if score.loss is None or score.loss_low is None or score.loss_high is None:
        return score.top1, score.top1
    reference = score.top1 + score.loss
    return reference - score.loss_high, reference - score.loss_low


def _place_labels(axis: Axes, points: dict[str, tuple[float, float]]) -> None:
    """Write names beside points, stacked where points are close together."""
    spread = max(x for x, _ in points.values()) or 1.0
    placed: list[float] = []
    for name, (x, y) in sorted(points.items(), key=lambda item: item[1][0]):
        crowd = sum(abs(x - other) < 0.22 * spread for other in placed)
        offset = (9, (-14, 7, -28, 21, -42)[crowd % 5])
        placed.append(x)
        font = {"color": colour(name), "fontweight": "bold", "fontsize": 9.5, "ha": "left"}
        if name == BASELINE:  # it has no error bar, so its label can stand under it, clear of its neighbour's bar
            offset, font["ha"] = (0, -17), "center"
        axis.annotate(pretty_name(name), (x, y), offset, textcoords="offset points", **font)


def _size(results: Results) -> Figure | None:
    """Model file and peak memory in MB, by name, each its largest over the batch sizes."""
    panels = [
        ("model or engine file (MB)", _largest(results, "size_bytes")),
        (f"peak memory up to batch {max(results.batches, default=0)} (MB)", _largest(results, "peak_memory_bytes")),
    ]
    panels = [(label, values) for label, values in panels if values]
    if not panels:
        return None
    rows = max(len(values) for _, values in panels)
    figure, axes = _canvas(results, "Size and memory", len(panels), (9.5, 1.9 + 0.36 * rows))
    for axis, (label, values) in zip(axes, panels, strict=True):
        _bars(axis, values, lambda value: f"{value:,.0f}" if value >= 100 else f"{value:.1f}")
        axis.set_xlabel(label)
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    return figure


def _column(results: Results, batch: int, column: str) -> dict[str, float]:
    rows = ((name, results.row(name, batch)) for name in results.names)
    return {name: value for name, row in rows if row and (value := getattr(row, column)) is not None}


def _largest(results: Results, column: str) -> dict[str, float]:
    """Return megabytes by name: the largest of `column` over the batch sizes."""
    series = {name: results.series(name, column) for name in results.names}
    return {name: max(value for _, value in points) / 1e6 for name, points in series.items() if points}


CHARTS: dict[str, Callable[[Results], Figure | None]] = {
    "latency_by_precision": _latency,
    "throughput_by_batch": _throughput,
    "speedup": _speedup,
    "accuracy_speedup": _accuracy,
    "size_memory": _size,
}
"""Chart name (its file's stem) → drawing function; the function returns None where its numbers were not measured."""
