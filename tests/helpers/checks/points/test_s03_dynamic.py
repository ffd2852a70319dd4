"""The points of step 3 that judge functions alone, over many seeds: right ways keep them, wrong ones lose them."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from helpers.checks.missed import Missed
from helpers.checks.points import s03_dynamic
from helpers.checks.points.case import Case
from helpers.checks.probes.student import Student
from tests.submissions.bank import Entry, load_bank, patched_cells

SEEDS = range(200)
Rates = dict[int, float]
BANK = [entry for entry in load_bank("03_dynamic") if entry.cell == "saturation"]


def _pairs(rates: Rates) -> list[tuple[int, int]]:
    sizes = sorted(rates)
    return list(zip(sizes, sizes[1:], strict=False))


def _first(rates: Rates, small: Callable[[float, float], bool]) -> int:
    return next((batch for batch, larger in _pairs(rates) if small(rates[batch], rates[larger])), max(rates))


def _small(rates: Rates) -> list[int]:
    return [batch for batch, larger in _pairs(rates) if rates[larger] / rates[batch] < 1.1]


RIGHT: dict[str, Callable[[Rates], Any]] = {
    "ratio": lambda rates: _first(rates, lambda one, two: two / one < 1.1),
    "product": lambda rates: _first(rates, lambda one, two: two < one * 1.1),
    "share": lambda rates: _first(rates, lambda one, two: (two - one) / one < 0.1),
    "minus one": lambda rates: _first(rates, lambda one, two: two / one - 1 < 0.1),
    "percent": lambda rates: np.int64(_first(rates, lambda one, two: 100 * (two - one) / one < 10)),
    "percent of one": lambda rates: _first(rates, lambda one, two: two - one < 10 * one / 100),
}

WRONG: dict[str, Callable[[Rates], Any]] = {
    "typed in": lambda rates: 4,
    "largest": max,
    "smallest": min,
    "best": lambda rates: max(rates, key=lambda batch: rates[batch]),
    "near the best": lambda rates: _first(rates, lambda one, two: max(rates.values()) / one < 1.1),
    "no break": lambda rates: (_small(rates) or [max(rates)])[-1],
    "at most": lambda rates: _first(rates, lambda one, two: two / one <= 1.1),
    "a fall": lambda rates: _first(rates, lambda one, two: two < one),
    "nine percent": lambda rates: _first(rates, lambda one, two: two / one < 1.09),
    "eleven percent": lambda rates: _first(rates, lambda one, two: two / one < 1.11),
    "ten images": lambda rates: _first(rates, lambda one, two: two - one < 10),
    "of the larger": lambda rates: _first(rates, lambda one, two: 1 - one / two < 0.1),
    "any change": lambda rates: _first(rates, lambda one, two: abs(two / one - 1) < 0.1),
    "rounded": lambda rates: _first(rates, lambda one, two: round(100 * two / one) < 110),
    "whole images": lambda rates: _first(rates, lambda one, two: int(two) < 1.1 * int(one)),
    "as it comes": lambda rates: next(
        (b for b, larger in zip(rates, list(rates)[1:], strict=False) if rates[larger] / rates[b] < 1.1), max(rates)
    ),
    "nothing at the end": lambda rates: next(iter(_small(rates)), None),
}


@pytest.mark.parametrize("rule", RIGHT)
def test_the_rule_in_any_form_keeps_its_point_for_every_seed(rule: str) -> None:
    student = Student.in_process({"saturation_batch": RIGHT[rule]})
    for seed in SEEDS:
        assert "tables" in s03_dynamic.saturation(Case(student, seed))


@pytest.mark.parametrize("rule", WRONG)
def test_another_rule_loses_its_point_for_every_seed(rule: str) -> None:
    student = Student.in_process({"saturation_batch": WRONG[rule]})
    for seed in SEEDS:
        with pytest.raises(Missed, match="next larger one"):
            s03_dynamic.saturation(Case(student, seed))


@pytest.mark.parametrize("entry", BANK, ids=lambda entry: entry.name)
def test_the_banks_rules_are_decided_alike_for_every_seed(entry: Entry) -> None:
    code = next(
        cell.source for cell in patched_cells(entry) if cell.metadata.get("nbgrader", {}).get("grade_id") == entry.cell
    )
    for seed in SEEDS:
        exec(code, cells := {"np": np, "measured_throughput": {1: 90.0, 4: 180.0, 16: 200.0, 32: 205.0}})
        case = Case(Student.in_process({"saturation_batch": cells["saturation_batch"]}), seed)
        with pytest.raises(Missed) if "dynamic.saturation" in entry.loses else nullcontext():
            s03_dynamic.saturation(case)


def _log(draw: np.random.Generator, first_ms: float, runs_ms: list[float], seconds: float) -> dict[str, Any]:
    """Return the log of a right loop on a machine that pauses anywhere, for up to 50 ms."""
    now = 0.0
    starts, ends = [now], [now + first_ms / 1e3]
    began = now = ends[0] + draw.uniform(0, 0.05)
    while now - began < seconds or len(starts) == 1:
        starts.append(now + draw.choice([0.0, draw.uniform(0, 0.05)]))
        ends.append(starts[-1] + runs_ms[(len(starts) - 2) % len(runs_ms)] / 1e3)
        now = ends[-1] + draw.choice([0.0, draw.uniform(0, 0.05)])
    found = {"start_s": np.array(starts), "end_s": np.array(ends), "returned_s": now + draw.uniform(0, 0.05)}
    return {**found, "passed_s": now - began}


@pytest.mark.parametrize(("first_ms", "runs_ms", "seconds"), [(90.0, [60.0], 0.02), (40.0, [4.0, 5.0, 14.0], 0.25)])
def test_a_right_rate_is_accepted_however_busy_the_machine(first_ms: float, runs_ms: list, seconds: float) -> None:
    made = {"batch": 7, "seconds": seconds, "first_ms": first_ms, "runs_ms": runs_ms}
    for seed in SEEDS:
        log = _log(np.random.default_rng(seed), first_ms, runs_ms, seconds)
        runs = len(log["start_s"]) - 1
        s03_dynamic._check_rate({**log, "rate": 7 * runs / log["passed_s"]}, made)
        s03_dynamic._check_rate({**log, "rate": 7 * runs / np.sum((log["end_s"] - log["start_s"])[1:])}, made)


def _measure(run: Callable, batch: int, seconds: float) -> float:
    run()
    started, runs = time.perf_counter(), 0
    while time.perf_counter() - started < seconds or not runs:
        run()
        runs += 1
    return runs * batch / (time.perf_counter() - started)


def _all_counted(run: Callable, batch: int, seconds: float) -> float:
    started, runs = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        run()
        runs += 1
    return runs * batch / (time.perf_counter() - started)


def test_images_over_the_time_that_passed_keep_the_point() -> None:
    assert "ms a run" in s03_dynamic.rate(Case(Student.in_process({"images_per_second": _measure}), 1))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda run, batch, seconds: 9400.0,
        lambda run, batch, seconds: _measure(run, 1, seconds),
        lambda run, batch, seconds: _measure(run, batch, 1.0),
        lambda run, batch, seconds: 1 / _measure(run, batch, seconds),
        lambda run, batch, seconds: str(_measure(run, batch, seconds)) + " images/s",
        _all_counted,
    ],
    ids=["typed in", "batches", "a second", "upside down", "a text", "no warm-up"],
)
def test_other_rates_lose_the_point(wrong: Callable) -> None:
    with pytest.raises(Missed):
        s03_dynamic.rate(Case(Student.in_process({"images_per_second": wrong}), 1))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (_all_counted, r"expected images_per_second\(run, batch=1, seconds=0\) to call run\(\) once .*; found 0 calls"),
        (
            lambda run, batch, seconds: run() or batch / seconds,
            r"batch=1, seconds=0\) to run .*; found ZeroDivisionError",
        ),
    ],
    ids=["no run", "over the seconds asked for"],
)
def test_what_goes_wrong_for_no_seconds_names_them(wrong: Callable, said: str) -> None:
    with pytest.raises(Missed, match=said):
        s03_dynamic.rate(Case(Student.in_process({"images_per_second": wrong}), 1))


def test_a_number_in_place_of_the_function_is_named() -> None:
    with pytest.raises(Missed, match="is a int, not callable"):
        s03_dynamic.saturation(Case(Student.in_process({"saturation_batch": 16}), 1))
