"""The report's charts: every axis has its unit, every heading names the device, every series is labelled directly.

Colours are those of helpers.course.plots; nothing is said by colour alone. What ran elsewhere than the engines has an
axis of its own.
"""

import io
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from helpers.course.plots import plain_log_axis
from helpers.tools.files import atomic_path
from trtlab.report.chart_parts import (
    DARK,
    STYLE,
    Axes,
    Bar,
    Figure,
    bars,
    beside,
    canvas,
    end_labels,
    name_rows,
    plain_numbers,
    plt,
    soft,
    tint,
    wrapped,
)
from trtlab.report.findings import SATURATION_RULE, figures, saturation
from trtlab.report.results import AccuracyRow, Results, Row, base_name

_DPI, _MOST_PIXELS = 160, 60_000
_WIDTH = 9.5
_MOST_PANELS = 3
"""Panels beside each other."""
_PANEL_TITLE, _LINE = 20, 90
"""Characters of a title that an axis of the latency chart, and one that takes the whole width, has room for."""
_ROW, _FEET, _LABEL = 0.34, 1.1, 0.37
"""Inches: the height of a row of bars, what stands above and below all rows, and a label of two lines."""


def draw_charts(results: Results, folder: str | Path) -> dict[str, Path]:
    """Draw every chart whose numbers were measured into `folder`, as PNG and SVG; return the PNGs' paths by name.

    Raises:
        InputError: the folder cannot be written to.
    """
    return {name: _save(figure, Path(folder), name) for name, figure in _figures(results, STYLE)}


def dark_charts(results: Results) -> dict[str, bytes]:
    """Return the same charts for a dark ground, as PNG by name."""
    drawn = {}
    for name, figure in _figures(results, DARK):
        figure.savefig(data := io.BytesIO(), dpi=_dpi(figure), format="png")
        drawn[name] = data.getvalue()
    return drawn


def _figures(results: Results, style: dict[str, Any]) -> Iterator[tuple[str, Figure]]:
    with plt.rc_context(style):
        for name, draw in CHARTS.items():
            if (figure := draw(results)) is not None:
                try:
                    yield name, figure
                finally:
                    plt.close(figure)


def _dpi(figure: Figure) -> float:
    return min(_DPI, _MOST_PIXELS / max(figure.get_size_inches()))


def _save(figure: Figure, folder: Path, name: str) -> Path:
    """Save the figure in both forms; the PNG first, since drawing at another resolution moves what is laid out."""
    for kind, metadata in (("png", {}), ("svg", {"Date": None})):
        with atomic_path(folder / f"{name}.{kind}") as temporary:
            figure.savefig(temporary, dpi=_dpi(figure), format=kind, metadata=metadata)
    return folder / f"{name}.png"


class _Panel(NamedTuple):
    """One axis of the latency chart: its title, and bars by their names on it."""

    title: str
    rows: dict[str, Row]


def _latency(results: Results) -> Figure | None:
    """One panel a batch size; bars are medians, the thin line reaches to the 99th percentile where there is one."""
    groups = [[panel for panel in group if panel.rows] for group in _latency_panels(results)]
    groups = [group for group in groups if group]
    if not groups:
        return None
    columns = max(math.ceil(len(group) / math.ceil(len(group) / _MOST_PANELS)) for group in groups)
    panels = [panel for group in groups for panel in [*group, *[None] * (-len(group) % columns)]]
    lines = len(panels) // columns
    height = _FEET + 0.2 + _ROW * max(len(panel.rows) for panel in panels if panel)
    title = "Latency by precision and batch size: median, with a line to p99"
    figure, axes = canvas(results, title, [1] * columns, (_WIDTH, lines * height), lines)
    for place, (axis, panel) in enumerate(zip(axes, panels, strict=True)):
        if panel is None:
            axis.remove()
            continue
        _draw_latencies(axis, panel)
        if place % columns and list(panel.rows) == list(panels[place - 1].rows):
            axis.set_yticklabels([])
    return figure


