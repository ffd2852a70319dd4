"""What the run on the lab's model left: sensitivity.json and resnet50_mixed.engine."""

import math
from typing import Any

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.case import Case
from helpers.checks.points.files import json_of, needed
from helpers.checks.points.point import point
from helpers.checks.points.s09_mixed_precision.engine import BATCHES, precisions_of
from helpers.checks.points.s09_mixed_precision.study import parts
from helpers.checks.probes.loads import loads
from helpers.course.settings import ONNX_FILE
from helpers.engine.layer_groups import Group, ends, groups_of_model

PLAN, TABLE = "resnet50_mixed.engine", "sensitivity.json"
_DRIFTS = ("fp16", "int8", "mixed", "target")
_AGAIN = "run the cells of the last task in order"


def groups_of_lab(case: Case) -> list[Group]:
    """Return the groups of the ONNX file that the step was given."""
    return [Group(name, *map(tuple, layers)) for name, *layers in _groups(needed(case, ONNX_FILE, "run step 1"))]


@loads
def _groups(model: bytes) -> list[list[Any]]:
    return [[group.name, group.layers, group.weighted] for group in groups_of_model(model, ONNX_FILE)]


def read_table(case: Case) -> dict[str, Any]:
    """Return sensitivity.json; raise Missed where it is not as the notebook writes it."""
    read = json_of(case, TABLE, _AGAIN)
    try:
        found: dict[str, Any] = {key: float(read[key]) for key in _DRIFTS}
        found["groups"] = {
            str(name): {way: float(row[way]) for way in ("kept", "alone")} for name, row in read["groups"].items()
        }
        found |= {key: [str(name) for name in read[key]] for key in ("chosen", "kept_layers")}
        found["images"] = int(read["images"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        said = f"{type(error).__name__}: {str(error)[:100]}"
        raise Missed(f"{TABLE} as the notebook writes it", said, _AGAIN) from error
    numbers = [*(found[key] for key in _DRIFTS), *(value for row in found["groups"].values() for value in row.values())]
    if not all(math.isfinite(number) and 0 < number < 10 for number in numbers):
        raise Missed("drifts above 0", str(min(numbers)), "let `study_drift` measure each engine")
    return found


def kept_by(groups: list[Group], chosen: list[str]) -> set[str]:
    """Return the layers that a mix of these groups keeps: theirs, and the first and the last layer."""
    return {*ends(groups), *(name for group in groups if group.name in chosen for name in group.layers)}


@point("sensitivity.json has every group, and its choice follows from it")
def table(case: Case) -> str:
    found, groups = read_table(case), groups_of_lab(case)
    names = [group.name for group in groups]
    if sorted(found["groups"]) != sorted(names):
        lacking = sorted({*names} ^ {*found["groups"]})
        raise Missed(f"a row for each of {len(names)} groups", f"{lacking[0]} is lacking or unknown", _AGAIN)
    size = parts(found["groups"], found["fp16"], found["int8"])
    order = sorted(size, key=size.get, reverse=True)
    left, number = found["int8"] ** 2, 0
    while left > (found["target"] * found["int8"]) ** 2 and number < len(order):
        left, number = left - size[order[number]], number + 1
    if found["chosen"] != order[:number]:
        got = ", ".join(found["chosen"]) or "none"
        raise Missed(
            f"the groups {', '.join(order[:number])}, by this table", got, "choose from the table that is written"
        )
    if set(found["kept_layers"]) != kept_by(groups, found["chosen"]):
        other = sorted(set(found["kept_layers"]) ^ kept_by(groups, found["chosen"]))
        expected = "the layers of the chosen groups and the first and last one"
        raise Missed(expected, f"{other[0]} is lacking or too much", "look at `kept_layers`")
    return f"{len(names)} groups, {number} chosen: {', '.join(found['chosen'])}"


def plan_of(case: Case) -> bytes:
    """Return the mixed engine's plan; raise Missed where it is missing or cannot be loaded."""
    plan = case.artifact(PLAN)
    if not plan:
        raise Missed(f"{PLAN} among the artifacts", "no such file", _AGAIN)
    builders.facts_of(plan, PLAN)
    return plan


@point("The engine keeps what the table says, and runs the rest in INT8")
def engine(case: Case) -> str:
    plan, groups = plan_of(case), groups_of_lab(case)
    builders.profile_is(plan, BATCHES)
    kept = kept_by(groups, read_table(case)["chosen"])
    ran = precisions_of(plan, [name for group in groups for name in group.weighted])
    wrong = [name for name in ran if name in kept and ran[name] == "int8"]
    if wrong:
        raise Missed(f"{wrong[0]} kept in FP16", "it runs in INT8", "give `kept_layers` to build_engine_mixed")
    free = [runs for name, runs in ran.items() if name not in kept]
    in_int8 = free.count("int8")
    if in_int8 + free.count("other") < len(free):
        what = f"{in_int8} of {len(free)} of them"
        raise Missed("the layers that were not kept in INT8", what, "keep the chosen groups' layers, and no others")
    return f"{len(ran) - len(free)} layers with weights kept, {in_int8} of {len(free)} others in INT8"
