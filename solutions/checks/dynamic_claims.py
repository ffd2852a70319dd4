"""Claims of step 3: one engine for batches 1 to 32, tuned for 8, and what its throughput says."""

import math
from typing import Any

from helpers.backend import ENGINE, trt
from helpers.lab import PROFILE_BATCHES
from helpers.missed import Missed
from helpers.points.builders import HALF_SIZE, facts_of, small_enough
from helpers.points.case import Case
from helpers.probes.networks import EDGE, tiny_onnx
from helpers.probes.student import Student
from solutions.checks.builders import check_workspace, fails_cleanly
from solutions.checks.core.claim import Earned, claim
from solutions.checks.trusted.engine_speed import against_reference
from solutions.checks.trusted.plans import HALF_TOLERANCE, check_outputs, same_network
from solutions.checks.trusted.reference import reference
from solutions.pipeline.inference import InferenceEngine

FUNCTION = "build_engine_dynamic"
ARTIFACT = "resnet50_dynamic_fp16.engine"
RUN_BATCHES = (1, 5, 32)
SPEED_BATCHES = (8, 32)
MEASURED = (1, 4, 16, 32)
GAIN = 1.10
_FACTOR = 20.0
"""How far a measured throughput may be from ours: a busy machine is slower, another unit is further off."""


def _network(case: Case) -> bytes:
    return tiny_onnx(case.number("dynamic.network"))


def _built(student: Student, case: Case) -> dict[str, Any]:
    return student.call("build_engine", function=FUNCTION, onnx=_network(case)).require(FUNCTION)


def _plan(student: Student, case: Case) -> bytes:
    plan = _built(student, case)["returned"]
    facts_of(plan, f"what {FUNCTION} returns")
    return plan


@claim(
    "dynamic.plan",
    cell="dynamic_engine",
    points=0.5,
    title="An engine is built as asked, returned and written; failures raise",
)
def plan_claim(student: Student, case: Case) -> str:
    plan, file = _plan(student, case), _built(student, case)["file"]
    if file != plan:
        found = "no file" if file is None else f"{len(file):,} bytes in the file, {len(plan):,} returned"
        raise Missed("the same bytes at engine_path and returned", found, "write what you return, in binary mode")
    check_workspace(_built(student, case))
    fails_cleanly(student, "failing_build", FUNCTION, _network(case), function=FUNCTION)
    return f"{len(plan):,} bytes, file and return value equal"


@claim("dynamic.profile", cell="dynamic_engine", points=1.75, title="One profile: batch 1 to 32, tuned for 8")
def profile(student: Student, case: Case) -> str:
    expected = [[batch, 3, EDGE, EDGE] for batch in PROFILE_BATCHES]
    facts = facts_of(_plan(student, case), "the engine")
    found = [list(profile.values()) for profile in facts["profiles"]]
    shapes = [tensor["shape"] for tensor in facts["inputs"].values()]
    if shapes != [[-1, 3, EDGE, EDGE]] or found != [[expected]]:
        raise Missed(
            f"one profile whose min, opt and max are {expected}",
            f"input {shapes}, profiles {found}",
            "look at the order of the three shapes, at the input's name, and at what add_optimization_profile returns",
        )
    return f"min, opt, max: {expected}"


@claim("dynamic.outputs", cell="dynamic_engine", points=1.75, title="Batches 1, 5 and 32 give right outputs")
def outputs(student: Student, case: Case) -> Earned:
    plan, evidence, missed = _plan(student, case), [], None
    for batch in RUN_BATCHES:
        images = case.random(f"dynamic.images.{batch}").standard_normal((batch, 3, EDGE, EDGE)).astype("float32")
        try:
            evidence.append(check_outputs(plan, _network(case), images, HALF_TOLERANCE))
        except Missed as found:
            missed = found
    return Earned(len(evidence) / len(RUN_BATCHES), "; ".join(evidence), missed)


@claim("dynamic.refuses", cell="dynamic_engine", points=0.75, title="A batch of 32 is accepted, one of 33 refused")
def refuses(student: Student, case: Case) -> str:
    largest = PROFILE_BATCHES[-1]
    found = {batch: _accepts(_plan(student, case), batch) for batch in (largest, largest + 1)}
    if found != {largest: True, largest + 1: False}:
        said = ", ".join(f"{batch} {'accepted' if taken else 'refused'}" for batch, taken in found.items())
        raise Missed(f"{largest} accepted, {largest + 1} refused", said, "look at the profile's largest shape")
    return f"{largest} accepted, {largest + 1} refused"


def _accepts(plan: bytes, batch: int) -> bool:
    """Whether an execution context takes this batch, asked of TensorRT itself."""
    engine = trt.Runtime(trt.Logger(trt.Logger.INTERNAL_ERROR)).deserialize_cuda_engine(plan)
    context = engine.create_execution_context()
    return bool(context.set_input_shape(engine.get_tensor_name(0), (batch, 3, EDGE, EDGE)))


