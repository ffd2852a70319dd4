"""build_engine_mixed(onnx_path, engine_path, cache_path, keep): an engine of two precisions, from a cache alone."""

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.builder import Builder
from helpers.checks.points.case import Case
from helpers.checks.points.pure import agree
from helpers.checks.points.s09_mixed_precision.networks import (
    CONVOLUTIONS,
    cache_and_layers,
    chosen_layers,
    mixed_onnx,
)
from helpers.checks.points.task import Task
from helpers.checks.probes.loads import loads
from helpers.course.settings import PROFILE_BATCHES
from helpers.engine.backend import trt
from helpers.engine.layers import engine_layers, ran_in

MIXED = Builder("build_engine_mixed", "mixed", PROFILE_BATCHES, mixed_onnx, extra=cache_and_layers)
ENGINE = Task("mixed_engine", check="check_mixed_engine", takes=(MIXED.function,))
MIXED.ask(ENGINE, plan=0.15, written=0.1, profile=0.2)


@loads
def precisions_of(plan: bytes, names: list[str]) -> dict[str, str]:
    """Return the precision in which each named layer of the network runs, by the inspector."""
    engine = trt.Runtime(trt.Logger(trt.Logger.INTERNAL_ERROR)).deserialize_cuda_engine(plan)
    return ran_in(engine_layers(engine), names)


@ENGINE.point("mixed.read_back", 0.35, "The named layers do not run in INT8, the others do")
def read_back(case: Case) -> str:
    keep = [name for name in chosen_layers(case.number("mixed.extra")) if name in CONVOLUTIONS]
    asked = builders.asked_for(MIXED.built(case))
    wanted = {"HALF": len(keep), "INT8": len(CONVOLUTIONS) - len(keep)}
    agree(asked["held"], wanted, "the convolutions' precisions in the build", "give `keep` to keep_in_half")
    if asked["verbosity"] != "DETAILED":
        raise Missed("the profiling verbosity DETAILED", asked["verbosity"], "without it no layer tells its precision")
    ran = precisions_of(MIXED.plan(case), list(CONVOLUTIONS))
    for name, runs in ran.items():
        if (name in keep) == (runs == "int8"):
            expected = f"{name} {'not in INT8: it was to be kept' if name in keep else 'in INT8: it was not kept'}"
            advice = "are the calibrator and all three flags on this configuration?"
            raise Missed(expected, f"it runs in {runs}", advice)
    return f"convolutions: {ran}"


MIXED.ask(ENGINE, parser_errors=0.1, failures=0.1)