def _latency_panels(results: Results) -> list[list[_Panel]]:
    """Return the axes, a list for each machine: one axis a batch size, and one for what is alone on its device."""
    timed = [row for name in results.names for row in results.of(name) if row.typical_ms and not row.apart]
    at_home = [row for row in timed if not row.elsewhere]
    groups = [_by_batch(results, at_home)]
    for heading, names in results.guests.items():
        rows = [row for row in timed if row.name in names]
        if len(names) > 1:
            groups.append(_by_batch(results, rows, heading))
        else:
            words = results.title(names[0])
            batches = {f"batch {row.batch}": row for row in rows}
            groups[0].append(_Panel(wrapped(words, _PANEL_TITLE, 3), batches))
    return groups


def _by_batch(results: Results, rows: list[Row], heading: str = "") -> list[_Panel]:
    """Return an axis a batch size; `heading` names the machine where it is not the first."""
    panels = []
    for batch in sorted({row.batch for row in rows}):
        some = [row for row in rows if row.batch == batch]
        named = {results.title(row.name, bare=bool(heading)): row for row in some}
        title = wrapped(f"batch {batch}" + (f", {heading}" if heading else ""), _PANEL_TITLE, 3)
        panels.append(_Panel(title, named))
    return panels


def _draw_latencies(axis: Axes, panel: _Panel) -> None:
    drawn = []
    for name, row in panel.rows.items():
        text = figures(row.typical_ms) + ("" if row.median_ms else " mean")
        drawn.append(Bar(name, row.typical_ms, text, tint(row.name), row.p99_ms))
    bars(axis, drawn)
    axis.set_title(panel.title, fontweight="bold", pad=19)  # above the line that counts
    calls = _counted((row.iterations for row in panel.rows.values()), "calls")
    axis.text(0, 1.02, calls, transform=axis.transAxes, fontsize=9, color=soft())
    axis.set_xlabel("latency (ms)")


def _counted(counts: Iterable[int | None], what: str) -> str:
    """Return n of several statistics: "n = 16 to 216 calls"."""
    known = sorted({count for count in counts if count})
    if not known:
        return "n not recorded"
    return f"n = {' to '.join(dict.fromkeys((f'{known[0]:,}', f'{known[-1]:,}')))} {what}"


def _throughput(results: Results) -> Figure | None:
    """Throughput against batch; a ring marks the first batch from which the next larger one gains too little."""
    series = {name: points for name in results.names if (points := results.series(name, "images_per_s"))}
    home = {name: points for name, points in series.items() if name not in results.visitors}
    panels = {"": home} | {
        heading: {name: series[name] for name in names if name in series} for heading, names in results.guests.items()
    }
    panels = {heading: panel for heading, panel in panels.items() if panel}
    if not panels:
        return None
    figure, axes = _throughput_canvas(results, list(panels), max(map(len, panels.values())))
    for axis, panel in zip(axes, panels.values(), strict=True):
        _draw_throughput(axis, panel, results.batches)
    counts = _counted((row.executions for row in results.rows if row.images_per_s), "executions per point")
    note = f"ring: from here on {SATURATION_RULE} · {counts}"
    if results.machines:
        axes[0].set_title(wrapped(results.device, _LINE), fontweight="bold", pad=19)  # above the note
        axes[0].text(0, 1.02, note, transform=axes[0].transAxes, fontsize=9, color=soft())
    else:
        axes[0].set_title(note, fontsize=9, color=soft())
    for axis, (heading, panel) in zip(axes, panels.items(), strict=True):
        rates = {name: f"{points[-1][1]:,.0f}" for name, points in panel.items()}
        if not heading or heading in results.machines:
            titles = {name: wrapped(results.title(name, bare=bool(heading))) for name in panel}
            rates = {name: f"{titles[name]}  {rate}" for name, rate in rates.items()}
        if heading:
            axis.set_title(wrapped(heading, _LINE if results.machines else 20), fontweight="bold")
        ends = {name: points[-1] for name, points in panel.items()}
        end_labels(axis, ends, rates)
    return figure


