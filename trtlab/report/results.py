"""What a run measured: a row for each engine and batch size, and the one place that turns rows into tables."""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from helpers.course.settings import BASELINE
from trtlab.ran_in import differs, ran_text

ONNX_RUNTIME = "onnxruntime-fp32"
_ORDER = (BASELINE, "pytorch-compile", ONNX_RUNTIME, "fp32", "tf32", "bf16", "fp16", "dynamic-fp16", "int8")
_PRETTY = {
    BASELINE: "PyTorch FP32",
    "pytorch-compile": "torch.compile FP32",
    ONNX_RUNTIME: "ONNX Runtime FP32",
    "dynamic-fp16": "FP16 dynamic",
    "int8+fp16": "INT8+FP16",
}
NOT_NAMED = "not named"
"""The model or data of measurements that do not name theirs."""
_FROM = " · "
"""Between a row's name and what it is from, where two sources have a row of one name ("fp16 · NVIDIA H200")."""
_IN = ", "
"""Between an engine's name and how it ran, where that is not one batch at a time ("int8, 2 streams, graphs")."""

MOST_APART = 3.0
"""Throughput times latency gives the batches in flight, one a stream; times or parts more than this contradict it."""


@dataclass(frozen=True)
class Row:
    """Everything measured of one engine at one batch size; None where it was not measured.

    Times are milliseconds a batch, over `iterations` calls; `images_per_s` counts images (not batches), over
    `executions` batches; sizes are bytes, accuracies percent. `precision` was asked for, most layers ran in `ran_in`.
    `elsewhere` says on what the row ran where that is not what the engines ran on ("CPU, 16 threads" beside a GPU): it
    has no speed-up. `streams` shared the throughput, one where it is not known.
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
    streams: int | None = None
    size_bytes: int | None = None
    peak_memory_bytes: int | None = None
    top1: float | None = None
    top5: float | None = None
    speedup: float | None = None

    @property
    def typical_ms(self) -> float | None:
        """The median, or the mean where a short log has no median."""
        return self.median_ms or self.mean_ms

    @property
    def apart(self) -> float | None:
        """How many times throughput and latency contradict each other, above `MOST_APART`; None where they agree."""
        latency_ms = self.typical_ms
        if not latency_ms or not self.images_per_s:
            return None
        in_flight = self.images_per_s * latency_ms / (1e3 * self.batch)
        times = max(in_flight / (self.streams or 1), 1 / in_flight)
        return times if times > MOST_APART else None


@dataclass(frozen=True)
class AccuracyRow:
    """Accuracy of one engine in percent; its loss against the baseline in points, with the 95 % interval (paired).

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
    def machines(self) -> dict[str, str]:
        """The machines beside the first one: the words behind a row's name, and each machine's device."""
        return {name.partition(_FROM)[2]: where for name, where in self.visitors.items() if _FROM in name}

    @property
    def where(self) -> str:
        """The device of the results, and which rows ran on another machine."""
        return "; ".join([self.device, *(f"{words}: {where}" for words, where in self.machines.items())])

    @property
    def baseline(self) -> str:
        """The name of the rows that speed-ups and losses are against: the first run's, whose names have no mark."""
        return _baseline({row.name for row in [*self.rows, *self.accuracy]})

    @property
    def subject(self) -> str:
        """Model and data, as far as they are named."""
        named = [text for text in (self.model, self.data) if text != NOT_NAMED]
        return " on ".join(named) or "Engines"

    @property
    def heading(self) -> str:
        """The report's heading."""
        baseline = any(base_name(row.name) == BASELINE for row in self.rows)
        return f"{self.subject}: {'from PyTorch to optimised engines' if baseline or not self.rows else 'as measured'}"

    @property
    def contradictions(self) -> list[Row]:
        """The rows whose throughput and latency cannot both be right."""
        return [row for row in self.rows if row.apart]

    @property
    def residents(self) -> list[str]:
        """The names of the other rows, in the order of tables and charts."""
        return [name for name in self.names if name not in self.visitors]

    @property
    def guests(self) -> dict[str, list[str]]:
        """The heading of each axis that is not the first device's, and the names of the rows on it."""
        found: dict[str, list[str]] = {}
        for name in (name for name in self.names if name in self.visitors):
            found.setdefault(name.partition(_FROM)[2] or self.title(name), []).append(name)
        return found

    def title(self, name: str, *, bare: bool = False) -> str:
        """Return a row's name as it is printed, with what would not be expected of it: "FP16 (BF16 ran)".

        `bare` leaves out what the row is from, where an axis says it.
        """
        row = next((row for row in self.rows if row.name == name), Row(name, 1))
        said = [f"{row.ran_in.upper()} ran"] if row.ran_in and differs(row.precision, row.ran_in) else []
        said += [f"on {row.elsewhere.partition(',')[0]}"] if row.elsewhere and _FROM not in name else []
        return pretty_name(base_name(name) if bare else name) + (f" ({', '.join(said)})" if said else "")

    def row(self, name: str, batch: int) -> Row | None:
        """Return the row of `name` at `batch`, or None where it was not measured."""
        return next((row for row in self.rows if (row.name, row.batch) == (name, batch)), None)

    def of(self, name: str) -> list[Row]:
        """Return the rows of `name`, ascending by batch."""
        return sorted((row for row in self.rows if row.name == name), key=lambda row: row.batch)

    def series(self, name: str, column: str) -> list[tuple[int, float]]:
        """Return (batch, value) of one column for one name, ascending by batch, measured values only.

        Times and rates of a row that contradicts itself are left out.
        """
        rows = [row for row in self.of(name) if not (row.apart and column.endswith(("_ms", "_per_s")))]
        return [(row.batch, getattr(row, column)) for row in rows if getattr(row, column) is not None]


