"""Visible checks of step 6: the benchmark functions on models of known timing, and the files that they fill."""

import json
import math
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from helpers.feedback.checklist import Checklist, visible_check
from helpers.missed import Missed
from helpers.probes.capture import captured, time_limit
from helpers.probes.timed import TimedModel

__all__ = ["check_latency", "check_measurements", "check_throughput"]

Benchmark = Callable[..., Any]
Statistic = Callable[[dict[str, float], list[float]], str]
_ATTEMPTS = 3
_KEYS = ("mean_ms", "median_ms", "p95_ms", "p99_ms", "std_ms")
_NAMES, _BATCHES = ("pytorch-fp32", "fp32", "fp16", "int8"), (1, 4, 8, 16, 32)
_UNEVEN_MS = [2.0 + 0.02 * (7 * index % 46) for index in range(46)] + [6.0, 6.0, 6.0, 12.0]
_SECONDS, _LIMIT_S = 0.4, 8.0


def _images(batch: int) -> np.ndarray:
    return np.zeros((batch, 3, 224, 224), np.float32)


def _settled(run: Callable[[], Any], point: Callable[[Any], str], runs: list[Any] | None = None) -> str:
    """Run and judge up to three times: another program may have disturbed the first. `runs` are those already made."""
    runs = [] if runs is None else runs
    for attempt in range(_ATTEMPTS):
        if attempt == len(runs):
            with captured():
                runs.append(run())
        try:
            return point(runs[attempt])
        except Missed:
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


@visible_check("06_benchmark", "Latency")
def check_latency(check: Checklist, benchmark_latency: Benchmark) -> None:
    """Check benchmark_latency's statistics, counts, unit, warm-up and waits on models that know their own timing."""

    def measure() -> tuple[TimedModel, dict[str, float]]:
        model = TimedModel(_UNEVEN_MS)
        with time_limit(_LIMIT_S):
            return model, benchmark_latency(model, _images(2), num_iterations=100, warmup=4)

    model, found = check.call("benchmark_latency measures a model of known timing", measure)
    check.require("it returns the five statistics", lambda: _five(found))
    check.require("the model runs warmup + num_iterations times", lambda: _count(len(model.latencies_ms()), 104))
    check.verify("every call gets input_data", lambda: _batch(model, 2))
    check.verify("milliseconds", lambda: _unit(found, model.latencies_ms(100)))
    runs = [(model, found)]
    points: dict[str, Statistic] = {
        "the mean is the latencies' own": _mean,
        "half of the latencies lie below the median": lambda f, t: _share(f, t, "median_ms", 0.50),
        "95 % of the latencies lie below p95": lambda f, t: _share(f, t, "p95_ms", 0.95),
        "99 % of the latencies lie below p99": lambda f, t: _share(f, t, "p99_ms", 0.99),
        "the standard deviation is that of the latencies": _spread,
    }
    for title, point in points.items():
        check.verify(title, partial(_settled, measure, partial(_statistic, point), runs))
    check.verify("the warm-up is left out", lambda: _settled(lambda: _slow_start(benchmark_latency), _left_out))
    check.verify("every time ends with a wait", lambda: _settled(lambda: _asynchronous(benchmark_latency), _waited))


def _statistic(point: Statistic, run: tuple[TimedModel, dict[str, float]]) -> str:
    model, found = run
    return point(found, model.latencies_ms(100))


def _five(found: Any) -> str:
    if not isinstance(found, dict):
        raise Missed("a dictionary", f"a {type(found).__name__}", "return the five statistics by their names")
    wrong = [key for key in _KEYS if not _is_number(found.get(key))]
    if wrong:
        raise Missed(f"a number under {', '.join(_KEYS)}", f"none under {', '.join(wrong)}", "mind the names")
    return ", ".join(f"{key} {found[key]:.2f}" for key in _KEYS)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and math.isfinite(value)


def _count(found: int, expected: int) -> str:
    if found != expected:
        raise Missed(f"{expected} calls", f"{found}", "warmup calls without the clock, then num_iterations with it")
    return f"{found} calls"


def _unit(found: dict[str, float], times: list[float]) -> str:
    middle = statistics.median(times)
    if not middle / 3 < found["median_ms"] < middle * 3:
        hint = "time.perf_counter counts seconds"
        raise Missed(f"a median near {middle:.1f} (ms)", f"{found['median_ms']:.3g}", hint)
    return f"{found['median_ms']:.2f} ms"


def _near(what: str, found: float, expected: float, hint: str) -> str:
    if not abs(found - expected) <= 0.02 * expected:
        raise Missed(f"{expected:.2f} ms, from the model's own log", f"{what} {found:.2f} ms", hint)
    return f"{found:.2f} ms"


def _mean(found: dict[str, float], times: list[float]) -> str:
    return _near("a mean of", found["mean_ms"], statistics.fmean(times), "all latencies, no others")


