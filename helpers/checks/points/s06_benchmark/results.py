"""The points of latency.json and throughput.json: they are complete, and fit each other."""

import statistics

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.files import rows_of
from helpers.checks.points.s06_benchmark.latency import STATISTICS
from helpers.checks.points.task import Task
from helpers.course.settings import BATCHES, ENGINES, NAMES

PROMISES = ("Three engines and PyTorch, five batch sizes",)

_LITTLE, _LITTLE_PYTORCH = 2.5, 10.0
"""How far images per second × seconds per batch / batch may be from 1, as the median of a name's five batches.

The two figures of a row are measured one after the other, so load changes both: in 30 honest tables, made on two cores
with 14 to 29 competing threads, the medians were between 0.46 and 1.93. PyTorch's threads wait for each other if a core
is taken, which can take a hundred times as long.
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
    """Return the rows of latency.json by name and batch; raise Missed if a row or one of `numbers` is missing."""
    return _rows(case, "latency.json", numbers)


def rates(case: Case) -> dict[tuple[str, int], float]:
    """Return the images per second of throughput.json in the same way."""
    return {key: row["images_per_s"] for key, row in _rows(case, "throughput.json", ("images_per_s",)).items()}


@RESULTS.point("results.latency_complete", 1, "latency.json has every engine and batch")
def latency_complete(case: Case) -> str:
    return f"{len(latency_rows(case))} rows × {len(STATISTICS)} statistics"


@RESULTS.point("results.throughput_complete", 0.75, "throughput.json has every engine and batch")
def throughput_complete(case: Case) -> str:
    return f"{len(rates(case))} rows"


def _in_flight(case: Case) -> dict[str, float]:
    """Return images per second × seconds per batch / batch (Little's law) by name, the median of its batches."""
    rate = rates(case)
    ratios = {key: row["mean_ms"] / 1e3 / key[1] * rate[key] for key, row in latency_rows(case, ("mean_ms",)).items()}
    return {name: statistics.median(ratios[name, batch] for batch in BATCHES) for name in NAMES}


@RESULTS.point("results.throughput_measured", 1, "The throughputs fit the latencies and this machine")
def fit(case: Case) -> str:
    found = _in_flight(case)
    for name, ratio in found.items():
        limit = _LITTLE if name in ENGINES else _LITTLE_PYTORCH
        if not 1 / limit < ratio < limit:
            text = f"{ratio:.3g} times the batch size for {name}, as the median of the batches"
            advice = "check the units, and that both measure the same call"
            raise Missed("images per second × seconds per batch near the batch size", text, advice)
    return f"images/s × latency / batch: {', '.join(f'{name} {ratio:.2f}' for name, ratio in found.items())}"
