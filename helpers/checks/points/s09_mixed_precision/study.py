"""sensitivity and choose_groups on functions and tables whose answers are known."""

import itertools
import math
from typing import Any, TypedDict

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.point import Reported, point
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.frames import said

_COUNTED = Reported("how often its functions build and measure: counted in the student's process")

FUNCTION, CHOICE = "sensitivity", "choose_groups"
_FLOAT = 1e-9


class Studied(TypedDict):
    """What `study_known` answers."""

    table: dict[str, dict[str, float]] | None
    builds: list[list[str]]
    losses: list[int]
    kind: str


class Chosen(TypedDict):
    """What `choose_known` answers."""

    chosen: list[str] | None
    raised: str | None
    message: str


@probe
def study_known(notebook: Notebook, *, groups: dict[str, list[str]], error: dict[str, float]) -> Studied:
    """Call sensitivity with builds whose loss is the sum of the errors of the layers that are not kept.

    Returns `table` as {group: {direction: loss}}, None where it is no such dictionary; `builds`, the layers that each
    build kept; `losses`, the numbers of the builds that were measured; and `kind`, the result's type.
    """
    builds: list[list[str]] = []
    losses: list[int] = []

    def build(keep: Any) -> "_Engine":
        builds.append([str(name) for name in keep])
        return _Engine(len(builds) - 1)

    def loss(engine: "_Engine") -> float:
        losses.append(engine.number)
        return sum(value for name, value in error.items() if name not in builds[engine.number])

    found = notebook[FUNCTION]({name: list(layers) for name, layers in groups.items()}, build, loss)
    try:
        table = {str(group): {str(way): float(row[way]) for way in row} for group, row in found.items()}
    except (AttributeError, TypeError, ValueError, KeyError):
        table = None
    return {"table": table, "builds": builds, "losses": losses, "kind": type(found).__name__}


class _Engine:
    """What a build gives: a number, and nothing that could be looked at."""

    def __init__(self, number: int) -> None:
        self.number = number


@probe
def choose_known(
    notebook: Notebook, *, table: dict[str, dict[str, float]], fp16: float, int8: float, target: float
) -> Chosen:
    """Call choose_groups; return `chosen` (a list of names, None where it is none) and `raised`, the error's type."""
    try:
        found = notebook[CHOICE]({group: dict(row) for group, row in table.items()}, fp16, int8, target)
    except NotImplementedError:
        raise
    except ValueError as error:
        return {"chosen": None, "raised": "ValueError", "message": said(error)}
    is_list = isinstance(found, (list, tuple))
    return {"chosen": [str(name) for name in found] if is_list else None, "raised": None, "message": repr(found)[:80]}


def _known(case: Case) -> tuple[dict[str, list[str]], dict[str, float]]:
    """Return groups of one to four layers, not in the order of the alphabet, and each layer's error."""
    random = case.random("mixed.study")
    sizes = random.integers(1, 5, 5)
    names = [f"g{number}" for number in random.permutation(90)[:5] + 10]
    names = names[::-1] if names == sorted(names) else names
    groups = {
        name: [f"{name}/l{index}" for index in range(size)] for name, size in zip(names, sizes.tolist(), strict=True)
    }
    layers = [layer for found in groups.values() for layer in found]
    return groups, dict(zip(layers, (2.0 ** -random.permutation(len(layers))).tolist(), strict=True))


def _studied(case: Case) -> Studied:
    groups, error = _known(case)
    return case.call(study_known, groups=groups, error=error).require(FUNCTION)


def _right(case: Case, direction: str, expected: dict[str, float], advice: str) -> str:
    found = _studied(case)
    if found["table"] is None:
        raise Missed('{group: {"kept": …, "alone": …}}', f"a value of type {found['kind']}", "return the dictionary")
    for group, value in expected.items():
        row = found["table"].get(group, {})
        if direction not in row or not abs(row[direction] - value) <= _FLOAT:
            got = f"{row[direction]:.6f}" if direction in row else "nothing"
            raise Missed(f'{value:.6f} for {group}, "{direction}", where the answer is known', got, advice)
    return f"{len(expected)} groups as known beforehand"


@point("Kept: the group alone in FP16")
def kept(case: Case) -> str:
    groups, error = _known(case)
    whole = sum(error.values())
    expected = {group: whole - sum(error[name] for name in names) for group, names in groups.items()}
    return _right(case, "kept", expected, "keep the layers of this group, and no others")


@point("Alone: the group alone in INT8")
def alone(case: Case) -> str:
    groups, error = _known(case)
    expected = {group: sum(error[name] for name in names) for group, names in groups.items()}
    return _right(case, "alone", expected, "keep the layers of all other groups")


