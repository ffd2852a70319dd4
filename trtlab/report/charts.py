"""The report's charts: every axis has its unit, every heading names the device, every series is labelled directly.

Colours are those of helpers.course.plots; nothing is said by colour alone. Each machine has charts of its own. What
ran beside a machine's engines, as a baseline on the CPU beside a GPU, is in the tables alone.
"""

import io
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from helpers.course.plots import SOFT, colour, log_ticks, plain_log_axis
from helpers.tools.files import atomic_path
from trtlab.report.chart_parts import (
    DARK,
    STYLE,
    bars,
    beside,
    canvas,
    end_labels,
    name_rows,
    plain_numbers,
    soft,
    tint,
    wrapped,
)
from trtlab.report.findings import SATURATION_RULE, figures, saturation
from trtlab.report.results import KEY, Results

_WIDTH = 9.5
# Panels beside each other.
_MOST_PANELS = 3
# Inches: the height of a row of bars, what stands above and below all rows, and a label of two lines.
_ROW, _FEET, _LABEL = 0.34, 1.1, 0.37


def draw_charts(results: Results, folder: str | Path) -> dict[str, Path]:
    """Draw every chart whose numbers were measured into `folder`, as PNG and SVG; return the PNGs' paths by name.

    Raises:
        InputError: the folder cannot be written to.
    """
    return {name: _save(figure, Path(folder, f"{name}.png")) for name, figure in _figures(results, STYLE)}


def dark_charts(results: Results) -> dict[str, bytes]:
    """Return the same charts for a dark ground, as PNG by name."""
    drawn = {}
    for name, figure in _figures(results, DARK):
        figure.savefig(data := io.BytesIO(), format="png")
        drawn[name] = data.getvalue()
    return drawn


def _figures(results: Results, style: dict[str, Any]) -> Iterator[tuple[str, Figure]]:
    """Yield each chart with its name: a number behind it counts the machines from the second on."""
    machines = enumerate(results.by_machine(), 1)
    with rc_context(style):
        for (name, draw), (number, part) in itertools.product(CHARTS.items(), machines):
            if figure := draw(part):
                yield f"{name}-{number}" if number > 1 else name, figure


def _save(figure: Figure, path: Path) -> Path:
    """Save the figure as PNG, then as SVG: drawing at another resolution moves what is laid out."""
    for kind in ("png", "svg"):
        with atomic_path(path.with_suffix(f".{kind}")) as temporary:
            figure.savefig(temporary, format=kind, metadata={"Date": None})
    return path


def _latency(results: Results) -> Figure | None:
    """One panel a batch size; bars are medians, the thin line reaches to the 99th percentile if there is one."""
    rows = results.rows[results.rows.typical_ms.notna() & results.rows.apart.isna()]
    if rows.empty:
        return None
    texts = rows.typical_ms.map(figures) + rows.median_ms.isna().map({True: " mean", False: ""})
    rows = rows.assign(value=rows.typical_ms, text=texts, tail=rows.p99_ms)
    engines, panels = rows.drop_duplicates(KEY), rows.groupby("batch")
    lines = math.ceil(len(panels) / _MOST_PANELS)
    columns = math.ceil(len(panels) / lines)
    height = _FEET + 0.2 + _ROW * len(engines)
    title = "Latency by precision and batch size: median, with a line to p99"
    figure, axes = canvas(results, title, (_WIDTH, lines * height), columns, lines)
    for axis, (batch, part) in zip(axes, panels, strict=False):
        bars(axis, engines, part)
        axis.set_title(f"batch {batch}", fontweight="bold", pad=19)  # above the line that counts
        axis.text(0, 1.02, _counted(part.iterations, "calls"), transform=axis.transAxes, fontsize=9, color=soft())
        axis.set_xlabel("latency (ms)")
    for axis in axes[len(panels) :]:
        axis.remove()
    return figure


def _counted(counts: pd.Series, what: str) -> str:
    """Return n of several statistics: "n = 16 to 216 calls"."""
    if counts.isna().all():
        return "n not recorded"
    return f"n = {' to '.join(dict.fromkeys((f'{counts.min():,}', f'{counts.max():,}')))} {what}"


