"""Claims of step 6 on latency.json and throughput.json: complete, in order, and measured on this machine."""

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from scipy import stats

from helpers.backend import ENGINE
from helpers.lab import MODEL
from helpers.memory import keep_freed_memory
from helpers.missed import Missed
from helpers.models import load_model
from helpers.points.case import Case
from helpers.probes.builds import plan_facts
from helpers.probes.networks import EDGE
from helpers.probes.student import Student
from solutions.checks.core.claim import claim
from solutions.checks.trusted.agreement import first_kept
from solutions.checks.trusted.reference import reference
from solutions.pipeline.inference import InferenceEngine

NAMES = {
    "pytorch-fp32": None,
    "fp32": "resnet50_fp32.engine",
    "fp16": "resnet50_dynamic_fp16.engine",
    "int8": "resnet50_int8.engine",
}
BATCHES = (1, 4, 8, 16, 32)
STATISTICS = ("mean_ms", "median_ms", "p95_ms", "p99_ms", "std_ms")
_MACHINE, _ROW = 10.0, 3.0
"""How far the saved figures may lie from fresh ones: all of them together (another load), and a row from the rest."""

_ROWS_SHARE, _RANK = 0.75, 0.7
_RUNS = {1: 4, 4: 2, 8: 2, 16: 1}
"""How often a batch is timed anew: few times, since the band is wide."""


_taken: "WeakKeyDictionary[Case, list[dict[tuple[str, int], float]]]" = WeakKeyDictionary()

Rows = dict[tuple[str, int], dict[str, Any]]


def _rows(student: Student, file: str, keys: tuple[str, ...]) -> Rows:
    """Return the rows by name and batch; Missed where the file does not have all twenty with numbers under `keys`."""
    content = student.artifact(file)
    if content is None:
        raise Missed(f"{file} among the artifacts", "no such file", "run the cell that writes it")
    try:
        rows = {(str(row["name"]), int(row["batch"])): row for row in json.loads(content)["rows"]}
    except (ValueError, KeyError, TypeError) as error:
        found = f"{type(error).__name__}: {error}"
        raise Missed(f'{file} to hold {{"rows": [{{"name", "batch", …}}]}}', found, "run the cell again") from error
    for name in NAMES:
        for batch in BATCHES:
            if (name, batch) not in rows:
                raise Missed(f"{file} with a row for {name} at batch {batch}", "none", "measure all names and batches")
            for key in keys:
                value = rows[name, batch].get(key)
                if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                    where = f"{file}, {name} at batch {batch}"
                    raise Missed(f"a finite number under {key} ({where})", repr(value), "write the measured figure")
    return rows


@claim("results.latency_complete", cell="benchmark_results", points=1, title="latency.json has every engine and batch")
def latency_complete(student: Student, case: Case) -> str:
    _rows(student, "latency.json", STATISTICS)
    return f"{len(NAMES)} names × {len(BATCHES)} batches × {len(STATISTICS)} statistics"


@claim("results.order", cell="benchmark_results", points=0.75, title="The latencies are in order: median, p95, p99")
def order(student: Student, case: Case) -> str:
    rows = _rows(student, "latency.json", STATISTICS)
    for (name, batch), row in rows.items():
        median, p95, p99 = (row[key] for key in ("median_ms", "p95_ms", "p99_ms"))
        if not (0 < median <= p95 <= p99 and row["mean_ms"] > 0 and row["std_ms"] >= 0):
            found = ", ".join(f"{key} {row[key]:.4g}" for key in STATISTICS)
            raise Missed(
                f"0 < median ≤ p95 ≤ p99 ({name} at batch {batch})",
                found,
                "check which percentile goes under which key",
            )
    return f"{len(rows)} rows"


@claim(
    "results.throughput_complete", cell="benchmark_results", points=0.75, title="throughput.json has every engine too"
)
def throughput_complete(student: Student, case: Case) -> str:
    rows = _rows(student, "throughput.json", ("images_per_s",))
    wrong = [f"{name} at batch {batch}: {row['images_per_s']}" for (name, batch), row in rows.items()]
    wrong = [text for text, row in zip(wrong, rows.values(), strict=True) if row["images_per_s"] <= 0]
    if wrong:
        raise Missed("images per second above zero", wrong[0], "run the measurement again")
    return f"{len(NAMES)} names × {len(BATCHES)} batches"


@claim("results.latency_measured", cell="benchmark_results", points=1, title="The latencies are this machine's")
def latency_measured(student: Student, case: Case) -> str:
    saved = {key: float(row["median_ms"]) for key, row in _rows(student, "latency.json", STATISTICS).items()}
    return _measured(student, case, saved, "a median latency (ms)")


