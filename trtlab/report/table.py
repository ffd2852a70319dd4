"""The measurements as tables: a row for each engine and batch, as the files have them, and one tidy table of figures.

Every row says what it is of in columns of its own:

    source      what it is from where that is not the first source: "NVIDIA H200"; else empty
    engine      its name: "int8", "pytorch-fp32"
    how         how it ran where that is not one batch at a time: "2 streams, graphs"; else empty
    device      what it ran on; `elsewhere` where that is not what the engines ran on ("CPU, 16 threads" beside a GPU),
                `machine` where it is another one than the first source's
    precision   asked for; `ran_in` is that of most layers
    batch       images; 0 for a figure of no batch, such as an accuracy
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from helpers.course.settings import BASELINE
from trtlab.ran_in import differs, ran_text
from trtlab.stats import TAILS, least_calls, times_apart

ONNX_RUNTIME = "onnxruntime-fp32"
KEY = ["source", "engine", "how"]
"""What a row is of, whatever its batch."""
WORDS = [*KEY, "device", "elsewhere", "machine", "precision", "ran_in"]
TIMES = ["mean_ms", "median_ms", "p90_ms", "p95_ms", "p99_ms", "std_ms"]
UNITS = {
    **dict.fromkeys(TIMES, "ms"),
    "images_per_s": "images/s",
    "speedup": "×",
    "size_bytes": "bytes",
    "peak_memory_bytes": "bytes",
    "top1": "%",
    "top5": "%",
    "loss": "points",
    "loss_low": "points",
    "loss_high": "points",
    "changed": "images",
}
"""Each figure with its unit. `changed` counts the images on which exactly one of engine and baseline is right."""
COUNTED_BY = {
    **dict.fromkeys(TIMES, "iterations"),
    **dict.fromkeys(["images_per_s", "speedup"], "executions"),
    **dict.fromkeys(["top1", "top5", "loss", "loss_low", "loss_high", "changed"], "num_samples"),
}
"""What each figure's n counts: calls, batches or images."""
COUNTS = ["batch", "iterations", "executions", "streams", "size_bytes", "peak_memory_bytes", "num_samples", "changed"]
MEASURED = ["iterations", *TIMES, "executions", "images_per_s", "streams", "size_bytes", "peak_memory_bytes"]
SCORES = ["top1", "top5", "num_samples", "loss", "loss_low", "loss_high", "changed"]
_ROW_NUMBERS = ["batch", *MEASURED, "top1", "top5", "speedup"]

_ORDER = (
    BASELINE,
    "pytorch-fp16",
    "torch-compile-fp32",
    ONNX_RUNTIME,
    "fp32",
    "tf32",
    "bf16",
    "fp16",
    "dynamic-fp16",
    "int8",
)
_PRETTY = {
    BASELINE: "PyTorch FP32",
    "pytorch-fp16": "PyTorch FP16",
    "torch-compile-fp32": "torch.compile FP32",
    ONNX_RUNTIME: "ONNX Runtime FP32",
    "dynamic-fp16": "FP16 dynamic",
    "int8+fp16": "INT8+FP16",
}


def pretty(engine: str) -> str:
    """Return an engine's name as charts and tables print it."""
    plain = engine.replace("+", "").isalnum() and len(engine) <= 5
    return _PRETTY.get(engine, engine.upper() if plain else engine)


def place(engine: str) -> int:
    """Return an engine's place in tables and charts: baselines, then engines by falling precision, then others."""
    return _ORDER.index(engine) if engine in _ORDER else len(_ORDER)


