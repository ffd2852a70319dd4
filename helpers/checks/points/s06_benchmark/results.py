"""What is asked of latency.json and throughput.json: complete, in order, and fitting each other."""

import math
import statistics
from collections.abc import Iterable

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.files import rows_of
from helpers.checks.points.s06_benchmark.latency import STATISTICS
from helpers.checks.points.task import Task
from helpers.course.settings import BATCHES, ENGINES, NAMES

PROMISES = ("Three engines and PyTorch, five batch sizes",)

LITTLE, LITTLE_TOGETHER, LITTLE_PYTORCH = 2.5, 1.5, 10.0
"""How far images per second × seconds per batch / batch may be from 1, one batch at a time being in flight.

The middle of a name's five batches is judged, and the geometric mean of the three engines' middles. Both figures of a
row are taken one after the other, so that load changes both: of 30 honest tables, made on two cores on which 14 to 29
threads wanted to run, the names' middles lay between 0.46 and 1.93 and the engines' means between 0.73 and 1.30.
PyTorch's threads wait for each other where a core is taken, which costs it up to a hundred times as long.
"""

RESULTS = Task("benchmark_results", check="check_measurements")

Rows = dict[tuple[str, int], dict[str, float]]


def _rows(case: Case, file: str, numbers: tuple[str, ...]) -> Rows:
    _, rows = rows_of(case, file, numbers, "run the cell that writes it", by=("name", "batch"))
    lacking = [f"{name} at batch {batch}" for name in NAMES for batch in BATCHES if (name, batch) not in rows]
    if lacking:
        raise Missed(f"{file} with a row for each name and batch", f"no {lacking[0]}", "measure all names and batches")
    return rows


def latency_rows(case: Case, numbers: tuple[str, ...] = STATISTICS) -> Rows:
    """Return the rows of latency.json by name and batch; raise Missed where one, or one of `numbers`, is not there."""
    return _rows(case, "latency.json", numbers)


def rates(case: Case) -> dict[tuple[str, int], float]:
    """Return the images per second of throughput.json likewise."""
    return {key: row["images_per_s"] for key, row in _rows(case, "throughput.json", ("images_per_s",)).items()}


@RESULTS.point("results.latency_complete", 1, "latency.json has every engine and batch")
def latency_complete(case: Case) -> str:
    return f"{len(latency_rows(case))} rows × {len(STATISTICS)} statistics"


@RESULTS.point("results.order", 0.75, "The latencies are in order: median, p95, p99")
def order(case: Case) -> str:
    rows = latency_rows(case)
    for (name, batch), row in rows.items():
        if not (0 < row["median_ms"] <= row["p95_ms"] <= row["p99_ms"] and row["mean_ms"] > 0):
            found = ", ".join(f"{key} {row[key]:.4g}" for key in STATISTICS)
            advice = "check which percentile goes under which key"
            raise Missed(f"0 < median ≤ p95 ≤ p99 ({name} at batch {batch})", found, advice)
    return f"{len(rows)} rows"


@RESULTS.point("results.throughput_complete", 0.75, "throughput.json has every engine and batch")
def throughput_complete(case: Case) -> str:
    found = rates(case)
    for (name, batch), rate in found.items():
        if rate <= 0:
            text = f"{rate} for {name} at batch {batch}"
            raise Missed("images per second above zero", text, "run the measurement again")
    return f"{len(found)} rows"


def _in_flight(case: Case) -> dict[str, float]:
    """Return images per second × seconds per batch / batch by name: Little's law, in the middle of a name's batches."""
    rate = rates(case)
    ratios = {key: row["mean_ms"] / 1e3 / key[1] * rate[key] for key, row in latency_rows(case, ("mean_ms",)).items()}
    return {name: statistics.median(ratios[name, batch] for batch in BATCHES) for name in NAMES}


def _together(found: Iterable[float]) -> float:
    return math.exp(statistics.fmean(math.log(max(ratio, 1e-12)) for ratio in found))


@RESULTS.point("results.throughput_measured", 0.75, "The throughputs fit the latencies, and are this machine's")
def fit(case: Case) -> str:
    found = _in_flight(case)
    limits = [(name, ratio, LITTLE if name in ENGINES else LITTLE_PYTORCH) for name, ratio in found.items()]
    limits.append(("the engines together", _together(found[name] for name in ENGINES), LITTLE_TOGETHER))
    for name, ratio, limit in limits:
        if not 1 / limit < ratio < limit:
            text = f"{ratio:.3g} times the batch size for {name}, in the middle of the batches"
            advice = "check the unit of both, and that both count what one call does"
            raise Missed("images per second × seconds per batch near the batch size", text, advice)
    return f"images/s × latency / batch: {', '.join(f'{name} {ratio:.2f}' for name, ratio in found.items())}"
