"""What is asked of profile_layers(context, run, runs=50, warmup=5) and slowest(times, number)."""

from statistics import median
from typing import Any

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.point import Point, Reported, point
from helpers.checks.points.s12_layer_profiling.probes import (
    PROFILE,
    SLOWEST,
    Profile,
    Profiled,
    profile_known,
    rank_layers,
)

_COUNTED = Reported("how often run is called: counted in the student's process")

RUNS, WARM_UP = 50, 5
_EXACT = 1e-9
_COLD = 50.0
"""Times as long that the runs of a warm-up take here: each that counts moves a median of few runs."""

Run = list[list[Any]]


def _runs(case: Case, purpose: str, number: int, layers: int = 7) -> list[Run]:
    """Return what `number` runs report; each layer's times are skewed, so that its mean is not its median."""
    random = case.random(purpose)
    names = [f"/block{index}/conv/Conv + /block{index}/relu/Relu" for index in random.permutation(layers)]
    base = random.uniform(0.02, 0.5, layers)
    return [
        [[name, float(ms * (1 + random.exponential(0.5)))] for name, ms in zip(names, base, strict=True)]
        for _ in range(number)
    ]


def _cold(runs: list[Run]) -> list[Run]:
    return [[[name, _COLD * ms] for name, ms in run] for run in runs]


def _expected(runs: list[Run]) -> Run:
    """Return the medians of the sums by name, in the order of the first report."""
    order = dict.fromkeys(name for run in runs for name, _ in run)
    return [[name, median(sum(ms for other, ms in run if other == name) for run in runs)] for name in order]


def agree(found: Profile, expected: Run, what: str, advice: str) -> str:
    """Return evidence where the two name the same layers in the same order with the same times; else raise Missed."""
    names, right = list(found), [name for name, _ in expected]
    if names != right:
        given = "in another order" if sorted(names) == sorted(right) else f"{len(names)} layers, not {len(right)}"
        raise Missed(f"{what}: the layers {', '.join(right)[:90]} …, in this order", given, advice)
    for (name, ms), (_, truth) in zip(found.items(), expected, strict=True):
        if not isinstance(ms, float) or not abs(ms - truth) <= _EXACT * truth + 1e-12:
            raise Missed(f"{what}: {truth:.6g} ms for {name}", ms if isinstance(ms, str) else f"{ms:.6g} ms", advice)
    return f"{what}: {len(right)} layers"


def _profiled(case: Case, reported: list[Run], **options: int) -> Profiled:
    return case.call(profile_known, reported=reported, options=options).require(PROFILE)


@point("Each layer has the median of its times")
def medians(case: Case) -> str:
    said = []
    for number in (9, 10):
        reported = _runs(case, f"profile.medians.{number}", number)
        advice = "collect each layer's time run by run, and take the median of them, in milliseconds as reported"
        found = _profiled(case, reported, runs=number, warmup=0)
        said.append(agree(found["times"], _expected(reported), f"{number} runs", advice))
    return "; ".join(said)


@point("A warm-up does not count, and the runs are as many as asked for", _COUNTED)
def counted(case: Case) -> str:
    said = []
    for options in ({"runs": 3, "warmup": 4}, {"runs": 1, "warmup": 0}, {}):
        runs, warmup = options.get("runs", RUNS), options.get("warmup", WARM_UP)
        reported = _runs(case, f"profile.counted.{runs}", warmup + runs)
        reported = _cold(reported[:warmup]) + reported[warmup:]
        found = _profiled(case, reported, **options)
        if found["runs"] != warmup + runs:
            expected = f"{warmup} + {runs} calls of run()"
            raise Missed(expected, f"{found['runs']} calls", "call run() `warmup` times, then `runs` times")
        advice = "what the warm-up reports must not be among the times"
        said.append(agree(found["times"], _expected(reported[warmup:]), f"{warmup} + {runs} runs", advice))
    return "; ".join(said)


@point("A name that comes twice is added up, one that is missing counts as 0, and silence is an error")
def names(case: Case) -> str:
    reported = _runs(case, "profile.names", 5)
    copies = case.random("profile.copies").uniform(0.01, 0.1, (5, 2))
    for run, (first, second) in zip(reported, copies, strict=True):
        run.insert(2, ["Reformatting CopyNode for Input Tensor 0", float(first)])
        run.append(["Reformatting CopyNode for Input Tensor 0", float(second)])
    for run in reported[:2]:
        run.append(["a shape that only some runs compute", 0.3])
    reported[3].append(["a shape that only some runs compute", 0.2])
    reported[1].append(["a shape that one run computes", 0.1])
    advice = "add up what a name reports within a run; a run without it has 0 for it"
    said = agree(_profiled(case, reported, runs=5, warmup=0)["times"], _expected(reported), "names", advice)
    silent = case.call(profile_known, reported=[[]], options={"runs": 2, "warmup": 1})
    if silent.error is None or silent.error["type"] != "ValueError":
        found = "no exception" if silent.error is None else silent.error["type"]
        raise Missed("ValueError where no layer reports a time", found, "an empty profile would pass for a fast engine")
    return said


@point("The slowest layers come first, with their share of the whole")
def ranked(case: Case) -> str:
    random = case.random("profile.ranked")
    values = random.permutation(np.linspace(0.05, 2.0, 9)) * random.uniform(0.5, 2)
    times = [[f"layer {index}", float(ms)] for index, ms in enumerate(values)]
    for number in (3, 50):
        rows = case.call(rank_layers, times=times, number=number).require(SLOWEST)
        right = sorted(times, key=lambda row: -row[1])[:number]
        if [row[:1] for row in rows] != [row[:1] for row in right]:
            given = ", ".join(str(*row[:1]) for row in rows[:4]) or "nothing"
            raise Missed(f"the {len(right)} slowest of nine, slowest first", given, "sort by the time, largest first")
        for (name, ms), row in zip(right, rows, strict=True):
            percent = 100 * ms / values.sum()
            numbers = [value for value in row[1:] if not isinstance(value, str)]
            if len(row) != 3 or len(numbers) != 2 or not np.allclose(numbers, [ms, percent], rtol=1e-9):
                expected = f"({name!r}, {ms:.4g}, {percent:.4g})"
                raise Missed(expected, f"{row}", "the share is that of the sum of all layers, in percent")
    return "three of nine, and nine where fifty are asked for"


POINTS: tuple[Point, ...] = (medians, counted, names, ranked)