def _throughput(results: Results) -> Figure | None:
    """Throughput against batch; a ring marks the first batch from which the next larger one gains too little."""
    rates = results.lines("images_per_s")
    if rates.empty:
        return None
    ends = rates.drop_duplicates("title", keep="last")
    height = max(4.9, 1.2 + _LABEL * len(ends))
    figure, (axis,) = canvas(results, "Throughput against batch size", (_WIDTH + 1.5, height))
    _draw_throughput(axis, rates, results.batches)
    counts = _counted(rates.n, "executions per point")
    axis.set_title(f"ring: from here on {SATURATION_RULE} · {counts}", fontsize=9, color=soft())
    texts = [f"{wrapped(row.title)}  {row.value:,.0f}" for row in ends.itertuples()]
    end_labels(axis, list(zip(ends.batch, ends.value, strict=True)), texts, list(ends.engine))
    return figure


def _draw_throughput(axis: Axes, rates: pd.DataFrame, batches: list[int]) -> None:
    """Draw a line for each title; it is dashed if it is of a later source, or ran otherwise than a batch at a time."""
    axis.set_ylim(0, 1.06 * rates.value.max())
    for (source, how, _), lines in rates.groupby([*KEY[::2], "title"], sort=False):
        look = {"color": tint(lines.engine.iloc[0]), "marker": "o", "clip_on": False}
        axis.plot(lines.batch, lines.value, "--" if source or how else "-", markersize=4.5, linewidth=2, **look)
        batch, rate, reached = saturation(lines)
        if reached:
            axis.plot(batch, rate, markersize=13, mfc="none", mew=1.8, **look)
    plain_log_axis(axis.xaxis, _batch_ticks(batches))
    axis.set_xlim(batches[0] / 1.15, batches[-1] * (1.6 if len(batches) < 3 else 1.15))
    axis.set(xlabel="batch size (images)", ylabel="throughput (images/s)")
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
    lines = results.lines("speedup")
    lines = lines[lines.engine != results.baseline].reset_index()
    if lines.empty:
        return None
    base, groups = results.title(results.baseline), lines.groupby("title", sort=False)
    size = (_WIDTH, 0.9 + 0.21 * (len(lines) + len(groups)))
    figure, (axis,) = canvas(results, f"Speed-up over {base} at the same batch size", size)
    places = lines.index + 0.8 * groups.ngroup()
    shades = 0.45 + 0.55 * (groups.cumcount() + 1) / groups.title.transform("size")
    axis.set_yticks(places.groupby(groups.ngroup()).mean(), [wrapped(title) for title in lines.title.unique()])
    axis.set_ylim(places.max() + 1, -1)
    axis.grid(axis="x")
    axis.axvline(1, color=tint(results.baseline), linewidth=1.2, linestyle="--", zorder=0.5)
    axis.barh(places, lines.value, 0.86, color=list(map(to_rgba, lines.engine.map(tint), shades)))
    texts = [f"{line.value:.2f}×  batch {line.batch}" for line in lines.itertuples()]
    beside(axis, texts, lines.value, places)
    axis.set_xlim(0, 1.22 * lines.value.max())
    axis.set_xlabel(f"throughput relative to {base} (×, dashed line = 1)")
    return figure


def _accuracy(results: Results) -> Figure | None:
    """Top-1 beside the speed-up at the largest batch; lines are the 95 % interval of the paired difference to FP32."""
    faster = results.lines("speedup")
    faster = faster[faster.batch == faster.batch.max()]
    scores = results.accuracy[results.accuracy.title.isin(faster.title)]
    if scores.empty:
        return None
    title = f"Accuracy on {scores.num_samples.max():,} images, and speed-up at batch {faster.batch.max()}"
    figure, (left, right) = canvas(results, title, (_WIDTH, _FEET + 0.2 + _ROW * len(scores)), 2)
    bars(right, scores, faster.assign(text=faster.value.map("{:.2f}×".format)))
    right.set_xlabel(f"throughput relative to {results.title(results.baseline)} (×)")
    _draw_accuracies(left, scores, results.baseline)
    return figure


