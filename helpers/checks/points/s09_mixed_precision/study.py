"""sensitivity and choose_groups, on functions and tables with known answers."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from helpers.checks.points.case import Case
from helpers.checks.points.pure import Answered, Raises, compare, results_of
from helpers.checks.points.task import Task
from helpers.checks.probes.answer import Notebook, probe

_COUNTED = "the number of builds and measurements: counted in the student's process"

FUNCTION, CHOICE = "sensitivity", "choose_groups"
STUDY = Task("mixed_sensitivity", check="check_sensitivity", takes=(FUNCTION,))
CHOOSE = Task("mixed_choice", check="check_choice", takes=(CHOICE,))

Groups, Errors = dict[str, list[str]], dict[str, float]
Table = dict[str, dict[str, float]]


@probe
def known_study(notebook: Notebook, *, name: str, calls: list[list[Any]], raising: bool) -> list[Answered]:
    """Answer like `results_of`; a call has groups and layers' errors, which sum to the loss unless kept."""
    return results_of({name: partial(_studied, notebook[name])}, name=name, calls=calls, raising=raising)


def _studied(study: Callable[..., Any], groups: Groups, error: Errors) -> dict[str, Any]:
    builds, measured = list[list[str]](), list[int]()

    def build(keep: Any) -> int:
        builds.append([str(name) for name in keep])
        return len(builds) - 1

    def loss(engine: int) -> float:
        measured.append(engine)
        return sum(value for name, value in error.items() if name not in builds[engine])

    return {"table": study(groups, build, loss), "builds": len(builds), "measured": sorted(measured)}


def known(case: Case) -> tuple[Groups, Errors]:
    """Return groups of one to four layers, and each layer's error. One group's name begins with another's."""
    random = case.random("mixed.study")
    names = random.permutation(["b1", "b10", "b2", "b3", "b20"]).tolist()
    groups = {name: [f"{name}.conv{index}" for index in range(random.integers(1, 5))] for name in names}
    layers = [layer for found in groups.values() for layer in found]
    return groups, dict(zip(layers, (2.0 ** -random.permutation(len(layers))).tolist(), strict=True))


def _finds(case: Case, right: dict[str, Any], advice: str) -> str:
    return compare(case, FUNCTION, [(known(case), right)], advice, through=known_study)


@STUDY.point("mixed.kept", 0.3, "kept: only this group in FP16")
def kept(case: Case) -> str:
    groups, error = known(case)
    right = {name: {"kept": sum(error.values()) - sum(map(error.get, layers))} for name, layers in groups.items()}
    return _finds(case, {"table": right}, "for `kept`, keep the layers of this group only")


@STUDY.point("mixed.alone", 0.3, "alone: only this group in INT8")
def alone(case: Case) -> str:
    groups, error = known(case)
    right = {name: {"alone": sum(map(error.get, layers))} for name, layers in groups.items()}
    return _finds(case, {"table": right}, "for `alone`, keep the layers of all other groups")


@STUDY.point("mixed.once", 0.15, "Each engine is built once and measured once", _COUNTED)
def once(case: Case) -> str:
    number = 2 * len(known(case)[0])
    return _finds(case, {"builds": number, "measured": list(range(number))}, "build two engines per group, each once")


def parts(table: Table, fp16: float, int8: float) -> dict[str, float]:
    """Return each group's share of INT8's squared drift, the mean of two estimates, largest first."""
    found = {group: ((int8**2 - row["kept"] ** 2) + (row["alone"] ** 2 - fp16**2)) / 2 for group, row in table.items()}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def chosen_of(table: Table, fp16: float, int8: float, target: float) -> list[str]:
    """Return the groups to keep for a target; all of them if it is out of reach."""
    left, chosen = int8**2, []
    for name, part in parts(table, fp16, int8).items():
        if left <= target**2:
            break
        left, chosen = left - part, [*chosen, name]
    return chosen


def _drawn(case: Case, purpose: str) -> tuple[Table, float, float]:
    """Return a table of eight groups whose two estimates differ, and the drifts of FP16 and INT8."""
    random = case.random(purpose)
    fp16, int8 = 0.002, 0.02 + 0.02 * random.random()
    shares = random.permutation([0.32, 0.2, 0.13, 0.09, 0.06, 0.04, 0.02, 0.03]) * (1 + 0.05 * random.random(8))
    added, apart = (int8**2 - fp16**2) * shares, 0.6 * (-1.0) ** np.arange(8)
    both = zip(
        np.sqrt(int8**2 - added * (1 + apart)).tolist(), np.sqrt(fp16**2 + added * (1 - apart)).tolist(), strict=True
    )
    return {f"b{number}": {"kept": one, "alone": other} for number, (one, other) in enumerate(both)}, fp16, int8


@CHOOSE.point("mixed.fewest", 0.45, "As few groups as the target needs, largest share first")
def fewest(case: Case) -> str:
    given = _drawn(case, "mixed.choice")
    left = given[2] ** 2 - np.cumsum([0, *parts(*given).values()])  # after no group, one, two, …
    targets = [math.sqrt(0.75 * left[number] + 0.25 * left[number - 1]) for number in (1, 2, 4)]
    pairs = [((*given, target), chosen_of(*given, target)) for target in targets]
    return compare(case, CHOICE, pairs, "subtract squares of drifts, largest first, until the target is met")


@CHOOSE.point("mixed.none_needed", 0.15, "No group if INT8 meets the target")
def none_needed(case: Case) -> str:
    given = _drawn(case, "mixed.enough")
    pairs = [((*given, share * given[2]), []) for share in (1.001, 1.5)]
    return compare(case, CHOICE, pairs, "compare with the target before you take a group")


@CHOOSE.point("mixed.unreachable", 0.15, "ValueError if no set of groups meets the target")
def unreachable(case: Case) -> str:
    given = _drawn(case, "mixed.unreachable")
    least = math.sqrt(given[2] ** 2 - sum(parts(*given).values()))
    pairs = [
        ((*given, 0.97 * least), Raises("ValueError")),
        ((*given, 1.001 * least), chosen_of(*given, 1.001 * least)),
    ]
    return compare(case, CHOICE, pairs, "check if the target is met once every group is taken")
