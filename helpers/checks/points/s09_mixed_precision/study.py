"""sensitivity and choose_groups on functions and tables whose answers are known."""

import itertools
import math
from typing import Any, TypedDict

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.pure import Raises, agree, compare, plain
from helpers.checks.points.task import Task
from helpers.checks.probes.answer import Notebook, probe

_COUNTED = "how often its functions build and measure: counted in the student's process"

FUNCTION, CHOICE = "sensitivity", "choose_groups"
STUDY = Task("mixed_sensitivity", check="check_sensitivity", takes=(FUNCTION,))
CHOOSE = Task("mixed_choice", check="check_choice", takes=(CHOICE,))

Table = dict[str, dict[str, float]]


class Studied(TypedDict):
    """What `study_known` answers: the table, the layers that each build kept, and the builds that were measured."""

    table: Any
    builds: list[list[str]]
    losses: list[int]


@probe
def study_known(notebook: Notebook, *, groups: dict[str, list[str]], error: dict[str, float]) -> Studied:
    """Call sensitivity with builds whose loss is the sum of the errors of the layers that are not kept."""
    builds, losses = list[list[str]](), list[int]()

    def build(keep: Any) -> int:
        builds.append([str(name) for name in keep])
        return len(builds) - 1

    def loss(engine: int) -> float:
        losses.append(engine)
        return sum(value for name, value in error.items() if name not in builds[engine])

    table = notebook[FUNCTION]({name: list(layers) for name, layers in groups.items()}, build, loss)
    return {"table": plain(table), "builds": builds, "losses": losses}


def known(case: Case) -> tuple[dict[str, list[str]], dict[str, float]]:
    """Return groups of one to four layers, and each layer's error. One group's name begins with another's."""
    random = case.random("mixed.study")
    names = random.permutation(["b1", "b10", "b2", "b3", "b20"]).tolist()
    groups = {name: [f"{name}.conv{index}" for index in range(random.integers(1, 5))] for name in names}
    layers = [layer for found in groups.values() for layer in found]
    return groups, dict(zip(layers, (2.0 ** -random.permutation(len(layers))).tolist(), strict=True))


def _studied(case: Case) -> Studied:
    groups, error = known(case)
    return case.call(study_known, groups=groups, error=error).require(FUNCTION)


@STUDY.point("mixed.kept", 0.3, "Kept: the group alone in FP16")
def kept(case: Case) -> str:
    groups, error = known(case)
    whole = sum(error.values())
    right = {group: {"kept": whole - sum(map(error.get, names))} for group, names in groups.items()}
    agree(_studied(case)["table"], right, FUNCTION, "keep the layers of this group, and no others")
    return f"{len(groups)} groups as known beforehand"


@STUDY.point("mixed.alone", 0.3, "Alone: the group alone in INT8")
def alone(case: Case) -> str:
    groups, error = known(case)
    right = {group: {"alone": sum(map(error.get, names))} for group, names in groups.items()}
    agree(_studied(case)["table"], right, FUNCTION, "keep the layers of all other groups")
    return f"{len(groups)} groups as known beforehand"


@STUDY.point("mixed.once", 0.15, "Each engine is built once and measured once", _COUNTED)
def once(case: Case) -> str:
    found, number = _studied(case), 2 * len(known(case)[0])
    if len(found["builds"]) != number or sorted(found["losses"]) != list(range(number)):
        said = f"{len(found['builds'])} builds, {len(found['losses'])} measurements"
        raise Missed(f"{number} builds for {number // 2} groups, each measured once", said, "builds are dear")
    return f"{number} builds for {number // 2} groups"


def parts(table: Table, fp16: float, int8: float) -> dict[str, float]:
    """Return each group's part of INT8's squared drift, the mean of the two estimates, largest first."""
    found = {group: ((int8**2 - row["kept"] ** 2) + (row["alone"] ** 2 - fp16**2)) / 2 for group, row in table.items()}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _drawn(case: Case, purpose: str) -> tuple[Table, float, float]:
    """Return a table of eight groups whose two estimates differ, and drifts."""
    random = case.random(purpose)
    fp16, int8 = 0.002, 0.02 + 0.02 * random.random()
    shares = random.permutation([0.32, 0.2, 0.13, 0.09, 0.06, 0.04, 0.02, 0.03]) * (1 + 0.05 * random.random(8))
    added, table = int8**2 - fp16**2, {}
    for number, share in enumerate(shares.tolist()):
        apart = 0.6 * share * (-1) ** number
        table[f"b{number}"] = {
            "kept": math.sqrt(int8**2 - added * (share + apart)),
            "alone": math.sqrt(fp16**2 + added * (share - apart)),
        }
    return table, fp16, int8


@CHOOSE.point("mixed.fewest", 0.45, "As few groups as the target needs, largest part first")
def fewest(case: Case) -> str:
    given = _drawn(case, "mixed.choice")
    size = parts(*given)
    left = [given[2] ** 2 - taken for taken in itertools.accumulate(size.values())]  # after one group, two, …
    targets = {number: math.sqrt(0.75 * left[number - 1] + 0.25 * left[number - 2]) for number in (2, 4)}
    targets[1] = math.sqrt(0.75 * left[0] + 0.25 * given[2] ** 2)
    pairs = [((*given, target), list(size)[:number]) for number, target in targets.items()]
    return compare(case, CHOICE, pairs, "squares of drifts add up; take the largest part first, stop when it is enough")


@CHOOSE.point("mixed.none_needed", 0.15, "No group where INT8 is good enough")
def none_needed(case: Case) -> str:
    given = _drawn(case, "mixed.enough")
    pairs = [((*given, share * given[2]), []) for share in (1.001, 1.5)]
    return compare(case, CHOICE, pairs, "look before you take a group")


@CHOOSE.point("mixed.unreachable", 0.15, "ValueError where no set of groups gets there")
def unreachable(case: Case) -> str:
    given = _drawn(case, "mixed.unreachable")
    size = parts(*given)
    best = math.sqrt(given[2] ** 2 - sum(size.values()))
    pairs = [((*given, 0.97 * best), Raises("ValueError")), ((*given, 1.001 * best), list(size))]
    return compare(case, CHOICE, pairs, "is the target reached once every group is taken?")
