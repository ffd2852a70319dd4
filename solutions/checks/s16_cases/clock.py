"""Cases of the clock department: a log of calls and a report of it, with one mistake."""

import numpy as np

from solutions.checks.s16_cases.sealed import Fault, Material

_DIGITS = 5


def healthy(random: np.random.Generator, number: int) -> Material:
    """Return a case with nothing wrong: one call that took long, a batch of one and no warm-up are harmless."""
    return _case(random, (10, 0, 20, 5)[number % 4], (1, 8, 4, 32)[number % 4])


def _case(random: np.random.Generator, warmup: int, batch: int) -> Material:
    calls = _log(random, warmup)
    report = {"batch": batch, "warmup": warmup, **_latency(_took(calls)[warmup:])}
    report["images_per_second"] = _rate(calls, warmup, batch)
    return {"department": "clock", "calls": calls, "report": report}


def _log(random: np.random.Generator, warmup: int) -> np.ndarray:
    """Return the log of calls one after another, [calls, 3] in ms; the first ones are slow where there is a warm-up."""
    number = warmup + int(random.integers(240, 400))
    took = random.uniform(0.3, 12) * (1 + 0.6 * random.random(number) ** 8)
    took[:warmup] *= random.uniform(6, 15) * np.linspace(1, 0.5, warmup)
    if random.random() < 0.5:
        took[int(random.integers(warmup, number))] *= random.uniform(20, 60)
    gaps = took.min() * random.uniform(0.01, 0.05, number)
    started = np.concatenate([[0], np.cumsum(took + gaps)[:-1]]) + random.uniform(1, 1000)
    launched = started + took.min() * random.uniform(0.05, 0.15, number)
    return np.round(np.stack([started, launched, started + took], axis=1), 6)


def _took(calls: np.ndarray) -> np.ndarray:
    return calls[:, 2] - calls[:, 0]


def _latency(took: np.ndarray) -> dict[str, float]:
    p95, p99 = np.percentile(took, (95, 99))
    found = {"mean_ms": took.mean(), "median_ms": np.median(took), "p95_ms": p95, "p99_ms": p99}
    return {name: _rounded(value) for name, value in found.items()}


def _rate(calls: np.ndarray, warmup: int, batch: int) -> float:
    measured = calls[warmup:]
    return _rounded(1e3 * batch * len(measured) / (measured[-1, 2] - measured[0, 0]))


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _launch_time(random: np.random.Generator, case: Material, other: bool) -> float:
    calls, report = case["calls"], case["report"]
    right = report["mean_ms"]
    report |= _latency((calls[:, 1] - calls[:, 0])[report["warmup"] :])
    return right


def _warmup_counted(random: np.random.Generator, case: Material, other: bool) -> float:
    case |= _case(random, int(random.choice((10, 20, 40))), case["report"]["batch"])
    right = case["report"]["mean_ms"]
    case["report"] |= _latency(_took(case["calls"]))
    return right


def _batches_counted(random: np.random.Generator, case: Material, other: bool) -> float:
    case |= _case(random, case["report"]["warmup"], int(random.choice((2, 4, 8, 16, 32))))
    right = case["report"]["images_per_second"]
    case["report"]["images_per_second"] = _rate(case["calls"], case["report"]["warmup"], 1)
    return right


def _p95_for_p99(random: np.random.Generator, case: Material, other: bool) -> float:
    report = case["report"]
    right = report["p99_ms"]
    report |= {"p99_ms": report["p95_ms"], "p95_ms": right if other else report["p95_ms"]}
    return right


FAULTS: dict[str, Fault] = {
    "launch_time": _launch_time,
    "warmup_counted": _warmup_counted,
    "batches_counted": _batches_counted,
    "p95_for_p99": _p95_for_p99,
}