def order_names(names: Iterable[str]) -> list[str]:
    """Sort row names: baselines, then engines by falling precision, then unknown names by alphabet."""

    def place(name: str) -> tuple[str, int, str]:
        base, _, source = name.partition(_FROM)
        engine = base.partition(_IN)[0]
        return source, _ORDER.index(engine) if engine in _ORDER else len(_ORDER), name

    return sorted(names, key=place)


def base_name(name: str) -> str:
    """Return a row's name without what it is from: "fp16 · NVIDIA H200" → "fp16"."""
    return name.partition(_FROM)[0]


def marked(name: str, source: str) -> str:
    """Return the name that says what a row is from, behind what it already says."""
    return f"{name}{', ' if _FROM in name else _FROM}{source}"


def pretty_name(name: str) -> str:
    """Return a row's name as charts and tables print it."""
    name, mark, source = name.partition(_FROM)
    return _pretty(name) + mark + source


def _pretty(name: str) -> str:
    if _IN in name:
        engine, _, how = name.partition(_IN)
        return _pretty(engine) + _IN + how
    return _PRETTY.get(name, name.upper() if name.replace("+", "").isalnum() and len(name) <= 5 else name)


def with_speedup(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with `speedup`: throughput over the baseline's at the same batch size in the same run.

    The baseline is PyTorch, or ONNX Runtime where it alone was measured. The speed-up is None without a baseline, and
    where one of the two ran elsewhere or contradicts itself.
    """
    at_home = [row for row in rows if not row.elsewhere and row.images_per_s and not row.apart]
    baseline = _baseline({base_name(row.name) for row in rows})
    base = {_run(row): row.images_per_s for row in at_home if base_name(row.name) == baseline}
    return [
        dataclasses.replace(row, speedup=_ratio(row.images_per_s, base.get(_run(row))) if row in at_home else None)
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
        "contradictions": [
            {"name": row.name, "batch": row.batch, "apart": row.apart} for row in results.contradictions
        ],
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


def _baseline(names: set[str]) -> str:
    """Return PyTorch, or ONNX Runtime where it alone was measured."""
    return ONNX_RUNTIME if ONNX_RUNTIME in names and BASELINE not in names else BASELINE


def _run(row: Row) -> tuple[str, int]:
    """Return what two rows must share to be compared: what they are from, and the batch."""
    return row.name.partition(_FROM)[2], row.batch


def _ratio(value: float | None, base: float | None) -> float | None:
    return value / base if value is not None and base else None
