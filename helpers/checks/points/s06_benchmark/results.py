"""What is asked of latency.json and throughput.json: complete, in order, and fitting each other."""

import math
import statistics
from collections.abc import Iterable
from typing import Any

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.files import json_of
from helpers.checks.points.point import point
from helpers.checks.points.s06_benchmark.latency import STATISTICS
from helpers.course.settings import BATCHES, ENGINES, NAMES

PROMISES = ("Three engines and PyTorch, five batch sizes",)

LITTLE, LITTLE_TOGETHER, LITTLE_PYTORCH = 2.5, 1.5, 10.0
"""How far images per second × seconds per batch / batch may be from 1, one batch at a time being in flight.

The middle of a name's five batches is judged, and the geometric mean of the three engines' middles. Both figures of a
row are taken one after the other, so that load changes both: of 30 honest tables, made on two cores on which 14 to 29
threads wanted to run, the names' middles lay between 0.46 and 1.93 and the engines' means between 0.73 and 1.30.
PyTorch's threads wait for each other where a core is taken, which costs it up to a hundred times as long.
"""

Rows = dict[tuple[str, int], dict[str, float]]


def latency_rows(case: Case, keys: tuple[str, ...] = STATISTICS) -> Rows:
    """Return the rows of latency.json by name and batch; raise Missed where one, or one of `keys`, is not there."""
    return _rows(case, "latency.json", keys)


def throughput_rows(case: Case) -> Rows:
    """Return the rows of throughput.json likewise."""
    return _rows(case, "throughput.json", ("images_per_s",))


def _rows(case: Case, file: str, keys: tuple[str, ...]) -> Rows:
    read = json_of(case, file, "run the cell that writes it")
    try:
        rows = {(str(row["name"]), int(row["batch"])): row for row in read["rows"]}
    except (ValueError, KeyError, TypeError) as error:
        found = f"{type(error).__name__}: {error}"
        raise Missed(f'{file} to hold {{"rows": [{{"name", "batch", …}}]}}', found, "run the cell again") from error
    return {
        (name, batch): _numbers(rows.get((name, batch)), keys, f"{file}, {name} at batch {batch}")
        for name in NAMES
        for batch in BATCHES
    }


def _numbers(row: Any, keys: tuple[str, ...], where: str) -> dict[str, float]:
    if not isinstance(row, dict):
        raise Missed(f"a row ({where})", "none", "measure all names and batches")
    return {key: _number(row.get(key), key, where) for key in keys}


def _number(value: Any, key: str, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        advice = "look at what your function returns for this batch"
        raise Missed(f"a finite number under {key} ({where})", repr(value), advice)
    return float(value)


@point("latency.json has every engine and batch")
def latency_complete(case: Case) -> str:
    return f"{len(latency_rows(case))} rows × {len(STATISTICS)} statistics"


@point("The latencies are in order: median, p95, p99")
def order(case: Case) -> str:
    rows = latency_rows(case)
    for (name, batch), row in rows.items():
        if not (0 < row["median_ms"] <= row["p95_ms"] <= row["p99_ms"] and row["mean_ms"] > 0 and row["std_ms"] >= 0):
            found = ", ".join(f"{key} {row[key]:.4g}" for key in STATISTICS)
            advice = "check which percentile goes under which key"
            raise Missed(f"0 < median ≤ p95 ≤ p99 ({name} at batch {batch})", found, advice)
    return f"{len(rows)} rows"


@point("throughput.json has every engine and batch")
def throughput_complete(case: Case) -> str:
    rows = throughput_rows(case)
    for (name, batch), row in rows.items():
        if row["images_per_s"] <= 0:
            found = f"{row['images_per_s']} for {name} at batch {batch}"
            raise Missed("images per second above zero", found, "run the measurement again")
    return f"{len(rows)} rows"


def in_flight(case: Case) -> dict[str, float]:
    """Return images per second × seconds per batch / batch by name: Little's law, in the middle of a name's batches."""
    latency, throughput = latency_rows(case, ("mean_ms",)), throughput_rows(case)
    ratios = {key: row["mean_ms"] / 1e3 / key[1] * throughput[key]["images_per_s"] for key, row in latency.items()}
    return {name: statistics.median(ratios[name, batch] for batch in BATCHES) for name in NAMES}


def together(found: dict[str, float], names: Iterable[str]) -> float:
    """Return the geometric mean of what `in_flight` found for `names`."""
    return math.exp(statistics.fmean(math.log(max(found[name], 1e-12)) for name in names))


@point("Latency and throughput fit each other")
def fit(case: Case) -> str:
    found = in_flight(case)
    limits = [(name, batches, LITTLE if name in ENGINES else LITTLE_PYTORCH) for name, batches in found.items()]
    limits.append(("the engines together", together(found, ENGINES), LITTLE_TOGETHER))
    for name, batches, limit in limits:
        if not 1 / limit < batches < limit:
            text = f"{batches:.3g} times the batch size for {name}, in the middle of the batches"
            advice = "check the unit of both, and that both count what one call does"
            raise Missed("images per second × seconds per batch near the batch size", text, advice)
    return f"images/s × latency / batch: {', '.join(f'{name} {batches:.2f}' for name, batches in found.items())}"


POINTS = (latency_complete, order, throughput_complete)