@claim("dynamic.half_precision", cell="dynamic_engine", points=0.75, title="The layers run in half precision")
def half_precision(student: Student, case: Case) -> str:
    precisions, asked = _precisions(_built(student, case))
    if not (_half(precisions) or (asked and ENGINE == "tensorrt")):  # TensorRT may find FP32 faster for a small network
        raise Missed("layers in half precision", f"layers by precision: {precisions}", "set the FP16 flag")
    return f"layers by precision: {precisions}"


@claim("dynamic.fp32", cell="dynamic_engine", points=0.5, title="fp16=False gives an FP32 engine")
def fp32(student: Student, case: Case) -> str:
    first = {"onnx": _network(case), "options": {}}  # one that is remembered must not be given back
    options = {"fp16": False}
    call = student.call("build_engine", function=FUNCTION, onnx=_network(case), options=options, before=first)
    precisions, asked = _precisions(call.require(FUNCTION))
    if _half(precisions) or asked:
        raise Missed("no layer in half precision", f"layers by precision: {precisions}", "set the flag only if fp16")
    return f"layers by precision: {precisions}"


def _precisions(built: dict[str, Any]) -> tuple[dict[str, int], bool]:
    asked = bool(built["builds"]) and built["builds"][-1]["flags"].get("FP16", False)
    return facts_of(built["returned"], f"what {FUNCTION} returns")["precisions"], asked


def _half(precisions: dict[str, int]) -> int:
    return sum(precisions.get(name, 0) for name in ("fp16", "bf16"))


def _artifact(student: Student, case: Case) -> bytes:
    plan = student.artifact(ARTIFACT)
    if plan is None:
        raise Missed(f"{ARTIFACT} among the artifacts", "no such file", f"run the cell that calls {FUNCTION}")
    facts_of(plan, ARTIFACT)
    return plan


@claim("dynamic.speed", cell="dynamic_speed", points=3, title="As fast as the reference engine at batches 8 and 32")
def speed(student: Student, case: Case) -> Earned:
    plan, parts = _artifact(student, case), []
    small_enough(plan, reference().bytes("resnet50.onnx"), HALF_SIZE)
    if same_network(plan, reference().bytes(ARTIFACT)):
        return Earned(1.0, "the same compiled network as the reference engine's")
    for batch in SPEED_BATCHES:
        try:
            parts.append(_speed(plan, case, batch))
        except Missed as missed:
            parts.append(Earned(0, f"batch {batch}: no speed", missed))
    missed = next((part.missed for part in parts if part.missed), None)
    return Earned(sum(part.share for part in parts) / len(parts), "; ".join(part.evidence for part in parts), missed)


def _speed(plan: bytes, case: Case, batch: int) -> Earned:
    images = case.random(f"dynamic.artifact.{batch}").standard_normal((batch, 3, EDGE, EDGE)).astype("float32")
    check_outputs(plan, reference().bytes("resnet50.onnx"), images, HALF_TOLERANCE)
    advice = "check the FP16 flag and the shape that the profile is tuned for"
    return against_reference(plan, reference().path(ARTIFACT), advice, batch)


@claim("dynamic.saturation", cell="dynamic_speed", points=1, title="Where the throughput saturates, by the stated rule")
def saturation(student: Student, case: Case) -> str:
    found = student.call("saturation").require("the measurement")
    rows = found["throughput"] or []
    measured = dict(rows)
    if sorted(measured) != list(MEASURED) or not all(math.isfinite(rate) and rate > 0 for rate in measured.values()):
        raise Missed(f"throughput in images a second at batches {MEASURED}", str(rows), "run the measuring cell")
    _check_plausible(_artifact(student, case), measured)
    expected = _saturates(measured)
    if found["saturation_batch"] != expected:
        raise Missed(
            f"saturation_batch {expected}, from the throughputs {_text(measured)}",
            str(found["saturation_batch"]),
            "compute it from `throughput` by the rule, so that it fits every machine",
        )
    return f"batch {expected} of {_text(measured)}"


def _saturates(measured: dict[int, float]) -> int:
    """Return the first batch whose next one gains less than 10 %; the largest where every step gains more."""
    steps = zip(MEASURED, MEASURED[1:], strict=False)
    return next((batch for batch, larger in steps if measured[larger] < GAIN * measured[batch]), MEASURED[-1])


def _check_plausible(plan: bytes, measured: dict[int, float]) -> None:
    """Raise Missed where the largest batch's throughput is nowhere near what the same engine gives here."""
    batch = MEASURED[-1]
    with InferenceEngine(plan) as engine:
        if engine.max_batch < batch:
            raise Missed(f"an engine that takes batch {batch}", f"at most {engine.max_batch}", "look at the profile")
        engine.bind(batch)
        ours = batch / min(engine.execute_ms() for _ in range(2)) * 1e3
    if not 1 / _FACTOR <= measured[batch] / ours <= _FACTOR:
        raise Missed(
            f"about {ours:.0f} images a second at batch {batch}, as this engine gives here",
            f"{measured[batch]:.4g}",
            "measure the engine; a batch counts as many images as it holds",
        )


def _text(measured: dict[int, float]) -> str:
    return ", ".join(f"{batch}: {rate:.0f}" for batch, rate in sorted(measured.items()))
