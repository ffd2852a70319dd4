"""Loss of accuracy against latency, a point an engine: what mixed precision trades."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from helpers.course.plots import SOFT, colour, log_ticks, plain_log_axis
from helpers.tools.files import atomic_path
from trtlab.report.chart_parts import STYLE, end_labels

Point = Mapping[str, Any]


def best_trades(points: Sequence[Point]) -> list[Point]:
    """Return the points that no other beats in both latency (median_ms) and loss, the fastest first."""
    found: list[Point] = []
    for point in sorted(points, key=lambda each: (each["median_ms"], each["loss"])):
        if not found or point["loss"] < found[-1]["loss"]:
            found.append(point)
    return found


def draw_pareto(path: Path, points: Sequence[Point], heading: str) -> None:
    """Draw each point with the 95 % interval of its loss, and a line through the best trades, as PNG.

    Args:
        points: name, batch, median_ms, and loss, loss_low, loss_high in points of top-1 against FP32.
        heading: the title's first lines: model, images, device.
    """
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
        best = best_trades(points)
        axes.plot([p["median_ms"] for p in best], [p["loss"] for p in best], color=SOFT, linewidth=1, zorder=1)
        for point in points:
            x, y = point["median_ms"], point["loss"]
            low, high = point["loss_low"], point["loss_high"]
            axes.vlines(x, low, high, color=colour(point["name"]), linewidth=1, alpha=0.5)
            axes.plot(x, y, "o", color=colour(point["name"]), markersize=7)
        times = [point["median_ms"] for point in points]
        plain_log_axis(axes.xaxis, log_ticks(0.9 * min(times), 1.15 * max(times)))
        axes.set_xlim(0.9 * min(times), 1.25 * max(times))
        axes.set_xlabel(f"latency at batch {points[0]['batch']}, median (ms, logarithmic)")
        axes.set_ylabel("loss of top-1 against FP32 (points)")
        axes.set_title(f"{heading}\nbars: 95 % interval; line: what nothing beats in both")
        axes.grid(alpha=0.5)
        names = [point["name"] for point in points]
        end_labels(axes, [(point["median_ms"], point["loss"]) for point in points], names, names)
        with atomic_path(path) as temporary:
            figure.savefig(temporary, dpi=150, format="png")
        plt.close(figure)