def _throughput_canvas(results: Results, headings: list[str], most: int) -> tuple[Figure, list[Axes]]:
    """Return axes beside each other, the first one wide; where there are other machines, below each other.

    `most` is the number of labels on the axis with most of them.
    """
    title = "Throughput against batch size"
    height = max(4.9, 1.2 + _LABEL * most)
    if results.machines:
        return canvas(results, title, [1], (_WIDTH + 1.5, height * len(headings)), len(headings))
    widths = [1 if heading else 3 for heading in headings]
    return canvas(results, title, widths, (_WIDTH + 1.5 * (len(headings) - 1), height))


def _draw_throughput(axis: Axes, panel: dict[str, list[tuple[int, float]]], batches: list[int]) -> None:
    axis.set_ylim(0, 1.06 * max(rate for points in panel.values() for _, rate in points))
    for name, points in panel.items():
        look = {"color": tint(name), "marker": "o", "clip_on": False}
        again = base_name(name) in panel.keys() - {name}
        axis.plot(*zip(*points, strict=True), markersize=4.5, linewidth=2, linestyle="--" if again else "-", **look)
        if (point := saturation(points)) and point.reached:
            axis.plot(point.batch, point.images_per_s, markersize=13, mfc="none", mew=1.8, **look)
    plain_log_axis(axis.xaxis, _batch_ticks(batches))
    axis.set_xlim(batches[0] / 1.15, batches[-1] * (1.6 if len(batches) < 3 else 1.15))
    axis.set_xlabel("batch size (images)")
    axis.set_ylabel("throughput (images/s)")
    plain_numbers(axis.yaxis, 8)
    axis.grid(axis="y")


def _batch_ticks(batches: list[int]) -> list[int]:
    """Return the batch sizes whose numbers have room on a logarithmic axis, the largest one included."""
    ticks = [batches[-1]]
    for batch in reversed(batches[:-1]):
        if math.log(ticks[-1] / batch) > 0.06 * math.log(batches[-1] / batches[0]):
            ticks.append(batch)
    return ticks[::-1]


def _speedup(results: Results) -> Figure | None:
    """Bars by engine, one shade a batch size, with a line at 1 (the baseline)."""
    table = {name: points for name in results.names if (points := _speedups(results, name))}
    if not table:
        return None
    count = sum(len(points) + 1 for points in table.values())
    base = results.title(results.baseline)
    figure, (axis,) = canvas(results, f"Speed-up over {base} at the same batch size", [1], (_WIDTH, 0.9 + 0.21 * count))
    axis.axvline(1, color=tint(results.baseline), linewidth=1.2, linestyle="--", zorder=0.5)
    place, ticks = 0.0, {}
    for name, points in table.items():
        ticks[name] = place - (len(points) - 1) / 2
        for number, (batch, value) in enumerate(points):
            shade = 0.45 + 0.55 * (number + 1) / len(points)
            axis.barh(place, value, color=tint(name), alpha=shade, height=0.86)
            beside(axis, f"{value:.2f}×  batch {batch}", value, place)
            place -= 1
        place -= 0.8
    axis.set_yticks(list(ticks.values()), [wrapped(results.title(name)) for name in ticks])
    axis.set_ylim(place + 0.8, 1.0)
    axis.tick_params(axis="y", length=0)
    axis.set_xlim(0, 1.22 * max(value for points in table.values() for _, value in points))
    axis.set_xlabel(f"throughput relative to {base} (×, dashed line = 1)")
    axis.grid(axis="x")
    return figure


def _speedups(results: Results, name: str) -> list[tuple[int, float]]:
    return results.series(name, "speedup") if base_name(name) != results.baseline else []