def _spread(found: dict[str, float], times: list[float]) -> str:
    return _near("std", found["std_ms"], statistics.pstdev(times), "of the latencies, not of their mean")


def _share(found: dict[str, float], times: list[float], key: str, share: float) -> str:
    """Check a percentile by its meaning: that share of the latencies, give or take one of them, is no longer."""
    slack = 1.5 / len(times)
    below, reached = (sum(time <= found[key] * factor for time in times) / len(times) for factor in (0.98, 1.02))
    if not (below <= share + slack and reached >= share - slack):
        hint = f"sort them in your mind: {share:.0%} come before it"
        raise Missed(
            f"{share:.0%} of the latencies up to {key}", f"{reached:.0%} of them up to {found[key]:.2f} ms", hint
        )
    return f"{found[key]:.2f} ms"


def _slow_start(benchmark_latency: Benchmark) -> tuple[TimedModel, dict[str, float]]:
    model = TimedModel([2.0], first_ms=[40.0] * 3)
    return model, benchmark_latency(model, _images(1), num_iterations=20, warmup=3)


def _left_out(measured: tuple[TimedModel, dict[str, float]]) -> str:
    model, found = measured
    expected = statistics.fmean(model.latencies_ms()[3:] or [0.0])
    if not found["mean_ms"] < 1.5 * expected:
        text = f"a mean near {expected:.1f} ms: only the first three calls of this model are slow"
        raise Missed(text, f"{found['mean_ms']:.1f} ms", "start your list of times after the warm-up")
    return f"mean {found['mean_ms']:.2f} ms after three calls of 40 ms"


def _asynchronous(benchmark_latency: Benchmark) -> tuple[TimedModel, dict[str, float]]:
    model = TimedModel([3.0], asynchronous=True)
    return model, benchmark_latency(model, _images(1), num_iterations=20, warmup=3)


def _waited(measured: tuple[TimedModel, dict[str, float]]) -> str:
    model, found = measured
    hint = "the call returns while the work is still under way; what waits for it?"
    if model.log()["waits"].count(3) == 0:
        raise Missed("a wait between the warm-up and the first timed call", "none", hint)
    times = model.latencies_ms(20)
    expected = statistics.fmean(times)
    if math.isnan(expected) or not 0.9 * expected < found["mean_ms"] < 1.1 * expected:
        truth = "3 ms or more" if math.isnan(expected) else f"{expected:.2f} ms"
        raise Missed(f"a mean of {truth} on an asynchronous model", f"{found['mean_ms']:.3f} ms", hint)
    return f"mean {found['mean_ms']:.2f} ms on a model whose calls return at once"


@visible_check("06_benchmark", "Throughput")
def check_throughput(check: Checklist, benchmark_throughput: Benchmark) -> None:
    """Check that benchmark_throughput counts finished images, for as long as asked, without the first executions."""

    def measure(seconds: float = _SECONDS, **model: Any) -> tuple[TimedModel, float]:
        timed = TimedModel(**{"durations_ms": [4.0, 4.0, 4.0, 8.0], **model})
        with time_limit(_LIMIT_S):
            found = benchmark_throughput(timed, 6, duration_sec=seconds)
        return timed, found["images_per_s"] if isinstance(found, dict) else found

    model, found = check.call("benchmark_throughput measures a model of known timing", measure)
    check.require("it returns a number", lambda: _number(found))
    check.require("the model gets batches of batch_size", lambda: _batch(model, 6))
    check.verify("images, not batches, per second", lambda: _settled(measure, lambda got: _rate(*got)))
    check.verify("it measures for duration_sec", lambda: _lasts(lambda: measure()[0], lambda: measure(2 * _SECONDS)[0]))
    slow = {"durations_ms": [4.0], "first_ms": [160.0]}
    check.verify(
        "the first executions do not count", lambda: _settled(lambda: measure(**slow), lambda got: _rate(*got, skip=1))
    )
    queued = {"durations_ms": [4.0], "asynchronous": True, "queue": 30}
    check.verify("only finished work counts", lambda: _settled(lambda: measure(**queued), _finished))


def _number(found: Any) -> str:
    if not _is_number(found):
        raise Missed("images per second", f"{found!r}", "return images / seconds")
    return f"{found:.0f} images/s"


def _batch(model: TimedModel, batch: int) -> str:
    shapes = model.log()["shapes"]
    if not shapes or shapes[-1] != [batch, 3, 224, 224]:
        found = f"{shapes[-1]}" if shapes else "no call"
        raise Missed(f"inputs of shape [{batch}, 3, 224, 224]", found, "look at what you hand to the model")
    return f"{len(shapes)} calls"


