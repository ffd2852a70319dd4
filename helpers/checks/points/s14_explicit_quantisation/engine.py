"""build_explicit(onnx_path, engine_path), and what it leaves of the lab's model: resnet50_qdq.*, explicit.json."""

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.builder import Builder
from helpers.checks.points.case import Case
from helpers.checks.points.files import json_of, needed
from helpers.checks.points.pure import OneOf, agree
from helpers.checks.points.s04_int8.calibration import CACHE, read_scales
from helpers.checks.points.s09_mixed_precision.engine import precisions_of
from helpers.checks.points.s14_explicit_quantisation.networks import CONVOLUTIONS, explicit_network
from helpers.checks.points.s14_explicit_quantisation.reading import (
    read_model,
    read_quantised,
    same_without_pairs,
    scale_is_right,
    skip_branches,
    weighted_layers,
)
from helpers.checks.points.task import Task
from helpers.course.settings import ONNX_FILE, PROFILE_BATCHES
from helpers.engine.backend import ENGINE, trt

TYPED = hasattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED")
"""Whether this TensorRT can be told to take every type from the model; 8.6 cannot."""

BUILD = Builder("build_explicit", "qdq", PROFILE_BATCHES, explicit_network)
BUILDING = Task("qdq_engine", check="check_explicit_engine", takes=(BUILD.function,))
RESULTS = Task("qdq_results", check="check_explicit_results")

FILE, PLAN, RECORD = "resnet50_qdq.onnx", "resnet50_qdq.engine", "explicit.json"
AGAIN = "run the cells of the last task in order"

BUILD.ask(BUILDING, plan=0.15, written=0.1, profile=0.2, failures=0.2)


@BUILDING.point("qdq.typed", 0.3, "The model alone says what is rounded: strong types, or else INT8 allowed")
def typed(case: Case) -> str:
    flags = {"FP16": False, "BF16": False, "INT8": not TYPED}
    advice = "TensorRT 8.6 wants the flag INT8 alone, later ones a network of the flag STRONGLY_TYPED and no other flag"
    right = {"strongly_typed": TYPED, "calibrator": False, "flags": flags}
    agree(builders.asked_for(BUILD.built(case)), right, "the build", advice)
    return _runs_in_int8(BUILD.plan(case), [*CONVOLUTIONS], "the engine") if ENGINE == "cpu" else "types as asked for"


@BUILDING.point("qdq.detailed", 0.1, "The profiling verbosity is DETAILED", "noted when it is built: checks change it")
def detailed(case: Case) -> str:
    advice = "without DETAILED on the configuration the inspector tells no layer's precision"
    agree(builders.asked_for(BUILD.built(case)), {"verbosity": "DETAILED"}, "the build", advice)
    return "DETAILED"


def _runs_in_int8(plan: bytes, layers: list[str], what: str) -> str:
    """Return evidence that these layers run in INT8: on the CPU engine all of them, on a GPU half."""
    builders.facts_of(plan, what)
    ran = precisions_of(plan, layers)
    others = [name for name, precision in ran.items() if precision != "int8"]
    if len(others) > (0 if ENGINE == "cpu" else len(ran) / 2):
        told = f"{others[0]} runs in {ran[others[0]]}"
        raise Missed(f"{what}'s weighted layers in INT8", told, "build what the parser read, with verbosity DETAILED")
    return f"{len(ran) - len(others)} of {len(ran)} weighted layers in INT8"


@RESULTS.point("qdq.file", 0.4, "The file is the lab's model with pairs at weighted layers and skip branches only")
def file(case: Case) -> str:
    original, found = read_model(needed(case, ONNX_FILE, AGAIN)), read_quantised(needed(case, FILE, AGAIN))
    same_without_pairs(original, found)
    layers, additions = weighted_layers(original), skip_branches(original)
    right = dict.fromkeys(original.nodes, []) | dict.fromkeys(layers, [0, 1])
    right |= {name: OneOf(tuple([index] for index in inputs)) for name, inputs in additions.items()}
    agree(found.by_node(found.pairs), right, f"the inputs that {FILE} reads through pairs", AGAIN)
    scales = read_scales(needed(case, CACHE, AGAIN))
    for place in found.pairs:
        scale_is_right(found, place, layers, scales)
    return f"{len(layers)} layers and {len(additions)} skip branches, {len(found.rounding)} Q/DQ nodes"


@RESULTS.point("qdq.engine", 0.2, "The engine runs the weighted layers in INT8, for batches 1 to 32")
def engine(case: Case) -> str:
    plan, model = (needed(case, name, AGAIN) for name in (PLAN, ONNX_FILE))
    builders.profile_is(plan, BUILD.batches)
    return _runs_in_int8(plan, [*weighted_layers(read_model(model))], PLAN)


@RESULTS.point("qdq.record", 0.2, "explicit.json is of these engines: the naive one has more layers")
def record(case: Case) -> str:
    layers, told = builders.facts_of(needed(case, PLAN, AGAIN), PLAN)["layers"], json_of(case, RECORD, AGAIN)
    agree(told, {"layers": {"fused": layers}}, f"{RECORD}, as {PLAN} has", AGAIN)
    naive = told["layers"].get("naive")
    if ENGINE == "cpu" and not (isinstance(naive, int) and naive > layers):
        expected = f"a naive engine of more layers than the {layers} of the fused one"
        raise Missed(expected, f"{naive}", "build both models, each for itself")
    return f"{naive} layers naive, {layers} fused"
