"""Claims of step 2: a half-precision engine of the model it was given, built with care."""

from typing import Any

import numpy as np

from helpers.backend import ENGINE, trt
from helpers.probes.networks import EDGE, tiny_onnx
from helpers.probes.onnx_files import UNHEARD, unsupported_onnx
from solutions.checks.builders import check_workspace, fails_cleanly
from solutions.checks.case import Case
from solutions.checks.claims import Earned, Missed, claim
from solutions.checks.engine_speed import against_pytorch, against_reference
from solutions.checks.plans import HALF_SIZE, HALF_TOLERANCE, check_outputs, check_size, facts_of
from solutions.checks.student import Reply, Student

FUNCTION = "build_engine_fp16"
ARTIFACT = "resnet50_fp16.engine"
BATCH = 8
"""The largest batch of the profile that the task gives."""

_SLIPS = ("AttributeError", "NameError", "TypeError", "UnboundLocalError")


def _network(case: Case) -> bytes:
    return tiny_onnx(case.number("fp16.network"))


def _images(case: Case, number: int) -> np.ndarray:
    return case.random("fp16.images").standard_normal((number, 3, EDGE, EDGE)).astype(np.float32)


def _built(student: Student, case: Case) -> dict[str, Any]:
    return student.call("build_engine", function=FUNCTION, onnx=_network(case)).require(FUNCTION)


def _plan(student: Student, case: Case) -> bytes:
    plan = _built(student, case)["returned"]
    facts_of(plan, f"what {FUNCTION} returns")
    return plan


@claim("fp16.plan", cell="fp16_engine", points=1, title="A serialized engine is returned and written to engine_path")
def plan_claim(student: Student, case: Case) -> str:
    built = _built(student, case)
    if built["returned"] is None:
        raise Missed(
            f"{FUNCTION} to return the serialized engine",
            f"a {built['returned_type']}",
            "return the serialized network",
        )
    facts = facts_of(built["returned"], f"what {FUNCTION} returns")
    if built["file"] is None:
        raise Missed(
            "the engine in a file at engine_path", "no file there", "write the serialized bytes to engine_path"
        )
    if built["file"] != built["returned"]:
        raise Missed(
            "the file and the returned engine to be the same bytes",
            f"{len(built['file']):,} bytes in the file, {len(built['returned']):,} returned",
            "write the bytes that you return, in binary mode",
        )
    if not built["onnx_kept"]:
        raise Missed("the ONNX file as it was", "another content", "read it only; others build from it too")
    return f"{len(built['returned']):,} bytes, {facts['layers']} layers, file and return value equal"


@claim("fp16.half_precision", cell="fp16_engine", points=1.5, title="The layers really run in half precision")
def half_precision(student: Student, case: Case) -> str:
    plan = _plan(student, case)
    precisions = facts_of(plan, "the engine")["precisions"]
    half = sum(precisions.get(name, 0) for name in ("fp16", "bf16"))
    asked = _built(student, case)["builds"][-1]["flags"].get("FP16", False)
    if half or (asked and ENGINE == "tensorrt"):  # TensorRT may find FP32 faster for a network this small
        return f"layers by precision: {precisions}"
    raise Missed(
        "layers in half precision", f"layers by precision: {precisions}", "look for the builder flag that allows FP16"
    )


@claim("fp16.workspace", cell="fp16_engine", points=0.75, title="The builder's workspace is limited to 2 GB")
def workspace(student: Student, case: Case) -> str:
    return check_workspace(_built(student, case))


@claim("fp16.outputs", cell="fp16_engine", points=1.5, title="It computes what the ONNX model computes")
def outputs(student: Student, case: Case) -> str:
    plan = _plan(student, case)
    images = _images(case, BATCH)
    single = check_outputs(plan, _network(case), images[:1], HALF_TOLERANCE)
    return f"{single}; {check_outputs(plan, _network(case), images, HALF_TOLERANCE)}"


