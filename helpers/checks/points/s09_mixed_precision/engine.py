"""build_engine_mixed(onnx_path, engine_path, cache_path, keep): an engine of two precisions, from a cache."""

from collections.abc import Collection

from helpers.checks.points import builders
from helpers.checks.points.builder import Builder
from helpers.checks.points.case import Case
from helpers.checks.points.pure import OneOf, agree
from helpers.checks.points.s09_mixed_precision.networks import CONVOLUTIONS, KEPT, cache_and_layers, mixed_onnx
from helpers.checks.points.task import Task
from helpers.checks.probes.loads import loads
from helpers.course.settings import PROFILE_BATCHES
from helpers.engine.backend import trt
from helpers.engine.layers import engine_layers, ran_in

MIXED = Builder("build_engine_mixed", "mixed", PROFILE_BATCHES, mixed_onnx, extra=cache_and_layers)
ENGINE = Task("mixed_engine", check="check_mixed_engine", takes=(MIXED.function,))
MIXED.ask(ENGINE, plan=0.15, written=0.1, profile=0.2)

_QUANTISED, _KEPT = OneOf(("int8", "other")), OneOf(("fp16", "bf16", "fp32", "tf32", "other"))
"""Precisions that the inspector may report; "other" if a region was compiled without names."""


@loads
def precisions_of(plan: bytes, names: list[str]) -> dict[str, str]:
    """Return the precision of each named layer of the network, as the inspector reports it."""
    engine = trt.Runtime(trt.Logger(trt.Logger.INTERNAL_ERROR)).deserialize_cuda_engine(plan)
    return ran_in(engine_layers(engine), names)


def keeps_only(plan: bytes, keep: Collection[str], names: list[str]) -> str:
    """Return evidence that among the layers `names` those in `keep` do not run in INT8, and the others do."""
    right = {name: _KEPT if name in keep else _QUANTISED for name in names}
    ran = precisions_of(plan, names)
    agree(ran, right, "the engine's layers", "pass exactly the layers to keep to keep_in_half")
    return f"{len({*keep} & {*names})} of {len(names)} layers with weights kept, the others in INT8"


@ENGINE.point("mixed.read_back", 0.6, "Named layers do not run in INT8, the others do")
def read_back(case: Case) -> str:
    right = {"held": {"HALF": 2, "INT8": len(CONVOLUTIONS) - 2}, "verbosity": "DETAILED"}
    advice = "pass `keep` to keep_in_half, and set the profiling verbosity to DETAILED"
    agree(builders.asked_for(MIXED.built(case)), right, "the build, with the convolutions held to a precision", advice)
    return keeps_only(MIXED.plan(case), KEPT, [*CONVOLUTIONS])


MIXED.ask(ENGINE, parser_errors=0.1, failures=0.1)
