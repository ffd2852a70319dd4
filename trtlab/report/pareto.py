"""Loss of accuracy against latency, a point an engine: what mixed precision trades."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from helpers.course.plots import SOFT, colour, log_ticks, plain_log_axis
from helpers.tools.files import atomic_path
from trtlab.report.chart_parts import STYLE, end_labels


def best_trades(points: pd.DataFrame) -> pd.DataFrame:
    """Return the points that no other beats in both latency (median_ms) and loss, the fastest first."""
    ordered = points.sort_values(["median_ms", "loss"])
    return ordered[ordered["loss"] < ordered["loss"].cummin().shift(fill_value=np.inf)]


def draw_pareto(path: Path, points: Sequence[Mapping[str, Any]], heading: str) -> None:
    """Draw each point with the 95 % interval of its loss, and a line through the best trades, as PNG.

    Args:
        points: name, batch, median_ms, and loss, loss_low, loss_high in points of top-1 against FP32.
        heading: the title's first lines: model, images, device.
    """
    table = pd.DataFrame(points)
    names, times, losses = table["name"], table["median_ms"], table["loss"]
    colours = [colour(name) for name in names]
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
        best = best_trades(table)
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
            figure.savefig(temporary, dpi=150, format="png")
        plt.close(figure)
