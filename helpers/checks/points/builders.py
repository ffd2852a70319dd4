"""What is asked of every engine builder: its return value and file, workspace, precision, and failures.

These functions judge `built`, the answer of a probe of helpers/checks/probes/builds.py about one build.
"""

from functools import partial
from typing import Any

from helpers.checks.missed import Missed
from helpers.checks.points.pure import OneOf, agree
from helpers.checks.probes.builds import OLDER, PlanFacts, plan_facts
from helpers.checks.probes.onnx_files import unsupported_onnx
from helpers.engine.backend import API, ENGINE, network_flags, trt
from helpers.toys.networks import EDGE

Built = dict[str, Any]
Ends = tuple[tuple[str, ...], tuple[str, ...]]

WORKSPACE_GB = 2
WORKSPACE_BYTES = WORKSPACE_GB << 30
_LEAST_WORKSPACE = WORKSPACE_GB * 10**9  # a GB of either size

HALF_SIZE = 0.6
"""Largest share of the ONNX file's size for an FP16 engine of a large model (two bytes instead of four)."""

INT8_SIZE = 0.45
"""The same for an INT8 engine (one byte instead of four)."""

LEAST_SPEEDUP = 1.2
"""Times PyTorch FP32's throughput: fusion gives as much, even without FP16 or INT8 units."""

_LEAST_CONVOLUTIONS = 0.5  # in a right build on the CPU engine all are
_BY_TYPES = {"FP16": "halves", "INT8": "quantizers"}
_IN_THE_MODEL = {"FP16": "cast the model to FP16", "INT8": "put Q/DQ nodes into the model"}
NO_MODEL = b"garbage, no ONNX model"
"""No parser accepts it. The first byte matters: TensorRT's parser reads some others as an empty model."""


def facts_of(plan: bytes | None, what: str) -> PlanFacts:
    """Return `plan_facts`; raise Missed if there is no plan, or this TensorRT cannot load it."""
    facts = plan_facts(plan) if plan else None
    if facts is None:
        found = f"{len(plan):,} bytes that cannot be deserialized" if plan else "nothing"
        advice = "write and return the serialized network unchanged"
        raise Missed(f"{what} to be an engine that this TensorRT can load", found, advice)
    return facts


def returned(built: Built, function: str, ends: Ends = (("input",), ("output",))) -> str:
    """Return evidence that the returned engine has inputs and outputs of the ONNX file's names and types."""
    plan, right = built["returned"], OneOf(("FLOAT", "INT32"))
    facts = facts_of(plan, f"the return value of {function} ({built['returned_type']})")
    wanted = {side: dict.fromkeys(names, right) for side, names in zip(("inputs", "outputs"), ends, strict=True)}
    advice = "keep names and types of inputs and outputs; lower only the layers' precision"
    agree(facts, wanted, "the engine, compared with the ONNX file", advice)
    return f"{len(plan):,} bytes, {facts['layers']} layers"


def written(built: Built, alone: bool = False) -> str:
    """Return evidence that the returned engine is in the file at engine_path.

    Unless this is asked `alone`, a missing return value loses another point, not this one.
    """
    plan, file = built["returned"], built["file"]
    if plan is None and not alone and file and plan_facts(file):
        return f"{len(file):,} bytes in the file"
    if file != plan:
        other = "no new file" if file in (None, OLDER) else f"a file of {len(file):,} other bytes"
        found = f"{other}, {len(plan or b''):,} bytes returned"
        advice = "write the returned bytes to engine_path in binary mode, replacing an earlier file"
        raise Missed("the returned engine in the file at engine_path", found, advice)
    return "file and return value equal"


def plan_of(built: Built, function: str) -> bytes:
    """Return the returned engine, or else the one in the file: a missing one loses a point of its own."""
    found = [plan for plan in (built["returned"], built["file"]) if plan and plan_facts(plan)]
    if not found:
        nowhere = "none that loads, neither returned nor in the file"
        raise Missed(f"an engine from {function}", nowhere, "fix the first point of this check")
    return found[0]


def profile_is(plan: bytes, batches: tuple[int, int, int]) -> str:
    """Return evidence that an engine has one profile, with these batches of 3×224×224."""
    facts = facts_of(plan, "the engine")
    expected = [[batch, 3, EDGE, EDGE] for batch in batches]
    found = [list(profile.values()) for profile in facts["profiles"]]
    if found != [[expected]]:
        advice = "pass min, opt and max in this order, and add the profile to the configuration"
        said = " and ".join(str(shapes) for profile in found for shapes in profile) or "none"
        raise Missed(f"one profile {expected}", said, advice)
    return f"min, opt, max: {expected}"


