"""What contradicts itself is measured again: an engine whose throughput and latency cannot both be right.

Which of the two was disturbed cannot be told from the numbers, so both are taken again, once; what contradicts itself
still is marked in the report.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trtlab.stats import times_apart
from trtlab.timing.bench import BenchOptions, Throughput, bench, measure_throughput
from trtlab.timing.runners import Runner


def measure_again(
    runners: Sequence[Runner],
    latencies: Sequence[Mapping[str, Any]],
    rates: Sequence[Throughput],
    options: BenchOptions,
    *,
    seconds: float,
    progress: Callable[[str], None] = lambda text: None,
) -> list[dict[str, Any]]:
    """Return the rows of throughput.json; one that was measured again has its new times as well.

    Args:
        latencies: the rows of latency.json.
        options: how latency was measured; its batch sizes are not used.
        seconds: how long throughput was measured, of each runner at each batch size.
    """
    medians = {(row["name"], row["batch"]): row["median_ms"] for row in latencies}
    rows = {(rate.name, rate.batch): dataclasses.asdict(rate) for rate in rates}
    wrong = [
        place
        for place, rate in rows.items()
        if place in medians and times_apart(place[1], medians[place], rate["images_per_s"])
    ]
    for batch in sorted({batch for _, batch in wrong}):
        again = [runner for runner in runners if (runner.name, batch) in wrong]
        progress(f"batch {batch}: {', '.join(runner.name for runner in again)} again, times contradict throughput")
        timed = bench(again, dataclasses.replace(options, batch_sizes=(batch,)))
        counted = measure_throughput(again, [batch], seconds=seconds, progress=progress)
        for result, rate in zip(timed, counted, strict=True):
            rows[rate.name, batch] = {**_times(result.row()), **dataclasses.asdict(rate)}
    return list(rows.values())


def _times(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what latency.json says of the times; size and memory stay as they were measured."""
    return {key: value for key, value in row.items() if key.endswith("_ms") or key == "iterations"}
