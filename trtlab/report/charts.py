"""The report's charts: every axis has its unit, every heading names the device, every series is labelled directly.

Colours are those of helpers.course.plots; nothing is said by colour alone. Each machine has charts of its own. What
ran beside a machine's engines, as a baseline on the CPU beside a GPU, is in the tables alone.
"""

import io
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

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
from trtlab.report.findings import SATURATION_RULE, figures, points, saturation
from trtlab.report.results import Results

_DPI, _MOST_PIXELS = 160, 60_000
_WIDTH = 9.5
_MOST_PANELS = 3
"""Panels beside each other."""
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
    """Yield each chart with its name: a number behind it counts the machines from the second on."""
    with plt.rc_context(style):
        for name, draw in CHARTS.items():
            for number, part in enumerate(results.by_machine(), 1):
                if (figure := draw(part)) is not None:
                    try:
                        yield f"{name}-{number}" if number > 1 else name, figure
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


def _latency(results: Results) -> Figure | None:
    """One panel a batch size; bars are medians, the thin line reaches to the 99th percentile where there is one."""
    rows = results.rows[results.rows.typical_ms.notna() & results.rows.apart.isna()]
    panels = list(rows.groupby("batch"))
    if not panels:
        return None
    lines = math.ceil(len(panels) / _MOST_PANELS)
    columns = math.ceil(len(panels) / lines)
    height = _FEET + 0.2 + _ROW * rows.title.nunique()
    title = "Latency by precision and batch size: median, with a line to p99"
    figure, axes = canvas(results, title, [1] * columns, (_WIDTH, lines * height), lines)
    for place, (axis, (batch, part)) in enumerate(zip(axes, panels, strict=False)):
        _draw_latencies(axis, part)
        axis.set_title(f"batch {batch}", fontweight="bold", pad=19)  # above the line that counts
        before = panels[place - 1][1] if place % columns else None
        if before is not None and list(before.title) == list(part.title):
            axis.set_yticklabels([])
    for axis in axes[len(panels) :]:
        axis.remove()
    return figure


def _draw_latencies(axis: Axes, rows: pd.DataFrame) -> None:
    drawn = [
        Bar(row.title, row.typical_ms, figures(row.typical_ms) + " mean" * pd.isna(row.median_ms), tint(row.engine))
        for row in rows.itertuples()
    ]
    bars(axis, drawn, list(rows.p99_ms))
    calls = _counted(rows.iterations, "calls")
    axis.text(0, 1.02, calls, transform=axis.transAxes, fontsize=9, color=soft())
    axis.set_xlabel("latency (ms)")


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
    figure, (axis,) = canvas(results, "Throughput against batch size", [1], (_WIDTH + 1.5, height))
    _draw_throughput(axis, rates, results.batches)
    counts = _counted(rates.n, "executions per point")
    axis.set_title(f"ring: from here on {SATURATION_RULE} · {counts}", fontsize=9, color=soft())
    texts = [f"{wrapped(row.title)}  {row.value:,.0f}" for row in ends.itertuples()]
    end_labels(axis, points(ends), texts, list(ends.engine))
    return figure


def _draw_throughput(axis: Axes, panel: pd.DataFrame, batches: list[int]) -> None:
    axis.set_ylim(0, 1.06 * panel.value.max())
    shown: set[str] = set()
    for _, lines in panel.groupby("title", sort=False):
        engine = lines.engine.iloc[0]
        look = {"color": tint(engine), "marker": "o", "clip_on": False}
        style = "--" if engine in shown else "-"
        axis.plot(lines.batch, lines.value, markersize=4.5, linewidth=2, linestyle=style, **look)
        shown.add(engine)
        if (point := saturation(points(lines))) and point.reached:
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
    lines = results.lines("speedup")
    lines = lines[lines.engine != results.baseline]
    if lines.empty:
        return None
    base = results.title(results.baseline)
    size = (_WIDTH, 0.9 + 0.21 * (len(lines) + lines.title.nunique()))
    figure, (axis,) = canvas(results, f"Speed-up over {base} at the same batch size", [1], size)
    axis.axvline(1, color=tint(results.baseline), linewidth=1.2, linestyle="--", zorder=0.5)
    place, ticks = 0.0, {}
    for title, bars_of in lines.groupby("title", sort=False):
        ticks[title] = place - (len(bars_of) - 1) / 2
        for number, line in enumerate(bars_of.itertuples()):
            shade = 0.45 + 0.55 * (number + 1) / len(bars_of)
            axis.barh(place, line.value, color=tint(line.engine), alpha=shade, height=0.86)
            beside(axis, f"{line.value:.2f}×  batch {line.batch}", line.value, place)
            place -= 1
        place -= 0.8
    axis.set_yticks(list(ticks.values()), [wrapped(title) for title in ticks])
    axis.set_ylim(place + 0.8, 1.0)
    axis.tick_params(axis="y", length=0)
    axis.set_xlim(0, 1.22 * lines.value.max())
    axis.set_xlabel(f"throughput relative to {base} (×, dashed line = 1)")
    axis.grid(axis="x")
    return figure


