"""Runs for step 8 that nobody has seen: measurements made up from a seed, and the report that follows from them.

Of each kind of run there is something that a wrong rule takes for something else: see `_SHAPES`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers.checks.points.s08_report.runs import Run
from helpers.course.settings import BASELINE, BATCHES, ENGINES, MODEL, NAMES, ONNX_FILE
from helpers.engine.backend import DEVICE

Series = dict[str, dict[int, float]]
_OTHERS = ("bf16", "tf32", "fp8", "int4")
_LEAST_GAIN = 1.1
"""INT8 is saturated where the next batch gives less than this times the throughput: the rule of the task."""


@dataclass(frozen=True)
class _Shape:
    """What a kind of run is: INT8's gains from batch to batch, who is fastest, and how many other names there are."""

    gains: tuple[float, ...]
    fastest: str
    others: int = 0
    known: bool = False


_SHAPES = (
    # The lab's own batches, device and model. Saturation at the second batch; the largest throughput comes later.
    _Shape((1.5, 1.08, 1.4, 1.03), "int8", known=True),
    # Saturation before a fall; PyTorch is the fastest of all, and not at its largest batch.
    _Shape((1.12, 1.3, 0.8, 1.05), BASELINE, others=1),
    # No saturation, with gains hardly above the limit: one is below a tenth of the larger batch's throughput.
    _Shape((1.3, 1.105, 1.2, 1.13), "fp16", others=2),
    # Saturated at once, then large gains.
    _Shape((1.06, 1.5, 1.4), "fp32"),
    # Six batches; saturation, then a large gain, then less and less.
    _Shape((1.6, 1.07, 1.4, 0.94, 0.9), "int8", others=1),
    # It falls at once, and rises again.
    _Shape((0.7, 0.92, 1.5, 1.14), BASELINE, others=2),
)
KINDS = len(_SHAPES)


def made_up(seed: int, kind: int) -> Run:
    """Return a run of one of the KINDS, the rest of it drawn from `seed`."""
    random, shape = np.random.default_rng([seed, kind]), _SHAPES[kind]
    names = _shuffled(random, [*NAMES, *map(str, random.choice(_OTHERS, shape.others, replace=False))])
    batches = list(BATCHES) if shape.known else _batches(random, len(shape.gains) + 1)
    rates = _rates(random, names, batches, shape)
    number = 1000 * kind + int(random.integers(1000))  # never that of another kind
    head = {"engine": f"TensorRT 10.{20 + kind}, made-up device {number}", "model": f"made-up-net-{number}"}
    if shape.known:
        head = {"engine": DEVICE, "model": MODEL}
    speeds = [_row(name, batch, images_per_s=rate) for name, row in rates.items() for batch, rate in row.items()]
    contents = {
        "latency": {**head, "rows": _latencies(random, rates)},
        "throughput": {**head, "rows": speeds},
        "accuracy": {**head, "num_samples": int(random.integers(100, 5000)), "rows": _scores(random, names, kind)},
    }
    for content in contents.values():
        content["rows"] = _mixed(random, content["rows"])
    report = _each_in_its_order(random, expected_report(**contents) | _sizes(random, names))
    return Run(**contents, files=_files(random, names, shape), report=report, figures=expected_figures(report))


def _shuffled(random: np.random.Generator, items: list[Any]) -> list[Any]:
    return [items[place] for place in random.permutation(len(items))]


