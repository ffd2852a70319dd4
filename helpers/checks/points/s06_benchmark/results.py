"""What is asked of latency.json and throughput.json: complete, and fitting each other."""

import statistics

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.files import rows_of
from helpers.checks.points.s06_benchmark.latency import STATISTICS
from helpers.checks.points.task import Task
from helpers.course.settings import BATCHES, ENGINES, NAMES

PROMISES = ("Three engines and PyTorch, five batch sizes",)

_LITTLE, _LITTLE_PYTORCH = 2.5, 10.0
"""How far images per second × seconds per batch / batch may be from 1 in the middle of a name's five batches.

Both figures of a row are taken one after the other, so that load changes both: in 30 honest tables, made on two cores
for which 14 to 29 threads competed, the middles lay between 0.46 and 1.93. PyTorch's threads wait for each other where
a core is taken, which costs it up to a hundred times as long.
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


@RESULTS.point("results.throughput_complete", 0.75, "throughput.json has every engine and batch")
def throughput_complete(case: Case) -> str:
    return f"{len(rates(case))} rows"


def _in_flight(case: Case) -> dict[str, float]:
    """Return images per second × seconds per batch / batch by name: Little's law, in the middle of a name's batches."""
    rate = rates(case)
    ratios = {key: row["mean_ms"] / 1e3 / key[1] * rate[key] for key, row in latency_rows(case, ("mean_ms",)).items()}
    return {name: statistics.median(ratios[name, batch] for batch in BATCHES) for name in NAMES}


@RESULTS.point("results.throughput_measured", 1, "The throughputs fit the latencies, and are this machine's")
def fit(case: Case) -> str:
    found = _in_flight(case)
    for name, ratio in found.items():
        limit = _LITTLE if name in ENGINES else _LITTLE_PYTORCH
        if not 1 / limit < ratio < limit:
            text = f"{ratio:.3g} times the batch size for {name}, in the middle of the batches"
            advice = "check the unit of both, and that both count what one call does"
            raise Missed("images per second × seconds per batch near the batch size", text, advice)
    return f"images/s × latency / batch: {', '.join(f'{name} {ratio:.2f}' for name, ratio in found.items())}"
