"""What a run measured: a row for each engine and batch size, and the one place that turns rows into tables."""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from helpers.lab import BASELINE
from solutions.pipeline.ran_in import differs, ran_text

__all__ = [
    "BASELINE",
    "AccuracyRow",
    "BuildRow",
    "CheckRow",
    "LayerRow",
    "Results",
    "Row",
    "accuracy_table",
    "measurement_table",
    "order_names",
    "pretty_name",
    "summary",
    "with_speedup",
]

_ORDER = (BASELINE, "pytorch-compile", "onnxruntime-fp32", "fp32", "tf32", "bf16", "fp16", "dynamic-fp16", "int8")
_PRETTY = {
    BASELINE: "PyTorch FP32",
    "pytorch-compile": "torch.compile FP32",
    "onnxruntime-fp32": "ONNX Runtime FP32",
    "dynamic-fp16": "FP16 dynamic",
    "int8+fp16": "INT8+FP16",
}


@dataclass(frozen=True)
class Row:
    """Everything measured of one engine at one batch size; None where it was not measured.

    Times are milliseconds a batch, over `iterations` calls; `images_per_s` counts images (not batches), over
    `executions` batches; sizes are bytes, accuracies percent. `precision` was asked for, most layers ran in `ran_in`.
    `elsewhere` says on what the row ran where that is not what the engines ran on ("CPU, 16 threads" beside a GPU): it
    has no speed-up.
    """

    name: str
    batch: int
    precision: str | None = None
    ran_in: str | None = None
    device: str | None = None
    elsewhere: str | None = None
    iterations: int | None = None
    mean_ms: float | None = None
    median_ms: float | None = None
    p90_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    std_ms: float | None = None
    executions: int | None = None
    images_per_s: float | None = None
    size_bytes: int | None = None
    peak_memory_bytes: int | None = None
    top1: float | None = None
    top5: float | None = None
    speedup: float | None = None


@dataclass(frozen=True)
class AccuracyRow:
    """Accuracy of one engine in percent; its loss against PyTorch FP32 in points, with the 95 % interval (paired).

    `changed` counts the images on which exactly one of the two is right.
    """

    name: str
    top1: float
    top5: float
    num_samples: int
    loss: float | None = None
    loss_low: float | None = None
    loss_high: float | None = None
    changed: int | None = None


@dataclass(frozen=True)
class CheckRow:
    """One check of an engine: `value` against `limit` in `unit`, and what that means in words."""

    name: str
    what: str
    passed: bool
    value: float | None = None
    limit: float | None = None
    message: str = ""


@dataclass(frozen=True)
class LayerRow:
    """One layer of the engine `name` that was profiled at `batch`; `bound` is "compute", "memory" or None.

    `time_ms` is the median of `executions`.
    """

    name: str
    batch: int
    layer: str
    layer_type: str
    precision: str
    time_ms: float
    share_percent: float
    intensity: float | None = None
    bound: str | None = None
    roof_percent: float | None = None
    executions: int | None = None


@dataclass(frozen=True)
class BuildRow:
    """How one engine was built, in the words of a table."""

    name: str
    precision: str
    profile: str
    layers: int
    layer_precisions: str
    calibration: str
    seconds: float


