"""Accuracy against latency: which engines nothing beats, and what the chart shows."""

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from matplotlib.axes import Axes

from trtlab.report.pareto import best_trades, draw_pareto


def point(name: str, ms: float, loss: float) -> dict:
    return {"name": name, "median_ms": ms, "loss": loss, "loss_low": loss - 1, "loss_high": loss + 1, "batch": 8}


POINTS = [point("fp32", 8, 0), point("fp16", 2, 0.1), point("int8", 1, 3), point("mixed-2", 1.5, 0.3)]


def test_what_is_slower_and_loses_more_is_no_trade() -> None:
    worse = point("mixed-1", 1.7, 0.3)
    assert list(best_trades(pd.DataFrame([*POINTS, worse]))["name"]) == ["int8", "mixed-2", "fp16", "fp32"]


def test_the_chart_has_each_engine_where_it_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Axes] = []
    monkeypatch.setattr(plt, "close", lambda figure: drawn.extend(figure.axes))
    draw_pareto(tmp_path / "p.png", POINTS, "m.onnx on a CPU")
    (axes,) = drawn
    assert {text.get_text(): text.xy for text in axes.texts} == {p["name"]: (p["median_ms"], p["loss"]) for p in POINTS}
    assert "batch 8" in axes.get_xlabel() and "ms" in axes.get_xlabel() and "points" in axes.get_ylabel()
    assert "m.onnx on a CPU" in axes.get_title(loc="left")
    assert (tmp_path / "p.png").read_bytes()[:4] == b"\x89PNG"
