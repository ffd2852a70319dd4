"""The files for the lab's model: sensitivity.json and resnet50_mixed.engine."""

from typing import Any

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.case import Case
from helpers.checks.points.files import json_of, needed
from helpers.checks.points.pure import agree
from helpers.checks.points.s09_mixed_precision.engine import keeps_only
from helpers.checks.points.s09_mixed_precision.study import chosen_of
from helpers.checks.points.task import Task
from helpers.checks.probes.loads import loads
from helpers.course.settings import ONNX_FILE, PROFILE_BATCHES
from helpers.engine.layer_groups import Group, ends, groups_of_model

PLAN, TABLE = "resnet50_mixed.engine", "sensitivity.json"
AGAIN = "run the cells of the last task in order"

RESULTS = Task("mixed_results", check="check_mixed_results")


def groups_of_lab(case: Case) -> list[Group]:
    """Return the groups of the step's ONNX file."""
    return [Group(name, *map(tuple, layers)) for name, *layers in _groups(needed(case, ONNX_FILE, "run step 1"))]


@loads
def _groups(model: bytes) -> list[list[Any]]:
    return [[group.name, group.layers, group.weighted] for group in groups_of_model(model, ONNX_FILE)]


def read_table(case: Case) -> dict[str, Any]:
    """Return sensitivity.json; raise Missed if it is not as the notebook writes it."""
    read = json_of(case, TABLE, AGAIN)
    try:
        found: dict[str, Any] = {key: float(read[key]) for key in ("fp16", "int8", "mixed", "target")}
        ways = {name: {way: float(row[way]) for way in ("kept", "alone")} for name, row in read["groups"].items()}
        return found | {"groups": ways, "chosen": list(read["chosen"]), "kept_layers": sorted(read["kept_layers"])}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        said = f"{type(error).__name__}: {str(error)[:100]}"
        raise Missed(f"{TABLE} as the notebook writes it", said, AGAIN) from error


def kept_by(groups: list[Group], chosen: list[str]) -> set[str]:
    """Return the layers to keep for these groups: theirs, the first and the last one."""
    return {*ends(groups), *(name for group in groups if group.name in chosen for name in group.layers)}


@RESULTS.point("mixed.table", 0.25, "sensitivity.json has every group, and the choice follows from it")
def table(case: Case) -> str:
    found, groups = read_table(case), groups_of_lab(case)
    chosen = chosen_of(found["groups"], found["fp16"], found["int8"], found["target"] * found["int8"])
    right = {"groups": {group.name: {} for group in groups}, "chosen": chosen}
    right |= {"kept_layers": sorted(kept_by(groups, chosen))}
    agree(found, right, TABLE, "choose from the table that you write, and keep the first and last layer, too")
    return f"{len(groups)} groups, {len(chosen)} chosen: {', '.join(chosen)}"


@RESULTS.point("mixed.engine", 0.5, "The engine keeps the table's layers, and runs the rest in INT8")
def engine(case: Case) -> str:
    plan, groups = needed(case, PLAN, AGAIN), groups_of_lab(case)
    builders.profile_is(plan, PROFILE_BATCHES)
    weighted = [name for group in groups for name in group.weighted]
    return keeps_only(plan, kept_by(groups, read_table(case)["chosen"]), weighted)
