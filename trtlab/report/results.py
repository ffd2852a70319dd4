"""One set of results: which engine on which device, which model and data, the measurements, and what is missing.

The measurements are a row for each engine and batch, as the files have them, and one tidy table of figures.
Every row says what it is of in columns of its own:

    source      what it is from where that is not the first source: "NVIDIA H200"; else empty
    engine      its name: "int8", "pytorch-fp32"
    how         how it ran where that is not one batch at a time: "2 streams, graphs"; else empty
    device      what it ran on; `elsewhere` if that is not what the engines ran on ("CPU, 16 threads" beside a GPU),
                `machine` where it is another one than the first source's
    precision   asked for; `ran_in` is that of most layers
    batch       images; 0 for a figure of no batch, such as an accuracy
"""

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from helpers.course.settings import BASELINE
from trtlab.ran_in import differs, ran_text
from trtlab.stats import times_apart

ONNX_RUNTIME = "onnxruntime-fp32"
# What a row is of, whatever its batch.
KEY = ["source", "engine", "how"]
WORDS = [*KEY, "device", "elsewhere", "machine", "precision", "ran_in"]
TIMES = ["mean_ms", "median_ms", "p90_ms", "p95_ms", "p99_ms", "std_ms"]
# Each figure with its unit. `changed` counts the images on which exactly one of engine and baseline is right.
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
# What each figure's n counts: calls, batches or images.
COUNTED_BY = {
    **dict.fromkeys(TIMES, "iterations"),
    **dict.fromkeys(["images_per_s", "speedup"], "executions"),
    **dict.fromkeys(["top1", "top5", "loss", "loss_low", "loss_high", "changed"], "num_samples"),
}
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
# The model or data of measurements that do not name theirs.
NOT_NAMED = "not named"
# How an engine was built, in the words of a table.
BUILD = ("precision", "profile", "layers", "layer_precisions", "calibration", "seconds")