@claim("results.throughput_measured", cell="benchmark_results", points=0.75, title="The throughputs are this machine's")
def throughput_measured(student: Student, case: Case) -> str:
    rows = _rows(student, "throughput.json", ("images_per_s",))
    saved = {key: key[1] * 1e3 / max(float(row["images_per_s"]), 1e-9) for key, row in rows.items()}
    return _measured(student, case, saved, "a time for one batch (batch / images per second, in ms)")


def _measured(student: Student, case: Case, saved: dict[tuple[str, int], float], what: str) -> str:
    """Compare saved times in ms with fresh ones of the same engines, at three of the batches.

    The band is wide on purpose: the machine may have been busy then or now. It holds out figures in another unit,
    numbers typed by hand, rows that were mixed up, and one engine measured under every name.
    """

    def judge(fresh: dict[tuple[str, int], float]) -> str:
        logs = np.array([math.log(max(saved[key], 1e-12) / fresh[key]) for key in fresh])
        middle = float(np.median(logs))
        if not abs(middle) <= math.log(_MACHINE):
            key = next(iter(fresh))
            found = f"{saved[key]:.4g} for {key[0]} at batch {key[1]}, {math.exp(middle):.3g} times in general"
            raise Missed(f"{what} near {fresh[key]:.4g}", found, "check the unit, and measure on this machine")
        share = float(np.mean(np.abs(logs - middle) <= math.log(_ROW)))
        rank = float(
            stats.spearmanr(np.array([saved[key] for key in fresh]) + _tie_break(fresh), list(fresh.values()))[0]
        )
        if share < _ROWS_SHARE or not rank >= _RANK:
            key = max(fresh, key=lambda key: abs(math.log(max(saved[key], 1e-12) / fresh[key]) - middle))
            found = f"{saved[key]:.4g} for {key[0]} at batch {key[1]}; {share:.0%} of the rows fit (rank {rank:.2f})"
            raise Missed(f"{what} near {fresh[key]:.4g}", found, "measure each engine at each batch, and write that")
        _own_engines(saved, fresh)
        return (
            f"{share:.0%} of {len(fresh)} rows fit fresh measurements, which are {math.exp(-middle):.2f} times as long"
        )

    return first_kept(lambda attempt: _fresh(student, case, attempt), judge)


def _tie_break(fresh: dict[tuple[str, int], float]) -> np.ndarray:
    """Return noise far below any time, so that equal figures have a rank (and one that means nothing)."""
    return np.random.default_rng(0).uniform(0, 1e-9, len(fresh))


def _own_engines(saved: dict[tuple[str, int], float], fresh: dict[tuple[str, int], float]) -> None:
    """Raise Missed where INT8 is clearly faster than FP32 now, and hardly was in the saved figures."""

    def gain(times: dict[tuple[str, int], float]) -> float:
        batches = sorted({batch for _, batch in times})
        return math.exp(np.mean([math.log(times["fp32", batch] / times["int8", batch]) for batch in batches]))

    now, then = gain(fresh), gain(saved)
    if now >= 1.5 and then < now**0.3:
        expected = f"INT8 about {now:.1f} times as fast as FP32"
        raise Missed(expected, f"{then:.2f} times", "measure each engine under its own name")


def _fresh(student: Student, case: Case, attempt: int) -> dict[tuple[str, int], float]:
    """Return ms by name and batch of the engines that the submission measured, and of PyTorch; kept for both claims."""
    kept = _taken.setdefault(case, [])
    if attempt == len(kept):
        batches = (1, int(case.random("results.batches").choice((4, 8))), 16)
        kept.append(dict(_measure(student, case, batches)))
    return kept[attempt]


def _measure(student: Student, case: Case, batches: tuple[int, ...]) -> Iterator[tuple[tuple[str, int], float]]:
    for name in NAMES:
        with _model(student, case, name) as run:
            for batch in batches:
                images = np.random.default_rng(batch).standard_normal((batch, 3, EDGE, EDGE), dtype=np.float32)
                run(images)
                yield (name, batch), float(np.median([_ms(run, images) for _ in range(_RUNS[batch])]))


def _ms(run: Callable[[np.ndarray], Any], images: np.ndarray) -> float:
    start = time.perf_counter()
    run(images)
    return (time.perf_counter() - start) * 1e3


@contextmanager
def _model(student: Student, case: Case, name: str) -> Iterator[Callable[[np.ndarray], Any]]:
    file = NAMES[name]
    if file is None:
        yield _pytorch()
        return
    own = student.artifact(file)
    usable = own is not None and plan_facts(own) is not None
    with InferenceEngine(own if usable else reference().path(file)) as engine:
        yield engine.infer


def _pytorch() -> Callable[[np.ndarray], Any]:
    import torch

    device = "cuda" if ENGINE == "tensorrt" else "cpu"
    keep_freed_memory()
    model = load_model(MODEL).to(device)

    def run(images: np.ndarray) -> Any:
        with torch.no_grad():
            return model(torch.from_numpy(images).to(device)).cpu()

    return run