def _draw_accuracies(axis: Axes, scores: pd.DataFrame, baseline: str) -> None:
    colours, places, reference = scores.engine.map(tint), range(len(scores)), scores.top1 + scores.loss
    lows, highs = ((reference - loss).fillna(scores.top1) for loss in (scores.loss_high, scores.loss_low))
    for base in scores.top1[scores.engine == baseline]:
        axis.axvline(base, color=tint(baseline), linewidth=1.2, linestyle="--", zorder=0.5)
    axis.hlines(places, lows, highs, colors=colours)
    axis.scatter([*lows, *highs], [*places, *places], marker="|", c=[*colours, *colours])
    axis.scatter(scores.top1, places, s=49, c=colours, zorder=2)
    beside(axis, scores.top1.map("{:.1f}".format), np.maximum(highs, scores.top1), places, gap=8)
    name_rows(axis, scores.title)
    span = max(highs.max() - lows.min(), 1.0)
    axis.set_xlim(lows.min() - 0.15 * span, highs.max() + 0.3 * span)
    plain_numbers(axis.xaxis)
    axis.set_xlabel("top-1 accuracy (%), not from 0")
    axis.set_title("line: 95 % interval of the difference to FP32", fontsize=9, color=soft())


def _size(results: Results) -> Figure | None:
    """Model file and peak memory in MB, by name, each its largest over the batch sizes."""
    panels = {
        "model or engine file (MB)": ("size_bytes", figures),
        f"peak memory up to batch {max(results.batches, default=0)} (MB)": ("peak_memory_bytes", "{:,.0f}".format),
    }
    found = {label: (lines, form) for label, (name, form) in panels.items() if len(lines := results.lines(name))}
    if not found:
        return None
    size = (_WIDTH, _FEET + _ROW * len(results.engines))
    figure, axes = canvas(results, "Size and memory", size, len(found))
    for axis, (label, (lines, form)) in zip(axes, found.items(), strict=True):
        largest = lines.assign(value=lines.value / 1e6).groupby([*KEY, "title"], as_index=False).value.max()
        bars(axis, results.engines, largest.assign(text=largest.value.map(form)))
        axis.set_xlabel(label)
    return figure


# Chart name (its file's stem) → drawing function; the function returns None if its numbers were not measured.
CHARTS: dict[str, Callable[[Results], Figure | None]] = {
    "latency_by_precision": _latency,
    "throughput_by_batch": _throughput,
    "speedup": _speedup,
    "accuracy_speedup": _accuracy,
    "size_memory": _size,
}


def best_trades(points: pd.DataFrame) -> pd.DataFrame:
    """Return the points that no other beats in both latency (median_ms) and loss, the fastest first."""
    ordered = points.sort_values(["median_ms", "loss"])
    return ordered[ordered["loss"] < ordered["loss"].cummin().shift(fill_value=np.inf)]


@rc_context(STYLE)
def draw_pareto(path: Path, points: Sequence[Mapping[str, Any]], heading: str) -> None:
    """Draw what mixed precision trades: loss of accuracy against latency, as PNG.

    Each point has the 95 % interval of its loss; a line leads through the best trades.

    Args:
        points: name, batch, median_ms, and loss, loss_low, loss_high in points of top-1 against FP32.
        heading: the title's first lines: model, images, device.
    """
    table = pd.DataFrame(points)
    names, times, losses = table["name"], table["median_ms"], table["loss"]
    colours, best = names.map(colour), best_trades(table)
    figure = Figure((8, 4.5), 150, layout="constrained")
    axes = figure.subplots()
    axes.plot(best["median_ms"], best["loss"], color=SOFT, linewidth=1, zorder=1)
    axes.vlines(times, table["loss_low"], table["loss_high"], color=colours, linewidth=1, alpha=0.5)
    axes.scatter(times, losses, color=colours, s=49)
    plain_log_axis(axes.xaxis, log_ticks(0.9 * times.min(), 1.15 * times.max()))
    axes.set(
        xlim=(0.9 * times.min(), 1.25 * times.max()),
        xlabel=f"latency at batch {table['batch'][0]}, median (ms, logarithmic)",
        ylabel="loss of top-1 against FP32 (points)",
        title=f"{heading}\nbars: 95 % interval; line: what nothing beats in both",
    )
    axes.grid(alpha=0.5)
    end_labels(axes, list(zip(times, losses, strict=True)), list(names), list(names))
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png")
