"""Visible checks of step 3: the engine's own account of its profile, and the rule for where throughput saturates."""

from collections.abc import Callable, Mapping
from typing import Any

from helpers.backend import trt
from helpers.feedback.checklist import Checklist, visible_check
from helpers.feedback.engines import build_small, check_plan, half_precision
from helpers.lab import PROFILE_BATCHES
from helpers.missed import Missed
from helpers.probes.builds import plan_facts
from helpers.probes.networks import EDGE, tiny_onnx

__all__ = ["check_dynamic_engine", "check_saturation"]

_SEED = 2027
_MEASURED = (1, 4, 16, 32)
_GAIN_PERCENT = 10


@visible_check("03_dynamic", "Dynamic engine")
def check_dynamic_engine(check: Checklist, build_engine_dynamic: Callable[..., Any]) -> None:
    """Build a small network with it; read the profile back, offer batches to the engine, look at the precisions."""
    network = tiny_onnx(_SEED)
    built = build_small(check, build_engine_dynamic, "build_engine_dynamic", network)
    check_plan(check, built)
    check.verify("the profile is batch 1 to 32, tuned for 8", lambda: _profile(built.plan or b""))
    check.verify("batches 1, 5 and 32 are accepted, 33 is refused", lambda: _batches(built.plan or b""))
    check.verify("the layers run in half precision", lambda: half_precision(built))
    twin = build_small(check, build_engine_dynamic, "build_engine_dynamic", network, fp16=False)
    check.verify("fp16=False gives an FP32 engine", lambda: _fp32(twin.plan or b""))


@visible_check("03_dynamic", "Where throughput saturates")
def check_saturation(check: Checklist, throughput: Mapping[int, float], saturation_batch: int | None) -> None:
    """Check that all four batches were measured and that the answer follows from them by the rule."""
    check.require("four batches are measured", lambda: _measured(throughput))
    check.verify("the answer follows from them", lambda: _follows(throughput, saturation_batch))


def _profile(plan: bytes) -> str:
    facts = plan_facts(plan) or {}
    expected = [[batch, 3, EDGE, EDGE] for batch in PROFILE_BATCHES]
    found = [shapes for profile in facts.get("profiles", []) for shapes in profile.values()]
    if found != [expected]:
        advice = "the order is min, opt, max; a profile counts only once the configuration has it"
        raise Missed(f"one profile {expected}", str(found), advice)
    return f"min, opt, max: {expected}"


def _batches(plan: bytes) -> str:
    engine = trt.Runtime(trt.Logger(trt.Logger.INTERNAL_ERROR)).deserialize_cuda_engine(plan)
    context, name = engine.create_execution_context(), engine.get_tensor_name(0)
    taken = {batch: bool(context.set_input_shape(name, (batch, 3, EDGE, EDGE))) for batch in (1, 5, 32, 33)}
    if taken != {1: True, 5: True, 32: True, 33: False}:
        found = ", ".join(f"{batch} {'accepted' if ok else 'refused'}" for batch, ok in taken.items())
        raise Missed("1, 5, 32 accepted, 33 refused", found, "look at the profile's least and largest shape")
    return "offered to an execution context"


def _fp32(plan: bytes) -> str:
    facts = plan_facts(plan)
    precisions = facts["precisions"] if facts else {}
    if not facts or precisions.get("fp16") or precisions.get("bf16"):
        raise Missed("layers in FP32 only", f"layers by precision: {precisions}", "set the FP16 flag only if fp16")
    return f"layers by precision: {precisions}"


def _measured(throughput: Mapping[int, float]) -> str:
    if sorted(throughput) != list(_MEASURED) or not all(rate > 0 for rate in throughput.values()):
        raise Missed(f"images a second for each of {_MEASURED}", str(dict(throughput)), "run the measuring cell above")
    return ", ".join(f"{batch}: {throughput[batch]:.0f} images/s" for batch in _MEASURED)


def _follows(throughput: Mapping[int, float], answer: int | None) -> str:
    if answer not in _MEASURED:
        found = "nothing yet" if answer is None else repr(answer)
        raise Missed(f"saturation_batch to be one of {_MEASURED}", found, "compute it from `throughput`")
    gains = {
        batch: (throughput[larger] / throughput[batch] - 1) * 100
        for batch, larger in zip(_MEASURED, _MEASURED[1:], strict=False)
    }
    said = "; ".join(f"from batch {batch} on {gain:+.0f} %" for batch, gain in gains.items())
    enough = [batch for batch in gains if batch < answer and gains[batch] < _GAIN_PERCENT]
    if enough or gains.get(answer, 0) >= _GAIN_PERCENT:
        advice = (
            f"the first batch whose next one gains less than {_GAIN_PERCENT} %; the largest if every step gains more"
        )
        raise Missed("the batch that the rule gives", f"{answer}, while the gains are: {said}", advice)
    return f"batch {answer}; gains: {said}"
