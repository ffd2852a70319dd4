"""build_explicit(onnx_path, engine_path), and the files for the lab's model: resnet50_qdq.*, explicit.json."""

from collections import Counter

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
    pairs_at,
    read_model,
    read_quantised,
    same_without_pairs,
    skip_branches,
    weighted_layers,
)
from helpers.checks.points.task import Task
from helpers.course.settings import ONNX_FILE, PROFILE_BATCHES
from helpers.engine.backend import ENGINE, trt

TYPED = hasattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED")  # 8.6 cannot take every type from the model

BUILD = Builder("build_explicit", "qdq", PROFILE_BATCHES, explicit_network)
BUILDING = Task("qdq_engine", check="check_explicit_engine", takes=(BUILD.function,))
RESULTS = Task("qdq_results", check="check_explicit_results")

FILE, PLAN, RECORD = "resnet50_qdq.onnx", "resnet50_qdq.engine", "explicit.json"
AGAIN = "run the cells of the last task in order"

BUILD.ask(BUILDING, plan=0.15, written=0.1, profile=0.2, failures=0.2)


@BUILDING.point("qdq.typed", 0.3, "Only the model says what is rounded: strong types, or INT8 allowed in TensorRT 8.6")
def typed(case: Case) -> str:
    advice = "in TensorRT 8.6 set only the flag INT8; later create a STRONGLY_TYPED network and set no precision flag"
    right = {"strongly_typed": TYPED, "calibrator": False, "flags": {"FP16": False, "BF16": False, "INT8": not TYPED}}
    agree(builders.asked_for(BUILD.built(case)), right, "the build", advice)
    return _runs_in_int8(BUILD.plan(case), [*CONVOLUTIONS], "the engine") if ENGINE == "cpu" else "types as asked for"


@BUILDING.point("qdq.detailed", 0.1, "The profiling verbosity is DETAILED", "noted at the build: checks change it")
def detailed(case: Case) -> str:
    advice = "set the configuration's profiling_verbosity to DETAILED: the inspector needs it to tell precisions"
    agree(builders.asked_for(BUILD.built(case)), {"verbosity": "DETAILED"}, "the build", advice)
    return "DETAILED"


def _runs_in_int8(plan: bytes, layers: list[str], what: str) -> str:
    """Return evidence that these layers run in INT8: on the CPU engine all of them, on a GPU half."""
    builders.facts_of(plan, what)
    ran = Counter(precisions_of(plan, layers).values())
    said = f"weighted layers by precision: {dict(ran)}"
    if ran["int8"] < len(layers) * (1 if ENGINE == "cpu" else 0.5):
        raise Missed(f"{what}'s weighted layers in INT8", said, "build the parsed network, with verbosity DETAILED")
    return said


@RESULTS.point("qdq.file", 0.4, "The lab's model, with pairs only at weighted layers and skip branches")
def file(case: Case) -> str:
    original, found = read_model(needed(case, ONNX_FILE, AGAIN)), read_quantised(needed(case, FILE, AGAIN))
    same_without_pairs(original, found)
    right = skip_branches(original) | dict.fromkeys(weighted_layers(original), OneOf(([0, 1],)))
    advice = f"give fused_model pairs at the weighted layers and the skip branches, and {AGAIN}"
    agree(found["rounded"], right, f"the inputs that {FILE} reads through pairs", advice)
    places = [(name, index) for name, inputs in found["rounded"].items() for index in inputs]
    pairs = pairs_at(original, places, read_scales(needed(case, CACHE, AGAIN)))
    agree(found["pairs"], pairs, f"the pairs of {FILE} by node and input", AGAIN, rtol=1e-4)
    return f"{len(places)} inputs are read through pairs"


@RESULTS.point("qdq.engine", 0.2, "The engine runs the weighted layers in INT8, for batches 1 to 32")
def engine(case: Case) -> str:
    plan, model = (needed(case, name, AGAIN) for name in (PLAN, ONNX_FILE))
    builders.profile_is(plan, BUILD.batches)
    return _runs_in_int8(plan, [*weighted_layers(read_model(model))], PLAN)


@RESULTS.point("qdq.record", 0.2, "explicit.json fits the engines: the naive one has more layers")
def record(case: Case) -> str:
    layers, told = builders.facts_of(needed(case, PLAN, AGAIN), PLAN)["layers"], json_of(case, RECORD, AGAIN)
    agree(told, {"layers": {"fused": layers}}, f"{RECORD}, as {PLAN} has it", AGAIN)
    naive = told["layers"].get("naive")
    if ENGINE == "cpu" and not (isinstance(naive, int) and naive > layers):
        raise Missed(f"more than {layers} layers in the naive engine", f"{naive}", "build each of the two models")
    return f"{naive} layers naive, {layers} fused"
