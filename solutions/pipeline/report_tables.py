"""The report's tables: rows of numbers to rows of text, one place for both reports."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from solutions.pipeline.results import Results, accuracy_table, measurement_table, pretty_name

__all__ = ["Table", "report_tables"]

SLOWEST_LAYERS = 5


@dataclass(frozen=True)
class Table:
    """A table as both reports print it: cells are text; the first `words` columns read from the left."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    note: str = ""
    words: int = 1


def report_tables(results: Results) -> list[Table]:
    """Return the tables of what was measured, in the report's order."""
    made = (table(results) for table in (_measurements, _accuracies, _checks, _builds, _layers))
    return [table for table in made if table]


_MEASUREMENT_COLUMNS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "name": ("engine", pretty_name),
    "batch": ("batch", "{:.0f}".format),
    "mean_ms": ("mean ms", "{:.2f}".format),
    "median_ms": ("median ms", "{:.2f}".format),
    "p90_ms": ("p90 ms", "{:.2f}".format),
    "p95_ms": ("p95 ms", "{:.2f}".format),
    "p99_ms": ("p99 ms", "{:.2f}".format),
    "std_ms": ("std ms", "{:.2f}".format),
    "images_per_s": ("images/s", "{:,.1f}".format),
    "speedup": ("speed-up", "{:.2f}×".format),
    "size_bytes": ("file MB", lambda value: f"{value / 1e6:.1f}"),
    "peak_memory_bytes": ("peak memory MB", lambda value: f"{value / 1e6:,.0f}"),
}
_ACCURACY_COLUMNS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "name": ("engine", pretty_name),
    "num_samples": ("images", "{:,.0f}".format),
    "top1": ("top-1 %", "{:.2f}".format),
    "top5": ("top-5 %", "{:.2f}".format),
    "loss": ("loss, points", "{:+.2f}".format),
    "loss_low": ("from", "{:+.2f}".format),
    "loss_high": ("to", "{:+.2f}".format),
    "changed": ("images judged otherwise", "{:.0f}".format),
}


def _measurements(results: Results) -> Table | None:
    if not results.rows:
        return None
    note = "Times are for one batch. Speed-up is throughput over PyTorch FP32's at the same batch, in the same run."
    return _formatted("Latency, throughput, size and memory", measurement_table(results), _MEASUREMENT_COLUMNS, note)


def _accuracies(results: Results) -> Table | None:
    if not results.accuracy:
        return None
    note = "Loss is PyTorch FP32's top-1 less this one's, in points, with its 95 % interval (same images, paired)."
    left_out = [name for name in results.names if name not in {row.name for row in results.accuracy}]
    if left_out:
        note += f" Not evaluated: {', '.join(map(pretty_name, left_out))}."
    return _formatted("Accuracy", accuracy_table(results), _ACCURACY_COLUMNS, note)


def _checks(results: Results) -> Table | None:
    if not results.checks:
        return None
    rows = [["✓" if row.passed else "✗", pretty_name(row.name), row.what, row.message] for row in results.checks]
    return Table("Checks", ["", "engine", "what was checked", "found"], rows, words=4)


def _builds(results: Results) -> Table | None:
    if not results.builds:
        return None
    rows = [
        [
            pretty_name(build.name), build.precision.upper(), build.profile, f"{build.layers}", build.layer_precisions,
            build.calibration, f"{build.seconds:.1f}",
        ]
        for build in results.builds
    ]  # fmt: skip
    columns = ["engine", "flag", "batches min–opt–max", "layers", "layers run in", "calibrated", "build s"]
    return Table("Engines", columns, rows, "Layers are counted after fusion, as the engine's inspector gives them.")


def _layers(results: Results) -> Table | None:
    if not results.layers:
        return None
    slowest = sorted(results.layers, key=lambda layer: -layer.time_ms)[:SLOWEST_LAYERS]
    rows = [
        [
            layer.layer, layer.layer_type, layer.precision, f"{layer.time_ms:.3f}", f"{layer.share_percent:.1f}",
            _or_dash(layer.intensity), layer.bound or "–", _or_dash(layer.roof_percent),
        ]
        for layer in slowest
    ]  # fmt: skip
    first = slowest[0]
    title = f"Slowest layers of {pretty_name(first.name)} at batch {first.batch}"
    columns = ["layer", "type", "precision", "ms", "share %", "FLOP/byte", "bound by", "% of roof"]
    return Table(title, columns, rows, "The roofline was measured on this machine in the same run.", words=3)


def _or_dash(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f}"


def _formatted(
    title: str, frame: pd.DataFrame, columns: dict[str, tuple[str, Callable[[Any], str]]], note: str
) -> Table:
    """Return the measured columns of `frame` as text; a column that nobody measured is left out, a gap is a dash."""
    used = {key: column for key, column in columns.items() if frame[key].notna().any()}
    rows = [
        ["–" if pd.isna(record[key]) else text(record[key]) for key, (_, text) in used.items()]
        for record in frame.to_dict("records")
    ]
    return Table(title, [header for header, _ in used.values()], rows, note)