@point("Each engine is built once and measured once; groups stay in order", _COUNTED)
def once(case: Case) -> str:
    found, (groups, _) = _studied(case), _known(case)
    builds = len(found["builds"])
    if builds != 2 * len(groups) or sorted(found["losses"]) != list(range(builds)):
        what = f"{builds} builds, {len(found['losses'])} measurements of {len(set(found['losses']))} of them"
        raise Missed(f"{2 * len(groups)} builds for {len(groups)} groups, each measured once", what, "builds are dear")
    order = list(found["table"] or {})
    if order != list(groups):
        raise Missed(
            f"the groups in their order, {', '.join(groups)}", ", ".join(order) or "none", "go through `groups`"
        )
    return f"{builds} builds for {len(groups)} groups"


def parts(table: dict[str, dict[str, float]], fp16: float, int8: float) -> dict[str, float]:
    """Return each group's part of INT8's squared drift, the mean of the two estimates."""
    return {group: ((int8**2 - row["kept"] ** 2) + (row["alone"] ** 2 - fp16**2)) / 2 for group, row in table.items()}


def _table(case: Case, purpose: str, least: float = -0.03) -> dict[str, Any]:
    """Return a table of eight groups whose two estimates differ, and drifts; `least` is the least group's share."""
    random = case.random(purpose)
    fp16, int8 = 0.002, 0.02 + 0.02 * random.random()
    shares = random.permutation([0.32, 0.2, 0.13, 0.09, 0.06, 0.04, 0.02, least]) * (1 + 0.05 * random.random(8))
    added, table = int8**2 - fp16**2, {}
    for number, share in enumerate(shares.tolist()):
        apart = 0.6 * share * (-1) ** number if share > 0 else 0.0
        table[f"b{number}"] = {
            "kept": math.sqrt(int8**2 - added * (share + apart)),
            "alone": math.sqrt(fp16**2 + max(-0.9 * fp16**2, added * (share - apart))),
        }
    return {"table": table, "fp16": fp16, "int8": int8}


def _chosen(case: Case, given: dict[str, Any], target: float) -> Chosen:
    return case.call(choose_known, **given, target=target).require(CHOICE)


@point("As few groups as the target needs, largest part first")
def fewest(case: Case) -> str:
    given = _table(case, "mixed.choice")
    found = parts(given["table"], given["fp16"], given["int8"])
    order = sorted(found, key=found.get, reverse=True)
    sums = [given["int8"] ** 2 - taken for taken in itertools.accumulate(found[name] for name in order[:5])]
    for number in (1, 2, 4):
        target = math.sqrt((3 * sums[number - 1] + sums[number]) / 4 + (sums[number - 1] - sums[number]) * 0.5)
        answer = _chosen(case, given, target)
        if answer["chosen"] != order[:number]:
            got = ", ".join(answer["chosen"]) if answer["chosen"] is not None else answer["raised"] or answer["message"]
            expected = (
                f"{', '.join(order[:number])} for a target of {target:.5f}, where INT8 drifts {given['int8']:.5f}"
            )
            raise Missed(expected, got or "no groups", "squares of drifts add up; take the largest part first")
    return "1, 2 and 4 groups for three targets"


@point("No group where INT8 is good enough")
def none_needed(case: Case) -> str:
    given = _table(case, "mixed.enough")
    for target in (given["int8"], 1.5 * given["int8"]):
        answer = _chosen(case, given, target)
        if answer["chosen"] != []:
            got = answer["raised"] or answer["message"]
            raise Missed("an empty list where INT8 is within the target already", got, "look before you take a group")
    return "an empty list"


@point("ValueError where no set of groups gets there")
def unreachable(case: Case) -> str:
    for least in (-0.03, 0.03):
        given = _table(case, "mixed.unreachable", least)
        found = parts(given["table"], given["fp16"], given["int8"])
        positive = [name for name in sorted(found, key=found.get, reverse=True) if found[name] > 0]
        best = math.sqrt(given["int8"] ** 2 - sum(found[name] for name in positive))
        answer = _chosen(case, given, best * 0.97)
        if answer["raised"] != "ValueError":
            got = ", ".join(answer["chosen"] or []) or answer["message"]
            expected = "ValueError for a target below what all groups together reach"
            raise Missed(expected, got, "is it reached at the end?")
        nearly = _chosen(case, given, best * 1.001)
        if nearly["chosen"] != positive:
            got = nearly["raised"] or ", ".join(nearly["chosen"] or [])
            expected = "all groups that help where just they reach the target"
            raise Missed(expected, got, "take every group whose part is above 0, and none below")
    return answer["message"][:80]
