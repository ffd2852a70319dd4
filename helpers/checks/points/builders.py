"""What is asked of every engine builder: what it returns and writes, the workspace, the precision, and its failures.

They judge `built`, what a probe of helpers/checks/probes/builds.py answered about one build, or ask a case for builds
of their own.
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
"""Most of the ONNX file's size that an engine of the lab's model in half precision takes (two bytes of four)."""

INT8_SIZE = 0.45
"""The same of an INT8 engine (one byte of four)."""

LEAST_SPEEDUP = 1.2
"""Times PyTorch FP32's throughput: what fusion alone gives, also where there are no half-precision or INT8 units."""

_LEAST_CONVOLUTIONS = 0.5  # of a right build on the CPU engine all of them are
_BY_TYPES = {"FP16": "halves", "INT8": "quantizers"}
_IN_THE_MODEL = {"FP16": "cast the model to FP16", "INT8": "put Q/DQ nodes into the model"}
NO_MODEL = b"garbage, no ONNX model"
"""No parser takes it. Its first byte matters: TensorRT's reads a few others as an empty model, without an error."""


def facts_of(plan: bytes | None, what: str) -> PlanFacts:
    """Return `plan_facts`; raise Missed where there is no plan or it is no engine of this TensorRT."""
    facts = plan_facts(plan) if plan else None
    if facts is None:
        found = f"{len(plan):,} bytes that cannot be deserialized" if plan else "nothing"
        advice = "write and return the serialized network itself, unchanged"
        raise Missed(f"{what} to be an engine that this TensorRT can load", found, advice)
    return facts


def returned(built: Built, function: str, ends: Ends = (("input",), ("output",))) -> str:
    """Return evidence that an engine was returned whose inputs and outputs have the ONNX file's names and types."""
    plan, right = built["returned"], OneOf(("FLOAT", "INT32"))
    facts = facts_of(plan, f"what {function} returns, of type {built['returned_type']},")
    wanted = {side: dict.fromkeys(names, right) for side, names in zip(("inputs", "outputs"), ends, strict=True)}
    advice = "leave the network's names alone; only layers get a lower precision"
    agree(facts, wanted, "the engine: the ONNX file's names and types", advice)
    return f"{len(plan):,} bytes, {facts['layers']} layers"


def written(built: Built, alone: bool = False) -> str:
    """Return evidence that the engine that was returned is in the file at engine_path.

    Unless this is asked `alone`, that nothing is returned is a point of its own.
    """
    plan, file = built["returned"], built["file"]
    if plan is None and not alone and file and plan_facts(file):
        return f"{len(file):,} bytes in the file"
    if file != plan:
        other = "no new file there" if file in (None, OLDER) else f"{len(file):,} other bytes in the file"
        found = f"{other}, {len(plan or b''):,} bytes returned"
        advice = "write what you return to engine_path, in binary mode, in the place of what is there"
        raise Missed("the same bytes at engine_path and returned", found, advice)
    return "file and return value equal"


def plan_of(built: Built, function: str) -> bytes:
    """Return the engine that was returned, else the one in the file: which of them is missing is a point of its own."""
    found = [plan for plan in (built["returned"], built["file"]) if plan and plan_facts(plan)]
    if not found:
        nowhere = "none that can be loaded, neither returned nor in the file"
        raise Missed(f"an engine from {function}", nowhere, "look at the first point")
    return found[0]


def profile_is(plan: bytes, batches: tuple[int, int, int]) -> str:
    """Return evidence that an engine has one profile, for its one input, of these batches of 3×224×224."""
    facts = facts_of(plan, "the engine")
    expected = [[batch, 3, EDGE, EDGE] for batch in batches]
    found = [list(profile.values()) for profile in facts["profiles"]]
    if found != [[expected]]:
        advice = "the order is min, opt, max; a profile counts only once the configuration that is built has it"
        said = " and ".join(str(shapes) for profile in found for shapes in profile) or "none"
        raise Missed(f"one profile {expected}", said, advice)
    return f"min, opt, max: {expected}"


def asked_for(built: Built) -> dict[str, Any]:
    """Return what TensorRT was last asked for; raise Missed where nothing was built."""
    if not built["builds"]:
        found = "an engine that was not built now"
        raise Missed("a build for each call", found, "call build_serialized_network, do not hand out an earlier engine")
    return built["builds"][-1]