def _mixed(random: np.random.Generator, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows in random order, PyTorch's neither the first name nor the last, as they stand or sorted by batch.

    Its speed-up may be left out: a loop that leaves out the first name or the last must lose another one.
    """
    while True:
        rows = _shuffled(random, rows)
        orders = rows, sorted(rows, key=lambda row: row.get("batch", 0))
        names = [list(dict.fromkeys(row["name"] for row in order)) for order in orders]
        if all(BASELINE not in (order[0], order[-1]) for order in names):
            return rows


def _each_in_its_order(random: np.random.Generator, report: dict[str, Any]) -> dict[str, Any]:
    """Return the report with the names of each table in an order of its own: numbers belong to names, not to places.

    PyTorch is neither the first nor the last, as in `_mixed`.
    """
    return {key: _reordered(random, value) if isinstance(value, dict) else value for key, value in report.items()}


def _reordered(random: np.random.Generator, table: dict[str, Any]) -> dict[str, Any]:
    while True:
        names = _shuffled(random, list(table))
        if BASELINE not in (names[0], names[-1]):
            return {name: table[name] for name in names}


def _row(name: str, batch: int, **values: float) -> dict[str, Any]:
    return {"name": name, "batch": batch, **{key: float(value) for key, value in values.items()}}


def _batches(random: np.random.Generator, number: int) -> list[int]:
    """Return batches whose order as text is another one, without the smallest and the largest that the lab has."""
    small = random.choice(range(2, 10), 2, replace=False)
    middle = 10 + random.choice(range(1, 20), number - 3, replace=False)
    return sorted(map(int, (*small, *middle, random.integers(100, 200))))


def _rates(random: np.random.Generator, names: list[str], batches: list[int], shape: _Shape) -> Series:
    """Return images/s by name and batch; gains of INT8 vary by less than they are from the limit."""
    rates = {}
    for name in names:
        gains = random.uniform(0.6, 1.7, len(batches) - 1)
        if name == shape.fastest:
            gains[-1] = random.uniform(0.8, 0.9)
        if name == "int8":
            gains = np.array(shape.gains) * random.uniform(0.998, 1.002, len(gains))
        start = 10 ** random.uniform(1, 3.5)
        rates[name] = start * np.cumprod([1.0, *gains])
    most = max(series.max() for series in rates.values())
    rates[shape.fastest] *= random.uniform(1.3, 1.6) * most / rates[shape.fastest].max()
    return {name: dict(zip(batches, map(float, rates[name]), strict=True)) for name in names}


def _latencies(random: np.random.Generator, rates: Series) -> list[dict[str, Any]]:
    """Return latency rows: the mean above or below the median, the median not what the throughput says."""
    rows = []
    for name, series in rates.items():
        for batch, rate in series.items():
            median = 1000 * batch / rate * random.uniform(1.1, 2.3)
            mean = median * random.choice([random.uniform(0.7, 0.9), random.uniform(1.1, 1.4)])
            p95, p99 = median * random.uniform(1.5, 1.8), median * random.uniform(2, 3)
            row = {"mean_ms": mean, "median_ms": median, "p95_ms": p95, "p99_ms": p99, "std_ms": median / 3}
            rows.append(_row(name, batch, **row))
    return rows


def _scores(random: np.random.Generator, names: list[str], kind: int) -> list[dict[str, Any]]:
    """Return accuracy rows; INT8 loses in every second kind of run and gains in the others."""
    exact, rows = random.uniform(55, 68), []
    for name in names:
        change = random.choice([-1, 1]) * random.uniform(0.7, 8)
        change = {"fp32": 0.0, "int8": (1 if kind % 2 else -1) * abs(change)}.get(name, change)
        top1 = float(exact + change)
        rows.append({"name": name, "top1": top1, "top5": top1 + float(random.uniform(5, 15))})
    return rows


def _sizes(random: np.random.Generator, names: list[str]) -> dict[str, dict[str, int]]:
    engines = [name for name in names if name != BASELINE]
    return {
        "sizes_bytes": {name: int(random.integers(3_000_000, 900_000_000)) for name in ("onnx", *engines)},
        "memory_bytes": {name: int(random.integers(1_000_000, 90_000_000)) for name in engines},
    }


def _files(random: np.random.Generator, names: list[str], shape: _Shape) -> dict[str, str]:
    """Return the artifact by name: the lab's own in the known run, else each under another name."""
    if shape.known:
        return {"onnx": ONNX_FILE, **ENGINES}
    engines, turn = list(ENGINES.values()), int(random.integers(1, len(ENGINES)))
    files = {name: engines[(place + turn) % len(engines)] for place, name in enumerate(ENGINES)}
    others = {name: str(random.choice(engines)) for name in names if name not in NAMES}
    return dict(_shuffled(random, [*({"onnx": str(random.choice(engines))} | files | others).items()]))


def expected_report(latency: dict[str, Any], throughput: dict[str, Any], accuracy: dict[str, Any]) -> dict[str, Any]:
    """Return report.json's content for the contents of the three files, sizes and memory apart.

    `accuracy_loss` is in percentage points of top-1 below the FP32 engine, `speedup` the ratio of throughputs to
    PyTorch FP32 at the same batch.
    """
    rates = _by_batch(throughput["rows"], "images_per_s")
    scores = {row["name"]: {"top1": row["top1"], "top5": row["top5"]} for row in accuracy["rows"]}
    return {
        "engine": latency["engine"],
        "model": latency["model"],
        "latency_ms": _by_batch(latency["rows"], "median_ms"),
        "throughput": rates,
        "speedup": {
            name: {batch: rate / rates[BASELINE][batch] for batch, rate in series.items()}
            for name, series in rates.items()
        },
        "accuracy": scores,
        "accuracy_loss": {name: scores["fp32"]["top1"] - score["top1"] for name, score in scores.items()},
    }


def _by_batch(rows: list[dict[str, Any]], key: str) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for row in sorted(rows, key=lambda row: row["batch"]):
        found.setdefault(row["name"], {})[str(row["batch"])] = row[key]
    return found


def expected_figures(report: dict[str, Any]) -> dict[str, Any]:
    """Return the key figures of a report, by the definitions of the task."""
    every = [(rate, name, int(batch)) for name, row in report["throughput"].items() for batch, rate in row.items()]
    _, name, batch = max(every)
    int8 = report["throughput"]["int8"]
    steps = zip(int8, list(int8)[1:], strict=False)
    saturated = [batch for batch, larger in steps if int8[larger] < _LEAST_GAIN * int8[batch]]
    return {
        "fastest_name": name,
        "fastest_batch": batch,
        "int8_speedup": list(report["speedup"]["int8"].values())[-1],
        "int8_top1_loss": report["accuracy_loss"]["int8"],
        "int8_saturation_batch": int(saturated[0] if saturated else list(int8)[-1]),
    }
