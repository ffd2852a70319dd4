"""build_explicit(onnx_path, engine_path): an INT8 engine of a model that says itself what is rounded."""

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.case import Case
from helpers.checks.points.point import point
from helpers.checks.points.s09_mixed_precision.engine import precisions_of
from helpers.checks.points.s14_explicit_quantisation.networks import CONVOLUTIONS, explicit_network
from helpers.checks.probes.builds import BuiltEngine, build_engine, failing_build
from helpers.course.settings import PROFILE_BATCHES
from helpers.engine.backend import ENGINE, trt

FUNCTION = "build_explicit"
BATCHES = PROFILE_BATCHES
TYPED = hasattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED")
"""Whether this TensorRT can be told to take every type from the model; 8.6 cannot."""

_PRECISIONS = ("FP16", "BF16", "INT8")


def built(case: Case) -> BuiltEngine:
    """Return what `build_engine` answers for the case's model."""
    return case.call(build_engine, function=FUNCTION, onnx=explicit_network(case)).require(FUNCTION)


@point("A serialized engine is returned and written to engine_path")
def plan(case: Case) -> str:
    return builders.returned_and_written(built(case), FUNCTION)


@point("The profile is (1, 8, 32)")
def profile(case: Case) -> str:
    return builders.profile_is(builders.plan_of(built(case), FUNCTION), BATCHES)


@point("The model alone says what is rounded: no calibrator, and no more flags than this TensorRT needs")
def typed(case: Case) -> str:
    found = built(case)
    asked = builders.asked_for(found)
    if asked["calibrator"]:
        raise Missed("no calibrator", asked["calibrator"], "the scales are in the model")
    flags = [name for name in _PRECISIONS if asked["flags"].get(name)]
    if TYPED and not asked["strongly_typed"]:
        advice = "create_network takes 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)"
        raise Missed("a strongly typed network", f"one that is not; flags {flags}", advice)
    needed = [] if TYPED else ["INT8"]
    if flags != needed:
        expected = f"the precision flags {needed}" if needed else "no precision flag: the types are in the model"
        raise Missed(expected, f"{flags}", "TensorRT 8.6 wants INT8 allowed, later ones take strong types")
    ran = precisions_of(builders.plan_of(found, FUNCTION), list(CONVOLUTIONS))
    other = [name for name, precision in ran.items() if precision != "int8"]
    if other and ENGINE == "cpu":
        raise Missed("both convolutions in INT8", f"{other[0]} runs in {ran[other[0]]}", "build what the parser read")
    return f"{'strongly typed' if TYPED else 'INT8 allowed'}; convolutions ran in {sorted(set(ran.values()))}"


@point("A build that fails raises, and an earlier engine file stays", builders.FAILURES)
def failures(case: Case) -> str:
    model = explicit_network(case)
    asked = {"function": FUNCTION}
    said = [builders.refuses(case, failing_build, FUNCTION, onnx, **asked) for onnx in (None, model)]
    builders.keeps_files(case, failing_build, FUNCTION, model, **asked)
    return "; ".join(said)