def measured_rows(found: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return a row for each engine and batch: WORDS, counts, figures, and what follows from them.

    `title` is what a row is called: "FP16 (BF16 ran) · NVIDIA H200". `apart` is how many times throughput and latency
    contradict each other, where they do.
    """
    rows = _frame(found, _ROW_NUMBERS)
    same = _known(rows.groupby(KEY, sort=False)[["precision", "ran_in", "elsewhere"]].transform("first"))
    said = [_said(*words) for words in zip(same.precision, same.ran_in, same.elsewhere, strict=True)]
    rows["title"] = _titles(rows, said)
    rows["ran"] = [ran_text(asked, ran_in) for asked, ran_in in zip(rows.precision, rows.ran_in, strict=True)]
    latency = rows.median_ms.fillna(rows.mean_ms)
    rows["typical_ms"] = latency
    in_flight = zip(rows.batch, latency, rows.images_per_s, rows.streams.fillna(1), strict=True)
    rows["apart"] = pd.Series([times_apart(*each) for each in in_flight], index=rows.index, dtype=float)
    return rows


def scored_rows(found: Iterable[Mapping[str, Any]], rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each engine's accuracy, called as the measured `rows` of the same engine are."""
    scores = _frame(found, SCORES)
    scores = scores.join(rows.drop_duplicates(KEY).set_index(KEY).title, on=KEY)
    return scores.assign(title=scores.title.fillna(_titles(scores)))


def tidy(rows: pd.DataFrame, scores: pd.DataFrame, device: str) -> pd.DataFrame:
    """Return the tidy table: a row for each figure, with its `value`, `n` (None where it is not known) and `unit`.

    `device` is that of rows which name none.
    """
    keys = [*WORDS, "title", "batch", "apart"]
    return pd.DataFrame(
        [
            {key: row.get(key) for key in keys}
            | {
                "device": row["device"] or row["machine"] or device,
                "figure": figure,
                "value": float(row[figure]),
                "n": row.get(COUNTED_BY.get(figure)),
                "unit": unit,
            }
            for row in [*plain(rows.drop(columns=["top1", "top5"])), *plain(scores.assign(batch=0))]
            for figure, unit in UNITS.items()
            if row.get(figure) is not None
        ],
        columns=[*keys, "figure", "value", "n", "unit"],
    ).astype({"batch": int, "apart": float, "n": "Int64"})


def plain(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as dictionaries that JSON can hold; None where nothing is known."""
    return _known(rows).to_dict("records")


def baseline_of(engines: Iterable[str]) -> str:
    """Return PyTorch, or ONNX Runtime where it alone was measured."""
    return ONNX_RUNTIME if ONNX_RUNTIME in (engines := set(engines)) and BASELINE not in engines else BASELINE


def with_speedups(found: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of one run with `speedup`: throughput over the baseline's at the same batch in the same source.

    There is none without a baseline, nor where one of the two ran elsewhere or contradicts itself.
    """
    rows = measured_rows(found)
    home = rows[rows.elsewhere.isna() & rows.apart.isna()]
    base = home[home.engine == baseline_of(rows.engine)].set_index(["source", "batch"]).images_per_s
    return plain(rows.assign(speedup=home.images_per_s / home.join(base.rename("base"), on=["source", "batch"]).base))


def without_short_tails(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row without percentiles that its calls cannot give: older files hold them all the same."""
    few = [f"p{percent}_ms" for percent in TAILS if (row.get("iterations") or 0) < least_calls(percent)]
    return {**row, **dict.fromkeys(few)}


def _frame(found: Iterable[Mapping[str, Any]], numbers: list[str]) -> pd.DataFrame:
    """Return the rows as a table in the order of charts and tables: baselines first, then by falling precision."""
    kinds = {key: "Int64" if key in COUNTS else float for key in numbers}
    frame = pd.DataFrame(list(found), columns=[*WORDS, *numbers]).astype({**dict.fromkeys(WORDS, object), **kinds})
    frame[WORDS] = _known(frame[WORDS])
    frame = frame.assign(source=frame.source.fillna(""), how=frame.how.fillna(""))
    ordered = [key for key in ("source", "place", "engine", "how", "batch") if key == "place" or key in frame]
    return frame.assign(place=frame.engine.map(place)).sort_values(ordered, ignore_index=True).drop(columns="place")


def _known(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table with None where nothing is known."""
    return frame.astype(object).where(frame.notna(), None)


def _titles(rows: pd.DataFrame, said: Sequence[str] | str = "") -> pd.Series:
    how = np.where(rows.how == "", "", ", " + rows.how)
    source = np.where(rows.source == "", "", " · " + rows.source)
    return rows.engine.map(pretty).astype(object) + how + said + source


def _said(precision: str | None, ran_in: str | None, elsewhere: str | None) -> str:
    """Return what would not be expected of an engine of this name: " (BF16 ran)"."""
    said = [f"{ran_in.upper()} ran"] if ran_in and differs(precision, ran_in) else []
    said += [f"on {elsewhere.partition(',')[0]}"] if elsewhere else []
    return f" ({', '.join(said)})" if said else ""