def workspace_limited(built: Built) -> str:
    """Return evidence that the build was limited to 2 GB, of either size of a GB."""
    found = asked_for(built)["workspace_bytes"]
    if not _LEAST_WORKSPACE <= found <= WORKSPACE_BYTES:
        expected = f"a workspace limit of {WORKSPACE_GB} GB ({WORKSPACE_BYTES:,} bytes)"
        advice = "set the WORKSPACE memory pool's limit on the builder's configuration, in bytes"
        raise Missed(expected, f"{found:,} bytes", advice)
    return f"{found:,} bytes"


def runs_in(precision: str, built: Built, function: str) -> str:
    """Return evidence that a precision was asked for and, on the CPU engine, is that of most convolutions.

    It is asked for by the flag or, as TensorRT 11 knows it alone, by the network's types. TensorRT picks by timing, and
    may find FP32 faster for a network this small: there the request is judged. The CPU engine takes the precision asked
    for.
    """
    asked, facts = asked_for(built), facts_of(plan_of(built, function), "the engine")
    advice = to_ask(precision, f"set the flag that allows {precision} on the configuration that is built")
    if not (asked["flags"][precision] or asked[_BY_TYPES[precision]]):
        raise Missed(f"{precision} allowed in the build, or in the network's types", "neither of them", advice)
    said = f"convolutions by precision: {facts['convolutions']}"
    if ENGINE != "tensorrt" and _share(facts, precision) < _LEAST_CONVOLUTIONS:
        raise Missed(f"layers in {precision}", said, advice)
    return f"{precision} allowed; {said}"


in_int8 = partial(runs_in, "INT8")


def _share(facts: PlanFacts, precision: str) -> float:
    """Return the share of an engine's convolutions that run in a precision; for FP16, of weights that are stored so.

    On a processor without half-precision arithmetic the CPU engine stores the weights in it alone.
    """
    convolutions, names = facts["convolutions"], {"FP16": ("fp16", "bf16"), "INT8": ("int8",)}[precision]
    running = sum(convolutions.get(name, 0) for name in names) / max(1, sum(convolutions.values()))
    full, half = (facts["stored"].get(name, 0) // size for name, size in (("f32", 4), ("f16", 2)))
    return max(running, half / max(1, full + half)) if precision == "FP16" else running


def to_ask(precision: str, by_flag: str) -> str:
    """Return how to ask for FP16 or INT8 in the API that is spoken; `by_flag` is TensorRT 10's way."""
    return by_flag if API == 10 else f"TensorRT 11 has no flag: {_IN_THE_MODEL[precision]} before it is parsed"


def repeats_parser(raised: str, output: str, operator: str) -> str:
    """Return evidence that what was raised, or printed before, has the parser's reason for an unknown operator."""
    # TensorRT's own log repeats the reason whatever the student does.
    said = [raised, *(line for line in output.splitlines() if "[TRT]" not in line)]
    if not any(known in "\n".join(said) for known in (operator, *_parser_reasons(unsupported_onnx(operator)))):
        expected = f"an exception that repeats the parser's errors for the operator {operator}, unknown to TensorRT"
        advice = "collect parser.get_error(i) for each of parser.num_errors and put them into the exception"
        raise Missed(expected, raised[:200], advice)
    return raised[:120]


def _parser_reasons(onnx: bytes) -> list[str]:
    """Return what this TensorRT's parser says of a model; not each one names the operator."""
    logger = trt.Logger(trt.Logger.INTERNAL_ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(network_flags())
    parser = trt.OnnxParser(network, logger)
    parser.parse(onnx)
    return [parser.get_error(index).desc() for index in range(parser.num_errors)]


def small_enough(plan: bytes, model: bytes, most: float) -> str:
    """Return evidence that a plan's weights are of a small type, by its share of the ONNX file's size.

    That tells an engine's precision without layer details and on every processor.
    """
    share = len(plan) / len(model)
    if share > most:
        precision, width = ("FP16", "two bytes") if most == HALF_SIZE else ("INT8", "one byte")
        expected = f"less than {most:.0%} of the ONNX file's size: most weights take {width} instead of four"
        advice = to_ask(precision, "look at the precision flags of the configuration that is built")
        raise Missed(expected, f"{share:.0%}", advice)
    return f"{len(plan):,} bytes, {share:.0%} of the ONNX file's"