def _accuracy(results: Results) -> Figure | None:
    """Top-1 beside the speed-up at the largest batch; lines are the 95 % interval of the paired difference to FP32."""
    faster = [row for name in results.names for row in results.of(name) if row.speedup]
    batch = max((row.batch for row in faster), default=0)
    rows = [row for row in faster if row.batch == batch]
    speedups = {row.name: row.speedup for row in rows}
    scores = [score for score in results.accuracy if score.name in speedups]
    scores.sort(key=lambda score: results.names.index(score.name))
    if not scores:
        return None
    title = f"Accuracy on {max(score.num_samples for score in scores):,} images, and speed-up at batch {batch}"
    figure, (left, right) = canvas(results, title, [1, 1], (_WIDTH, _FEET + 0.2 + _ROW * len(scores)))
    _draw_accuracies(left, {results.title(score.name): score for score in scores}, results.baseline)
    times = [(score.name, speedups[score.name]) for score in scores]
    bars(right, [Bar(results.title(name), value, f"{value:.2f}×", tint(name)) for name, value in times])
    right.set_yticklabels([])
    right.set_xlabel(f"throughput relative to {results.title(results.baseline)} (×)")
    return figure


def _draw_accuracies(axis: Axes, scores: dict[str, AccuracyRow], baseline: str) -> None:
    ends = []
    for place, score in zip(name_rows(axis, list(scores)), scores.values(), strict=True):
        low, high = _interval(score)
        ends += [low, high]
        error = [[max(0.0, score.top1 - low)], [max(0.0, high - score.top1)]]
        axis.errorbar(score.top1, place, xerr=error, fmt="o", color=tint(score.name), markersize=7, capsize=4)
        beside(axis, f"{score.top1:.1f}", max(high, score.top1), place, gap=8)
        if score.name == baseline:
            axis.axvline(score.top1, color=tint(baseline), linewidth=1.2, linestyle="--", zorder=0.5)
    span = max(max(ends) - min(ends), 1.0)
    axis.set_xlim(min(ends) - 0.15 * span, max(ends) + 0.3 * span)
    plain_numbers(axis.xaxis)
    axis.set_xlabel("top-1 accuracy (%), not from 0")
    axis.set_title("line: 95 % interval of the difference to FP32", fontsize=9, color=soft())


def _interval(score: AccuracyRow) -> tuple[float, float]:
    """Return the interval in which top-1 lies, from the interval of the loss against FP32."""
    if score.loss is None or score.loss_low is None or score.loss_high is None:
        return score.top1, score.top1
    reference = score.top1 + score.loss
    return reference - score.loss_high, reference - score.loss_low


def _size(results: Results) -> Figure | None:
    """Model file and peak memory in MB, by name, each its largest over the batch sizes."""
    peak = f"peak memory up to batch {max(results.batches, default=0)} (MB)"
    panels = {
        "model or engine file (MB)": _largest(results, results.names, "size_bytes", "{:,.1f}"),
        peak: _largest(results, results.residents, "peak_memory_bytes", "{:,.0f}"),
    }
    panels = {label: rows for label, rows in panels.items() if any(row.value for row in rows)}
    if not panels:
        return None
    figure, axes = canvas(results, "Size and memory", [1] * len(panels), (_WIDTH, _FEET + _ROW * len(results.names)))
    for axis, (label, rows) in zip(axes, panels.items(), strict=True):
        bars(axis, rows)
        axis.set_xlabel(label)
    for axis in axes[1:]:
        axis.set_yticklabels([])
    return figure


def _largest(results: Results, names: Sequence[str], column: str, form: str) -> list[Bar]:
    """Return a bar in megabytes for each row: the largest of `column` over the batch sizes; – except for `names`."""
    found = []
    for name in results.names:
        points = results.series(name, column) if name in names else []
        value = max((value for _, value in points), default=0) / 1e6
        found.append(Bar(results.title(name), value, form.format(value) if points else "–", tint(name)))
    return found


CHARTS: dict[str, Callable[[Results], Figure | None]] = {
    "latency_by_precision": _latency,
    "throughput_by_batch": _throughput,
    "speedup": _speedup,
    "accuracy_speedup": _accuracy,
    "size_memory": _size,
}
"""Chart name (its file's stem) → drawing function; the function returns None where its numbers were not measured."""