def asked_for(built: Built) -> dict[str, Any]:
    """Return the settings of the last build; raise Missed if nothing was built."""
    if not built["builds"]:
        raise Missed("a new build in each call", "an earlier engine", "call build_serialized_network in each call")
    return built["builds"][-1]


def workspace_limited(built: Built) -> str:
    """Return evidence that the workspace was limited to 2 GB, decimal or binary."""
    found = asked_for(built)["workspace_bytes"]
    if not _LEAST_WORKSPACE <= found <= WORKSPACE_BYTES:
        expected = f"a workspace limit of {WORKSPACE_GB} GB ({WORKSPACE_BYTES:,} bytes)"
        advice = "set the limit of the configuration's WORKSPACE memory pool, in bytes"
        raise Missed(expected, f"{found:,} bytes", advice)
    return f"{found:,} bytes"


def runs_in(precision: str, built: Built, function: str) -> str:
    """Return evidence that a precision was asked for and, on the CPU engine, that most convolutions run in it.

    It is asked for by a flag or by the network's types, the only way in TensorRT 11. TensorRT picks kernels by timing
    and may find FP32 faster for a network this small, so there only the request counts.
    """
    asked, facts = asked_for(built), facts_of(plan_of(built, function), "the engine")
    advice = to_ask(precision, f"set the builder flag that allows {precision}")
    if not (asked["flags"][precision] or asked[_BY_TYPES[precision]]):
        raise Missed(f"{precision} allowed, by a builder flag or the network's types", "neither", advice)
    said = "convolutions: " + ", ".join(f"{number} in {kind.upper()}" for kind, number in facts["convolutions"].items())
    if facts["stored"].get("f16"):
        said += "; weights stored in FP16"
    if ENGINE != "tensorrt" and _share(facts, precision) < _LEAST_CONVOLUTIONS:
        raise Missed(f"most convolutions in {precision}", said, advice)
    return f"{precision} allowed; {said}"


in_int8 = partial(runs_in, "INT8")


def _share(facts: PlanFacts, precision: str) -> float:
    """Return the share of convolutions that run in a precision; for FP16 also of weights stored in it.

    On a processor without FP16 arithmetic the CPU engine only stores the weights in it.
    """
    convolutions, names = facts["convolutions"], {"FP16": ("fp16", "bf16"), "INT8": ("int8",)}[precision]
    running = sum(convolutions.get(name, 0) for name in names) / max(1, sum(convolutions.values()))
    full, half = (facts["stored"].get(name, 0) // size for name, size in (("f32", 4), ("f16", 2)))
    return max(running, half / max(1, full + half)) if precision == "FP16" else running


def to_ask(precision: str, by_flag: str) -> str:
    """Return how to ask for FP16 or INT8 in the current API; `by_flag` is TensorRT 10's way."""
    return by_flag if API == 10 else f"TensorRT 11 has no such flag: {_IN_THE_MODEL[precision]} before you parse it"


def repeats_parser(raised: str, output: str, operator: str) -> str:
    """Return evidence that the exception, or what was printed, has the parser's reason for an unknown operator."""
    # TensorRT's own log has the reason in any case.
    said = [raised, *(line for line in output.splitlines() if "[TRT]" not in line)]
    if not any(known in "\n".join(said) for known in (operator, *_parser_reasons(unsupported_onnx(operator)))):
        expected = f"an exception with the parser's errors: the operator {operator} is unknown to TensorRT"
        advice = "put parser.get_error(i), for each of parser.num_errors, into the exception"
        raise Missed(expected, raised[:200], advice)
    return raised[:120]


def _parser_reasons(onnx: bytes) -> list[str]:
    """Return the errors of this TensorRT's parser for a model; not every version names the operator."""
    logger = trt.Logger(trt.Logger.INTERNAL_ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(network_flags())
    parser = trt.OnnxParser(network, logger)
    parser.parse(onnx)
    return [parser.get_error(index).desc() for index in range(parser.num_errors)]


def small_enough(plan: bytes, model: bytes, most: float) -> str:
    """Return evidence that a plan stores its weights in a small type, from its size relative to the ONNX file's.

    That shows the precision without layer details, on every processor.
    """
    share = len(plan) / len(model)
    if share > most:
        precision, width = ("FP16", "two bytes") if most == HALF_SIZE else ("INT8", "one byte")
        expected = f"less than {most:.0%} of the ONNX file's size: {precision} weights take {width} instead of four"
        advice = to_ask(precision, "check the precision flags of the builder configuration")
        raise Missed(expected, f"{share:.0%}", advice)
    return f"{len(plan):,} bytes, {share:.0%} of the ONNX file's"
