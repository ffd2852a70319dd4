"""The report's tables: rows of numbers to rows of text, one place for both reports."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from trtlab.report.findings import figures
from trtlab.report.results import Results
from trtlab.report.table import pretty
from trtlab.stats import MOST_APART, TAILS, least_calls

SLOWEST_LAYERS = 5
SIGN = "‡"


@dataclass(frozen=True)
class Table:
    """A table as both reports print it: cells are text; the first `words` columns read from the left.

    A line is drawn where the column called `group` changes.
    """

    title: str
    columns: list[str]
    rows: list[list[str]]
    note: str = ""
    words: int = 1
    group: str = ""


def report_tables(results: Results) -> list[Table]:
    """Return the tables of what was measured, in the report's order."""
    made = (table(results) for table in (_latencies, _rates, _accuracies, _checks, _builds, _layers))
    return [table for table in made if table]


Columns = dict[str, tuple[str, Callable[[Any], str]]]


_LATENCY_COLUMNS: Columns = {
    "title": ("engine", str),
    "ran": ("ran in", str),
    "batch": ("batch", "{:.0f}".format),
    "iterations": ("n calls", "{:,.0f}".format),
    "mean_ms": ("mean ms", figures),
    "median_ms": ("median ms", figures),
    "p90_ms": ("p90 ms", figures),
    "p95_ms": ("p95 ms", figures),
    "p99_ms": ("p99 ms", figures),
    "std_ms": ("std ms", figures),
}
_RATE_COLUMNS: Columns = {
    "title": ("engine", str),
    "ran": ("ran in", str),
    "batch": ("batch", "{:.0f}".format),
    "executions": ("n executions", "{:,.0f}".format),
    "images_per_s": ("images/s", "{:,.1f}".format),
    "speedup": ("speed-up", "{:.2f}×".format),
    "size_bytes": ("file MB", lambda value: f"{value / 1e6:.1f}"),
    "peak_memory_bytes": ("peak memory MB", lambda value: f"{value / 1e6:,.0f}"),
}
_ACCURACY_COLUMNS: Columns = {
    "title": ("engine", str),
    "num_samples": ("n images", "{:,.0f}".format),
    "top1": ("top-1 %", "{:.2f}".format),
    "top5": ("top-5 %", "{:.2f}".format),
    "loss": ("loss, points", "{:+.2f}".format),
    "loss_low": ("from", "{:+.2f}".format),
    "loss_high": ("to", "{:+.2f}".format),
    "changed": ("images judged otherwise", "{:.0f}".format),
}


_CHECK_COLUMNS: Columns = {
    "sign": ("", str),
    "title": ("engine", str),
    "what": ("what was checked", str),
    "message": ("found", str),
}
_BUILD_COLUMNS: Columns = {
    "title": ("engine", str),
    "precision": ("asked", str.upper),
    "profile": ("batches min–opt–max", str),
    "layers": ("layers", str),
    "layer_precisions": ("layers run in", str),
    "calibration": ("calibrated", str),
    "seconds": ("build s", "{:.1f}".format),
}
_LAYER_COLUMNS: Columns = {
    "layer": ("layer", str),
    "layer_type": ("type", str),
    "precision": ("precision", str),
    "time_ms": ("ms", "{:.3f}".format),
    "share_percent": ("share %", "{:.1f}".format),
    "intensity": ("FLOP/byte", "{:,.1f}".format),
    "bound": ("bound by", str),
    "roof_percent": ("% of roof", "{:,.1f}".format),
}


def _latencies(results: Results) -> Table | None:
    if results.rows.typical_ms.isna().all():
        return None
    needs = ", ".join(f"p{percent} {least_calls(percent)}" for percent in TAILS)
    note = f"Times are for one batch, over n calls. Calls that a percentile needs: {needs}; – where there were fewer."
    return _by_batch("Latency", results, _LATENCY_COLUMNS, note)


def _rates(results: Results) -> Table | None:
    if results.rows[["images_per_s", "size_bytes"]].isna().all(axis=None):
        return None
    base = pretty(results.baseline)
    note = f"Speed-up is throughput over {base}'s at the same batch, in the same run."
    if results.lines("speedup").empty:
        note = f"No speed-up: {base} was not measured on this device."
    if results.machines:
        note += f" {', '.join(results.machines)}: other machines, whose rows have none here."
    away = results.engines[results.engines.elsewhere.notna() & results.engines.machine.isna()]
    for row in away.itertuples():
        note += f" {pretty(row.engine)} ran on {row.elsewhere}: it has none, and its memory is the process's."
    return _by_batch("Throughput, size and memory", results, _RATE_COLUMNS, note)


def _by_batch(title: str, results: Results, columns: Columns, note: str) -> Table:
    """Return a table ordered by batch; a sign marks rows that contradict themselves."""
    rows = results.rows.sort_values("batch", kind="stable")
    rows = rows.assign(title=rows.title + rows.apart.notna().map({True: f" {SIGN}", False: ""}))
    if len(results.contradictions):
        note += f" {SIGN}: throughput and latency are more than {MOST_APART:g} times apart; measure again."
    return _formatted(title, rows, columns, note, "batch", 2)


def _accuracies(results: Results) -> Table | None:
    if results.accuracy.empty:
        return None
    base = pretty(results.baseline)
    note = f"Loss is {base}'s top-1 less this one's, in points, with its 95 % interval (same images, paired)."
    left_out = results.engines[~results.engines.title.isin(results.accuracy.title)].title
    if len(left_out):
        note += f" Not evaluated: {', '.join(left_out)}."
    return _formatted("Accuracy", results.accuracy, _ACCURACY_COLUMNS, note)


def _checks(results: Results) -> Table | None:
    rows = [{**row, "sign": "✓" if row["passed"] else "✗", "title": _title(results, row)} for row in results.checks]
    return _formatted("Checks", pd.DataFrame(rows), _CHECK_COLUMNS, "", words=4) if rows else None


def _builds(results: Results) -> Table | None:
    rows = [{**row, "title": _title(results, row)} for row in results.builds]
    note = "Layers are counted after fusion, as the engine's inspector gives them."
    return _formatted("Engines", pd.DataFrame(rows), _BUILD_COLUMNS, note) if rows else None


def _layers(results: Results) -> Table | None:
    if not results.layers:
        return None
    slowest = pd.DataFrame(results.layers, columns=[*_LAYER_COLUMNS, "engine", "batch", "executions"])
    slowest = slowest.sort_values("time_ms", ascending=False, kind="stable")[:SLOWEST_LAYERS]
    first = slowest.iloc[0]
    title = f"Slowest layers of {results.title(first.engine)} at batch {first.batch}"
    note = f"ms is the median of {first.executions:.0f} executions. " if pd.notna(first.executions) else ""
    note += "The roofline was measured on this machine in the same run."
    return _formatted(title, slowest, _LAYER_COLUMNS, note, words=3)


def _title(results: Results, row: dict[str, Any]) -> str:
    return results.title(row["engine"], row.get("source"))


def _formatted(title: str, frame: pd.DataFrame, columns: Columns, note: str, group: str = "", words: int = 1) -> Table:
    """Return the columns of `frame` as text; what was not measured is a dash."""
    rows = [
        ["–" if pd.isna(record[key]) else text(record[key]) for key, (_, text) in columns.items()]
        for record in frame.to_dict("records")
    ]
    return Table(title, [header for header, _ in columns.values()], rows, note, words, group)
