"""What the run on the lab's model left: sensitivity.json and resnet50_mixed.engine."""

from typing import Any

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.case import Case
from helpers.checks.points.files import json_of, needed
from helpers.checks.points.pure import agree
from helpers.checks.points.s09_mixed_precision.engine import precisions_of
from helpers.checks.points.s09_mixed_precision.study import parts
from helpers.checks.points.task import Task
from helpers.checks.probes.loads import loads
from helpers.course.settings import ONNX_FILE, PROFILE_BATCHES
from helpers.engine.layer_groups import Group, ends, groups_of_model

PLAN, TABLE = "resnet50_mixed.engine", "sensitivity.json"
_AGAIN = "run the cells of the last task in order"

RESULTS = Task("mixed_results", check="check_mixed_results")


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
        found: dict[str, Any] = {key: float(read[key]) for key in ("fp16", "int8", "mixed", "target")}
        found["groups"] = {
            name: {way: float(row[way]) for way in ("kept", "alone")} for name, row in read["groups"].items()
        }
        return found | {"chosen": list(read["chosen"]), "kept_layers": sorted(read["kept_layers"])}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        said = f"{type(error).__name__}: {str(error)[:100]}"
        raise Missed(f"{TABLE} as the notebook writes it", said, _AGAIN) from error


def kept_by(groups: list[Group], chosen: list[str]) -> set[str]:
    """Return the layers that a mix of these groups keeps: theirs, and the first and the last layer."""
    return {*ends(groups), *(name for group in groups if group.name in chosen for name in group.layers)}


@RESULTS.point("mixed.table", 0.25, "sensitivity.json has every group, and its choice follows from it")
def table(case: Case) -> str:
    found, groups = read_table(case), groups_of_lab(case)
    agree(sorted(found["groups"]), sorted(group.name for group in groups), f"the groups in {TABLE}", _AGAIN)
    left, chosen = found["int8"] ** 2, []
    for name, part in parts(found["groups"], found["fp16"], found["int8"]).items():
        if left <= (found["target"] * found["int8"]) ** 2:
            break
        left, chosen = left - part, [*chosen, name]
    agree(found["chosen"], chosen, f"`chosen` in {TABLE}", "choose from the table that is written")
    keep = sorted(kept_by(groups, chosen))
    agree(found["kept_layers"], keep, "`kept_layers`", "the layers of the chosen groups, and the first and last one")
    return f"{len(groups)} groups, {len(chosen)} chosen: {', '.join(chosen)}"


def plan_of(case: Case) -> bytes:
    """Return the mixed engine's plan; raise Missed where it is missing or cannot be loaded."""
    plan = needed(case, PLAN, _AGAIN)
    builders.facts_of(plan, PLAN)
    return plan


@RESULTS.point("mixed.engine", 0.5, "The engine keeps what the table says, and runs the rest in INT8")
def engine(case: Case) -> str:
    plan, groups = plan_of(case), groups_of_lab(case)
    builders.profile_is(plan, PROFILE_BATCHES)
    kept = kept_by(groups, read_table(case)["chosen"])
    ran = precisions_of(plan, [name for group in groups for name in group.weighted])
    for name, runs in ran.items():
        if name in kept and runs == "int8":
            raise Missed(f"{name} kept in FP16", "it runs in INT8", "give `kept_layers` to build_engine_mixed")
        if name not in kept and runs not in ("int8", "other"):
            raise Missed(f"{name} in INT8", f"it runs in {runs}", "keep the chosen groups' layers, and no others")
    return f"{len(kept & set(ran))} of {len(ran)} layers with weights kept, the others in INT8"