@dataclass(frozen=True)
class Results:
    """What was measured.

    `found` and `scored` are rows as the files have them, a row for each engine and batch, and one for each accuracy.
    A check has `engine`, `what`, `passed`, `value`, `limit`, `message`; a layer those of profile.json; a build how the
    engine was built, in the words of a table. All of these may say their `source`.
    `measured` is the date, or the first and the last; `versions` those of everything that took part.
    """

    engine: dict[str, str]
    model: str
    data: str
    found: list[dict[str, Any]]
    scored: list[dict[str, Any]] = field(default_factory=list)
    checks: list[dict[str, Any]] = field(default_factory=list)
    layers: list[dict[str, Any]] = field(default_factory=list)
    builds: list[dict[str, Any]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    measured: str | None = None

    @functools.cached_property
    def rows(self) -> pd.DataFrame:
        """A row for each engine and batch, with its accuracy, in the order of charts (`measured_rows`)."""
        scores = {_key(row): {key: row.get(key) for key in ("top1", "top5")} for row in self.scored}
        return measured_rows({**row, **scores.get(_key(row), {})} for row in self.found)

    @functools.cached_property
    def accuracy(self) -> pd.DataFrame:
        """A row for each engine's accuracy, in the order of charts, called as its measured rows are."""
        scores = _frame(({**row, "batch": 0} for row in self.scored), ["batch", *SCORES])
        scores = scores.join(self.engines.set_index(KEY).title, on=KEY)
        return scores.assign(title=scores.title.fillna(_titles(scores)))

    @functools.cached_property
    def table(self) -> pd.DataFrame:
        """The tidy table: a row for each figure, with its `value`, `n` (None if it is not known) and `unit`."""
        keys = [*WORDS, "title", "batch", "apart"]
        return pd.DataFrame(
            [
                {key: row.get(key) for key in keys}
                | {
                    "device": row["device"] or row["machine"] or self.device,
                    "figure": figure,
                    "value": float(row[figure]),
                    "n": row.get(COUNTED_BY.get(figure)),
                    "unit": unit,
                }
                for row in [*plain(self.rows.drop(columns=["top1", "top5"])), *plain(self.accuracy)]
                for figure, unit in UNITS.items()
                if row.get(figure) is not None
            ],
            columns=[*keys, "figure", "value", "n", "unit"],
        ).astype({"batch": int, "apart": float, "n": "Int64"})

    @property
    def device(self) -> str:
        """The string that every table and chart shows."""
        return self.engine["device"]

    @property
    def engines(self) -> pd.DataFrame:
        """The first row of each engine."""
        return self.rows.drop_duplicates(KEY)

    @property
    def batches(self) -> list[int]:
        """Measured batch sizes, ascending."""
        return sorted(set(self.rows.batch))

    @property
    def machines(self) -> dict[str, str]:
        """The machines beside the first one: the words that name each as a source, and its device."""
        others = self.engines[self.engines.machine.notna()]
        return dict(zip(others.source, others.machine, strict=True))

    @property
    def where(self) -> str:
        """The device of the results, and which rows ran on another machine."""
        return "; ".join([self.device, *(f"{words}: {where}" for words, where in self.machines.items())])

    @property
    def baseline(self) -> str:
        """The engine that speed-ups and losses are against: the first source's."""
        return baseline_of(row["engine"] for row in [*self.found, *self.scored] if not row.get("source"))

    @property
    def models(self) -> str | None:
        """The models of the first machine's engines where they are several: no engine is the better of two then."""
        return self.settings.get("models")

    @property
    def subject(self) -> str:
        """Model and data, as far as they are named."""
        named = [text for text in (self.model, self.data) if text != NOT_NAMED]
        return " on ".join(named) or "Engines"

    def by_machine(self) -> list["Results"]:
        """Return the results of each machine alone: the first one's, without what ran beside it, then the others'."""
        alone = [row for row in self.found if not row.get("elsewhere")]
        here = [row for row in alone if not row.get("machine")]
        scored = [row for row in self.scored if row.get("source") not in self.machines]
        parts = [dataclasses.replace(self, found=here, scored=scored)]
        for source, device in self.machines.items():
            found = [{**row, "source": "", "machine": None} for row in alone if row.get("source") == source]
            parts.append(dataclasses.replace(self, engine={**self.engine, "device": device}, found=found, scored=[]))
        return parts

    def title(self, engine: str, source: str | None = "") -> str:
        """Return an engine as it is printed, with what would not be expected of it: "FP16 (BF16 ran)"."""
        same = self.engines[(self.engines[KEY] == [source or "", engine, ""]).all(axis=1)]
        return same.title.iloc[0] if len(same) else pretty(engine) + (f" · {source}" if source else "")

    def lines(self, figure: str) -> pd.DataFrame:
        """Return the lines of one figure; without times and rates that contradict each other."""
        lines = self.table[self.table.figure == figure]
        return lines[lines.apart.isna()] if figure.endswith(("_ms", "_per_s")) else lines


def _key(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row.get("source") or "", row["engine"], row.get("how") or ""


def summary(results: Results, files: dict[str, str]) -> dict[str, Any]:
    """Return the content of summary.json; `files` maps a file's role to its path inside the results folder."""
    of = ["source", "name", "how"]
    ran = ["precision", "ran_in", "device", "elsewhere", "machine"]
    rows, scores = (frame.rename(columns={"engine": "name"}) for frame in (results.rows, results.accuracy))
    return {
        "engine": results.engine,
        "model": results.model,
        "data": results.data,
        "measured": results.measured,
        "versions": results.versions,
        "rows": plain(
            rows[
                [
                    *of,
                    "batch",
                    *ran,
                    *MEASURED,
                    "top1",
                    "top5",
                    "speedup",
                ]
            ]
        ),
        "accuracy": plain(scores[["source", "name", *SCORES]]),
        "checks": [_named(check, "what", "passed", "value", "limit", "message") for check in results.checks],
        "builds": [_named(build, *BUILD) for build in results.builds],
        "settings": results.settings,
        "not_measured": results.missing,
        "contradictions": plain(rows[rows.apart.notna()][[*of, "batch", "apart"]]),
        "files": files,
    }


def _named(record: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Return a record as the files have it, where an engine is called `name`."""
    return {"source": record.get("source", ""), "name": record["engine"], **{key: record.get(key) for key in keys}}


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
    rows["typical_ms"] = rows.median_ms.fillna(rows.mean_ms)
    in_flight = zip(rows.batch, rows.typical_ms, rows.images_per_s, rows.streams.fillna(1), strict=True)
    rows["apart"] = pd.Series([times_apart(*each) for each in in_flight], index=rows.index, dtype=float)
    return rows


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


def _frame(found: Iterable[Mapping[str, Any]], numbers: list[str]) -> pd.DataFrame:
    """Return the rows as a table in the order of charts and tables: baselines first, then by falling precision."""
    kinds = {key: "Int64" if key in COUNTS else float for key in numbers}
    frame = pd.DataFrame(list(found), columns=[*WORDS, *numbers]).astype({**dict.fromkeys(WORDS, object), **kinds})
    frame[WORDS] = _known(frame[WORDS])
    frame = frame.assign(source=frame.source.fillna(""), how=frame.how.fillna(""), place=frame.engine.map(place))
    return frame.sort_values(["source", "place", "engine", "how", "batch"], ignore_index=True).drop(columns="place")


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