def _accuracy(results: Results) -> Figure | None:
    """Top-1 beside the speed-up at the largest batch; lines are the 95 % interval of the paired difference to FP32."""
    faster = results.lines("speedup")
    faster = faster[faster.batch == faster.batch.max()]
    scores = results.accuracy.merge(faster[["title", "value", "batch"]], on="title")
    if scores.empty:
        return None
    title = f"Accuracy on {scores.num_samples.max():,} images, and speed-up at batch {scores.batch.max()}"
    figure, (left, right) = canvas(results, title, [1, 1], (_WIDTH, _FEET + 0.2 + _ROW * len(scores)))
    _draw_accuracies(left, scores, results.baseline)
    bars(right, [Bar(row.title, row.value, f"{row.value:.2f}×", tint(row.engine)) for row in scores.itertuples()])
    right.set_yticklabels([])
    right.set_xlabel(f"throughput relative to {results.title(results.baseline)} (×)")
    return figure


def _draw_accuracies(axis: Axes, scores: pd.DataFrame, baseline: str) -> None:
    reference = scores.top1 + scores.loss
    scores = scores.assign(
        low=(reference - scores.loss_high).fillna(scores.top1), high=(reference - scores.loss_low).fillna(scores.top1)
    )
    for place, score in zip(name_rows(axis, list(scores.title)), scores.itertuples(), strict=True):
        error = [[max(0.0, score.top1 - score.low)], [max(0.0, score.high - score.top1)]]
        axis.errorbar(score.top1, place, xerr=error, fmt="o", color=tint(score.engine), markersize=7, capsize=4)
        beside(axis, f"{score.top1:.1f}", max(score.high, score.top1), place, gap=8)
        if score.engine == baseline:
            axis.axvline(score.top1, color=tint(baseline), linewidth=1.2, linestyle="--", zorder=0.5)
    low, high = scores.low.min(), scores.high.max()
    span = max(high - low, 1.0)
    axis.set_xlim(low - 0.15 * span, high + 0.3 * span)
    plain_numbers(axis.xaxis)
    axis.set_xlabel("top-1 accuracy (%), not from 0")
    axis.set_title("line: 95 % interval of the difference to FP32", fontsize=9, color=soft())


def _size(results: Results) -> Figure | None:
    """Model file and peak memory in MB, by name, each its largest over the batch sizes."""
    panels = {
        "model or engine file (MB)": ("size_bytes", "{:,.1f}"),
        f"peak memory up to batch {max(results.batches, default=0)} (MB)": ("peak_memory_bytes", "{:,.0f}"),
    }
    found = {label: (lines, form) for label, (name, form) in panels.items() if len(lines := results.lines(name))}
    if not found:
        return None
    engines = results.engines
    figure, axes = canvas(results, "Size and memory", [1] * len(found), (_WIDTH, _FEET + _ROW * len(engines)))
    for axis, (label, (lines, form)) in zip(axes, found.items(), strict=True):
        largest = dict(lines.groupby("title").value.max() / 1e6)
        texts = {title: form.format(value) for title, value in largest.items()}
        drawn = [(row.title, largest.get(row.title, 0), texts.get(row.title, "–")) for row in engines.itertuples()]
        bars(axis, [Bar(*bar, tint(engine)) for bar, engine in zip(drawn, engines.engine, strict=True)])
        axis.set_xlabel(label)
    for axis in axes[1:]:
        axis.set_yticklabels([])
    return figure


CHARTS: dict[str, Callable[[Results], Figure | None]] = {
    "latency_by_precision": _latency,
    "throughput_by_batch": _throughput,
    "speedup": _speedup,
    "accuracy_speedup": _accuracy,
    "size_memory": _size,
}
"""Chart name (its file's stem) → drawing function; the function returns None where its numbers were not measured."""