@claim("fp16.parser_errors", cell="fp16_engine", points=0.75, title="What fails raises, with the parser's reason")
def parser_errors(student: Student, case: Case) -> str:
    fails_cleanly(student, "failing_build", FUNCTION, _network(case), function=FUNCTION)
    reply = _refused(student, unsupported_onnx(), "an ONNX model with an operator that TensorRT does not know")
    logged = "[TRT]"  # TensorRT's own log repeats the reason whatever the student does
    printed = "\n".join(line for line in reply.output.splitlines() if logged not in line)
    if not any(reason in f"{reply.error['message']}\n{printed}" for reason in _reasons(unsupported_onnx())):
        raise Missed(
            "an error that repeats the parser's message",
            f"{reply.error['type']}: {reply.error['message'][:200]}",
            "collect parser.get_error(i) for each of parser.num_errors and put them into the exception",
        )
    return f"{reply.error['type']}: {reply.error['message'][-120:]}"


def _refused(student: Student, onnx: bytes, what: str) -> Reply:
    """Return the reply to a model that cannot be parsed; raise Missed where nothing was raised on purpose."""
    reply = student.call("build_engine", function=FUNCTION, onnx=onnx)
    if reply.error is None:
        found = f"a {reply.value['returned_type']} and no exception"
        advice = "look at what the parser returns, and raise with its errors"
        raise Missed(f"an exception for {what}", found, advice)
    if reply.error["type"] in ("NotImplementedError", "MissingFunctionError", "TimeLimitError"):
        reply.require(FUNCTION)
    if reply.error["type"] in _SLIPS:
        found = f"{reply.error['type']}: {reply.error['message'][:200]}"
        raise Missed(f"an exception that you raise for {what}", found, "look at what the parser returns")
    return reply


def _reasons(onnx: bytes) -> list[str]:
    """Return the texts of which one must be repeated: what this TensorRT's parser says of the model."""
    logger = trt.Logger(trt.Logger.INTERNAL_ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    parser = trt.OnnxParser(network, logger)
    parser.parse(onnx)
    errors = [parser.get_error(index) for index in range(parser.num_errors)]
    return [UNHEARD, *(error.desc() for error in errors), *(str(error.code()).rpartition(".")[2] for error in errors)]


@claim("fp16.repeatable", cell="fp16_engine", points=0.5, title="It works twice in a row")
def repeatable(student: Student, case: Case) -> str:
    other, images = tiny_onnx(case.number("fp16.other")), _images(case, 1)
    call = student.call("build_engine", function=FUNCTION, onnx=other, before={"onnx": _network(case), "options": {}})
    plan = call.require(FUNCTION)["returned"]
    facts_of(plan, "the second engine")
    return f"another model under the same names: {check_outputs(plan, other, images, HALF_TOLERANCE)}"


def _artifact(student: Student, case: Case) -> bytes:
    plan = student.artifact(ARTIFACT)
    if plan is None:
        raise Missed(f"{ARTIFACT} among the artifacts", "no such file", f"run the cell that calls {FUNCTION}")
    facts_of(plan, ARTIFACT)
    images = case.random("fp16.artifact").standard_normal((1, 3, EDGE, EDGE)).astype("float32")
    check_outputs(plan, case.reference.bytes("resnet50.onnx"), images, HALF_TOLERANCE)
    return plan


@claim("fp16.speed", cell="fp16_speed", points=3, title="As fast as the reference engine")
def speed(student: Student, case: Case) -> Earned:
    plan, advice = _artifact(student, case), "check that the FP16 flag is set before the build"
    check_size(plan, case.reference.bytes("resnet50.onnx"), HALF_SIZE)
    return against_reference(plan, case.reference.path(ARTIFACT), advice)


@claim("fp16.faster_than_pytorch", cell="fp16_speed", points=2, title="Faster than PyTorch FP32")
def faster_than_pytorch(student: Student, case: Case) -> str:
    return against_pytorch(_artifact(student, case), "check that the engine is an FP16 one")
