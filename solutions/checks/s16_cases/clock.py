"""Cases of the clock department: a log of calls and a report of it, with one mistake."""

import numpy as np

from solutions.checks.s16_cases.networks import Material

_LEVEL, _LONG = 5, 6


def healthy(random: np.random.Generator, number: int) -> Material:
    """Return a case with nothing wrong: one long call, a batch of one and no warm-up are harmless.

    In case 5 of a seed a fifth of the calls take equally long, so p95 equals p99; in case 6 a few take so long that
    the mean is about twice the median.
    """
    return _case(random, (10, 0, 20, 5)[number % 4], (1, 8, 4, 32)[number % 4], number)


def _case(random: np.random.Generator, warmup: int, batch: int, number: int = 0) -> Material:
    calls = _log(random, warmup, number)
    counted = calls[warmup:]
    report = {"batch": batch, "warmup": warmup, **_figures(counted, counted[:, 2] - counted[:, 0], batch)}
    return {"department": "clock", "calls": calls, "report": report}


def _log(random: np.random.Generator, warmup: int, number: int) -> np.ndarray:
    """Return the log of consecutive calls, [calls, 3] in ms; those of a warm-up are slow."""
    calls = warmup + int(random.integers(240, 400))
    took = random.uniform(0.3, 12) * (1 + 0.6 * random.random(calls) ** 8)
    if number == _LEVEL:
        took = np.minimum(took, np.percentile(took, 80))
    took[:warmup] *= random.uniform(6, 15) * np.linspace(1, 0.5, warmup)
    if random.random() < 0.5:
        took[int(random.integers(warmup, calls))] *= random.uniform(20, 60)
    if number == _LONG:
        took[random.integers(warmup, calls, 2)] = took.min() * calls * random.uniform(0.4, 0.6)
    gaps = took.min() * random.uniform(0.01, 0.05, calls)
    started = np.concatenate([[0], np.cumsum(took + gaps)[:-1]]) + random.uniform(1, 1000)
    launched = started + took.min() * random.uniform(0.05, 0.15, calls)
    return np.round(np.stack([started, launched, started + took], axis=1), 6)


def _figures(counted: np.ndarray, took: np.ndarray, batch: int) -> dict[str, float]:
    """Return a report's figures of latencies in ms, and of the throughput of the counted calls [calls, 3]."""
    p95, p99 = np.percentile(took, (95, 99))
    found = {"mean_ms": took.mean(), "median_ms": np.median(took), "p95_ms": p95, "p99_ms": p99}
    found["images_per_second"] = 1e3 * batch * len(counted) / (counted[-1, 2] - counted[0, 0])
    return {name: float(f"{value:.5g}") for name, value in found.items()}


# the figure that each mistake changes
_PROOFS = {
    "launch_time": "mean_ms",
    "warmup_counted": "mean_ms",
    "batches_counted": "images_per_second",
    "p95_for_p99": "p99_ms",
}


def faulty(random: np.random.Generator, case: Material, cause: str, other: bool) -> tuple[Material, float]:
    """Return a case with this mistake in its report, and the right figure."""
    if cause == "warmup_counted":
        case = _case(random, int(random.choice((10, 20, 40))), case["report"]["batch"])
    if cause == "batches_counted":
        case = _case(random, case["report"]["warmup"], int(random.choice((2, 4, 8, 16, 32))))
    calls, report = case["calls"], case["report"]
    counted, batch = calls[report["warmup"] :], report["batch"]
    reported = {
        "launch_time": _figures(counted, counted[:, 1] - counted[:, 0], batch),
        "warmup_counted": _figures(counted, calls[:, 2] - calls[:, 0], batch),
        "batches_counted": _figures(counted, counted[:, 2] - counted[:, 0], 1),
        "p95_for_p99": {"p99_ms": report["p95_ms"], "p95_ms": report["p99_ms"] if other else report["p95_ms"]},
    }
    return case | {"report": report | reported[cause]}, report[_PROOFS[cause]]