@dataclass(frozen=True)
class Results:
    """One run: which engine on which device, which model and data, the rows and what is missing.

    `measured` is the date, or the first and the last; `versions` those of everything that took part.
    """

    engine: dict[str, str]
    model: str
    data: str
    rows: list[Row]
    accuracy: list[AccuracyRow] = field(default_factory=list)
    checks: list[CheckRow] = field(default_factory=list)
    layers: list[LayerRow] = field(default_factory=list)
    builds: list[BuildRow] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    measured: str | None = None

    @property
    def device(self) -> str:
        """The string that every table and chart shows."""
        return self.engine["device"]

    @property
    def names(self) -> list[str]:
        """Row names in the order of tables and charts: baselines first, then by falling precision."""
        return order_names({row.name for row in self.rows})

    @property
    def batches(self) -> list[int]:
        """Measured batch sizes, ascending."""
        return sorted({row.batch for row in self.rows})

    @property
    def visitors(self) -> dict[str, str]:
        """Names of the rows that ran elsewhere, each with what it ran on."""
        return {row.name: row.elsewhere for row in self.rows if row.elsewhere}

    @property
    def residents(self) -> list[str]:
        """The names of the other rows, in the order of tables and charts."""
        return [name for name in self.names if name not in self.visitors]

    def title(self, name: str) -> str:
        """Return a row's name as it is printed, with what would not be expected of it: "FP16 (BF16 ran)"."""
        row = next((row for row in self.rows if row.name == name), Row(name, 1))
        said = [f"{row.ran_in.upper()} ran"] if row.ran_in and differs(row.precision, row.ran_in) else []
        said += [f"on {row.elsewhere.partition(',')[0]}"] if row.elsewhere else []
        return pretty_name(name) + (f" ({', '.join(said)})" if said else "")

    def row(self, name: str, batch: int) -> Row | None:
        """Return the row of `name` at `batch`, or None where it was not measured."""
        return next((row for row in self.rows if (row.name, row.batch) == (name, batch)), None)

    def of(self, name: str) -> list[Row]:
        """Return the rows of `name`, ascending by batch."""
        return sorted((row for row in self.rows if row.name == name), key=lambda row: row.batch)

    def series(self, name: str, column: str) -> list[tuple[int, float]]:
        """Return (batch, value) of one column for one name, ascending by batch, measured values only."""
        return [(row.batch, getattr(row, column)) for row in self.of(name) if getattr(row, column) is not None]


def order_names(names: Iterable[str]) -> list[str]:
    """Sort row names: baselines, then engines by falling precision, then unknown names by alphabet."""
    return sorted(names, key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name))


def pretty_name(name: str) -> str:
    """Return a row's name as charts and tables print it."""
    return _PRETTY.get(name, name.upper() if name.replace("+", "").isalnum() and len(name) <= 5 else name)


def with_speedup(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with `speedup`: throughput over the baseline's at the same batch size in the same run.

    It is None without a baseline, and where one of the two ran elsewhere.
    """
    at_home = [row for row in rows if not row.elsewhere and row.images_per_s]
    base = {row.batch: row.images_per_s for row in at_home if row.name == BASELINE}
    return [
        dataclasses.replace(row, speedup=_ratio(row.images_per_s, base.get(row.batch)) if row in at_home else None)
        for row in rows
    ]


def summary(results: Results, files: dict[str, str]) -> dict[str, Any]:
    """Return the content of summary.json; `files` maps a file's role to its path inside the results folder."""
    return {
        "engine": results.engine,
        "model": results.model,
        "data": results.data,
        "measured": results.measured,
        "versions": results.versions,
        "rows": [dataclasses.asdict(row) for row in results.rows],
        "accuracy": [dataclasses.asdict(row) for row in results.accuracy],
        "checks": [dataclasses.asdict(row) for row in results.checks],
        "builds": [dataclasses.asdict(row) for row in results.builds],
        "settings": results.settings,
        "not_measured": results.missing,
        "files": files,
    }


def measurement_table(results: Results) -> pd.DataFrame:
    """Return the rows as a table with named units, ordered by batch and name; absent values are NaN."""
    frame = pd.DataFrame(
        [{**dataclasses.asdict(row), "ran": ran_text(row.precision, row.ran_in)} for row in results.rows]
    )
    frame["order"] = frame["name"].map({name: place for place, name in enumerate(results.names)})
    frame = frame.sort_values(["batch", "order"]).drop(columns="order").reset_index(drop=True)
    numbers = frame.columns.drop(["name", "precision", "ran_in", "ran", "device", "elsewhere"])
    frame[numbers] = frame[numbers].apply(pd.to_numeric)
    return frame


def accuracy_table(results: Results) -> pd.DataFrame:
    """Return the accuracies as a table, in the order of the charts."""
    frame = pd.DataFrame([dataclasses.asdict(row) for row in results.accuracy])
    if frame.empty:
        return frame
    places = {name: place for place, name in enumerate(order_names(frame["name"]))}
    return frame.sort_values("name", key=lambda names: names.map(places)).reset_index(drop=True)


def _ratio(value: float | None, base: float | None) -> float | None:
    return value / base if value is not None and base else None