def _rate(model: TimedModel, found: float, skip: int = 0, done: str = "end_s") -> str:
    """Check the rate against the model's log; up to half of the calls may have been a warm-up."""
    images, log = model.log()["images"], model.log()
    rates = [sum(images[first:]) / (log[done][-1] - log["start_s"][first]) for first in range(skip, len(images) // 2)]
    slack = 0.03 + 1 / len(images)
    if not rates or not min(rates) * (1 - slack) <= found <= max(rates) * (1 + slack):
        truth = f"{min(rates):.0f} to {max(rates):.0f} images/s" if rates else "a rate over many calls"
        raise Missed(truth, f"{found:.0f}", "all images over all seconds between the warm-up's end and the last result")
    return f"{found:.0f} images/s"


def _lasts(short: Callable[[], TimedModel], long: Callable[[], TimedModel]) -> str:
    def point(spans: list[float]) -> str:
        text = f"{spans[0]:.2f} s and {spans[1]:.2f} s"
        if spans[0] < 0.9 * _SECONDS or not 0.7 * _SECONDS < spans[1] - spans[0] < 1.4 * _SECONDS:
            hint = "go on until duration_sec seconds have passed"
            raise Missed(f"{_SECONDS:g} s and {2 * _SECONDS:g} s, as asked for", text, hint)
        return text

    def span(model: TimedModel) -> float:
        log = model.log()
        return float(log["end_s"][-1] - log["start_s"][0])

    return _settled(lambda: [span(short()), span(long())], point)


def _finished(measured: tuple[TimedModel, float]) -> str:
    model, found = measured
    log = model.log()
    if len(log["images"]) not in log["waits"]:
        hint = "what waits for the work of the last calls?"
        raise Missed("a wait after the last call of an asynchronous model", "none", hint)
    return _rate(model, found, done="waited_s")


@visible_check("06_benchmark", "Measurements")
def check_measurements(check: Checklist, latency_path: str | Path, throughput_path: str | Path) -> None:
    """Check that both files have every engine at every batch, and that latency and throughput fit each other."""
    files: dict[str, dict[tuple[str, int], dict[str, Any]]] = {}

    def read(path: str | Path, keys: tuple[str, ...]) -> str:
        files[keys[0]] = _rows(Path(path), keys)
        return f"{len(files[keys[0]])} rows"

    check.require("latency.json is complete", lambda: read(latency_path, _KEYS))
    check.require("throughput.json is complete", lambda: read(throughput_path, ("images_per_s",)))
    latency, throughput = files["mean_ms"], files["images_per_s"]
    check.verify("median ≤ p95 ≤ p99 in every row", lambda: _ordered(latency))
    check.verify("latency and throughput fit each other", lambda: _fit(latency, throughput))


def _rows(path: Path, keys: tuple[str, ...]) -> dict[tuple[str, int], dict[str, Any]]:
    try:
        rows = {(row["name"], row["batch"]): row for row in json.loads(path.read_text())["rows"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Missed(
            f"rows in {path.name}", f"{type(error).__name__}: {error}", "run the cell that writes it"
        ) from error
    for row in ((name, batch) for name in _NAMES for batch in _BATCHES):
        missing = [key for key in keys if not _is_number(rows.get(row, {}).get(key))]
        if missing:
            raise Missed(f"{', '.join(missing)} for {row[0]} at batch {row[1]}", "none", "measure all of them")
    return rows


def _ordered(rows: dict[tuple[str, int], dict[str, Any]]) -> str:
    for (name, batch), row in rows.items():
        if not 0 < row["median_ms"] <= row["p95_ms"] <= row["p99_ms"]:
            figures = ", ".join(f"{key} {row[key]:.3g}" for key in _KEYS)
            raise Missed(f"0 < median ≤ p95 ≤ p99 for {name} at batch {batch}", figures, "see check_latency")
    return f"{len(rows)} rows"


def _fit(latency: dict[tuple[str, int], dict[str, Any]], throughput: dict[tuple[str, int], dict[str, Any]]) -> str:
    """One execution at a time: images per second times seconds per batch is about the batch, in most rows."""
    ratios = {key: throughput[key]["images_per_s"] * row["mean_ms"] / 1e3 / key[1] for key, row in _known(latency)}
    far = [key for key, ratio in ratios.items() if not 1 / 3 < ratio < 3]
    if len(far) > len(ratios) / 4:
        name, batch = far[0]
        found = f"{ratios[far[0]] * batch:.3g} for {name} at batch {batch}, and {len(far) - 1} rows more"
        raise Missed("images per second × seconds per batch near the batch size", found, "check both units")
    return f"images/s × latency / batch: median {statistics.median(ratios.values()):.2f}"


def _known(rows: dict[tuple[str, int], dict[str, Any]]) -> Iterator[tuple[tuple[str, int], dict[str, Any]]]:
    return ((key, row) for key, row in rows.items() if key[0] in _NAMES and key[1] in _BATCHES)
