"""Claims of step 5: a class that runs any engine of one input and one output, again and again, and cleans up."""

from typing import Any

import numpy as np

from helpers.backend import ENGINE
from helpers.lab import QUICK
from helpers.missed import Missed
from helpers.points.case import Case
from helpers.probes.images import varied_images
from helpers.probes.student import Student
from solutions.checks.core.claim import Earned, claim
from solutions.checks.trusted.small_plans import SmallPlan, row_errors, small_plan

CLASS = "TensorRTInference"
CELL = "inference_class"
MOST = 32

_TOLERANCE = {"fp32": 5e-3, "fp16": 3e-2}
_SMALL_EDGE, _SMALL_CLASSES, _FIXED_BATCH = 96, 17, 7
_CYCLES, _WARM_UP = (40, 10) if QUICK else (80, 20)
_LEFT_BYTES = 64 << 20
_HELD_BYTES = 8 << 20 if ENGINE == "tensorrt" else 0
"""What may stay on the device after close(). On a GPU, where others' memory counts too, less than half of the buffer
for 32 images; the CPU engine counts every allocation."""


def _network(case: Case, precision: str = "fp32") -> SmallPlan:
    return small_plan(case.number("inference.network"), precision)


def _calls(case: Case, purpose: str, *numbers: int, forms: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    forms = forms or ("plain",) * len(numbers)
    return [
        {"seed": case.number(f"{purpose}.{index}"), "number": number, "form": form}
        for index, (number, form) in enumerate(zip(numbers, forms, strict=True))
    ]


def _infer(student: Student, small: SmallPlan, calls: list[dict[str, Any]]) -> dict[str, Any]:
    return student.call("infer", plan=small.plan, edge=small.edge, calls=calls).require(CLASS)


def _check(result: Any, small: SmallPlan, call: dict[str, Any], what: str, precision: str = "fp32") -> float:
    """Return the largest relative error of a row; raise Missed where `result` is not the right outputs."""
    expected = small.expected(varied_images(call["seed"], call["number"], small.edge))
    if not isinstance(result, np.ndarray) or result.shape != expected.shape:
        kind = f"an array of shape {result.shape}" if isinstance(result, np.ndarray) else f"a {result['type']}"
        raise Missed(
            f"{what}: a NumPy array of shape {expected.shape}",
            kind,
            "return one row of scores an image, whatever the batch",
        )
    errors = row_errors(result.astype(np.float32), expected)
    worst = float(errors.max()) if np.isfinite(errors).all() else float("inf")
    if worst > _TOLERANCE[precision]:
        wrong = int(np.sum(~(errors <= _TOLERANCE[precision])))
        raise Missed(
            f"{what}: the network's outputs for these images",
            f"{wrong} of {len(errors)} rows are others (relative error up to {worst:.0%})",
            "follow one image: host array, device buffer, execution, device buffer, wait, host array",
        )
    return worst


@claim("inference.outputs", cell=CELL, points=2, title="Three engines give their outputs at batches 1, 7 and 32")
def outputs(student: Student, case: Case) -> str:
    fixed = small_plan(
        case.number("inference.fixed"),
        batches=(1, _FIXED_BATCH, _FIXED_BATCH),
        edge=_SMALL_EDGE,
        classes=_SMALL_CLASSES,
        fixed=True,
    )
    engines = {
        "FP32 engine": (_network(case), "fp32", (1, 7, MOST)),
        "FP16 engine": (_network(case, "fp16"), "fp16", (1, 7, MOST)),
        f"engine of fixed shape {_FIXED_BATCH}×3×{fixed.edge}×{fixed.edge}": (fixed, "fp32", (_FIXED_BATCH,)),
    }
    evidence = []
    for name, (small, precision, numbers) in engines.items():
        calls = _calls(case, f"inference.outputs.{name}", *numbers)
        found = _infer(student, small, calls)["outputs"]
        worst = max(
            _check(result, small, call, f"{name}, batch {call['number']}", precision)
            for result, call in zip(found, calls, strict=True)
        )
        evidence.append(f"{name}: relative error {worst:.1e}")
    return "; ".join(evidence)


@claim("inference.inputs", cell=CELL, points=1, title="Arrays that are not contiguous, or float64, give the same")
def inputs(student: Student, case: Case) -> str:
    small = _network(case)
    forms = ("channels_last", "every_second", "float64")
    calls = _calls(case, "inference.inputs", 7, 5, MOST, forms=forms)
    found = _infer(student, small, calls)
    for result, call in zip(found["outputs"], calls, strict=True):
        _check(result, small, call, f"an input in the form {call['form']}")
    if not all(found["untouched"]):
        found = "it was changed, or cannot be written any more"
        raise Missed("the caller's array to stay as it was", found, "work on a copy of your own")
    return "channels-last view, every second image, float64"


@claim("inference.copies", cell=CELL, points=1, title="Results are float32 arrays that later calls do not change")
def copies(student: Student, case: Case) -> str:
    small = _network(case)
    calls = _calls(case, "inference.copies", 7, 7, MOST, 7)
    found = _infer(student, small, calls)
    for result, later, call in zip(found["outputs"], found["later"], calls, strict=True):
        _check(result, small, call, f"batch {call['number']}")
        if result.dtype != np.float32:
            raise Missed("float32 results", f"{result.dtype}", "convert the outputs")
        if not np.array_equal(result, later):
            raise Missed(
                "a result that stays as it was returned",
                "a later call changed it",
                "return a copy, not the buffer that the next call fills again",
            )
    return f"{len(calls)} results unchanged after the last call"


@claim("inference.independent", cell=CELL, points=0.75, title="A result does not depend on the calls before")
def independent(student: Student, case: Case) -> str:
    small = _network(case)
    repeated, other = case.number("inference.repeated"), case.number("inference.other")
    order = ((repeated, 7), (other, MOST), (repeated, 7), (other, 1), (other, 7), (repeated, MOST), (repeated, 7))
    calls = [{"seed": seed, "number": number, "form": "plain"} for seed, number in order]
    calls.append({"seed": case.number("inference.refilled"), "number": 7, "form": "refilled"})
    found = _infer(student, small, calls)["outputs"]
    for index, (result, call) in enumerate(zip(found, calls, strict=True)):
        before = f"after batches {[earlier['number'] for earlier in calls[:index]]}"
        again = ", the last array again with other images in it" if call["form"] == "refilled" else ""
        _check(result, small, call, f"batch {call['number']} {before}{again}")
    return f"batches {[call['number'] for call in calls]} in a row, each right"


@claim("inference.synchronised", cell=CELL, points=1, title="The output is read after the stream has finished")
def synchronised(student: Student, case: Case) -> str:
    small = _network(case)
    calls = _calls(case, "inference.synchronised", *(MOST,) * 6)
    for result, call in zip(_infer(student, small, calls)["outputs"], calls, strict=True):
        _check(result, small, call, "new images in each call")
    return f"{len(calls)} batches of {MOST}, new images in each"


@claim("inference.two_instances", cell=CELL, points=0.75, title="Two instances work side by side")
def two_instances(student: Student, case: Case) -> str:
    pair = [_network(case), small_plan(case.number("inference.second"), classes=_SMALL_CLASSES)]
    seeds = [case.number(f"inference.two.{index}") for index in range(5)]
    plans = [small.plan for small in pair]
    found = student.call("infer_in_two", plans=plans, edge=pair[0].edge, seeds=seeds).require(CLASS)
    order = [(pair[0], 3), (pair[1], 4), (pair[0], 5), (pair[1], 6), (pair[0], 7)]
    for index, (result, (small, number)) in enumerate(zip(found, order, strict=True)):
        state = "after the other was closed" if index == 4 else "with another instance alive"
        _check(result, small, {"seed": seeds[index], "number": number}, f"batch {number} {state}")
    return "two engines called in turn; one closed, the other still works"


@claim("inference.refusals", cell=CELL, points=1, title="A wrong shape or too large a batch gives a clear exception")
def refusals(student: Student, case: Case) -> Earned:
    small = _network(case)
    edge = small.edge
    large = [MOST + 1, 3, edge, edge]  # twice: what was refused once must be refused again
    shapes = [[2, 3, 200, 200], [2, 1, edge, edge], large, [2, edge, edge, 3], large]
    call = {"seed": case.number("inference.refusals"), "number": 7}
    found = student.call("refuse", plan=small.plan, shapes=shapes, edge=edge, **call).require(CLASS)
    wanted = ("200", "1", str(MOST + 1), str(edge), str(MOST + 1))
    kept, missed = 0, None
    for shape, figure, outcome in zip(shapes, wanted, found["tries"], strict=True):
        fault = _fault(outcome, figure)
        kept += fault is None
        if fault:
            missed = missed or Missed(f"an exception for {shape} that names the shape found", fault, _CLEAR)
    if found["after"]["error"]:
        missed = Missed("the instance to work on after a refusal", found["after"]["message"], "check before you copy")
        return Earned(0.0, "", missed)
    _check(found["after"]["result"], small, call, "right images after a refusal")
    return Earned(kept / len(shapes), f"{kept} of {len(shapes)} wrong inputs refused", missed)


_CLEAR = "compare the array's shape with the engine's, look at what set_input_shape returns, raise ValueError"


def _fault(outcome: dict[str, Any], figure: str) -> str | None:
    """Say what is wrong with the answer to a wrong input, or None; `figure` must be in the exception's text."""
    if outcome["error"] is None:
        return "no exception"
    said = f"{outcome['error']}: {outcome['message'][:160]}"
    if outcome["error"] == "NotImplementedError" or figure not in outcome["message"]:
        return said
    return None


@claim("inference.interface", cell=CELL, points=0.5, title="It works as model(images) and in a with statement")
def interface(student: Student, case: Case) -> str:
    small = _network(case)
    call = {"seed": case.number("inference.interface"), "number": 7}
    found = student.call("use_as_context", plan=small.plan, edge=small.edge, seed=call["seed"]).require(CLASS)
    _check(found["called"], small, call, "model(images) in a with block")
    _check_held(found["held"], "the end of the with block")
    return "called inside a with block, its memory free after it"


@claim("inference.memory", cell=CELL, points=1.5, title="Many instances made and closed leave memory where it was")
def memory(student: Student, case: Case) -> str:
    small = small_plan(case.number("inference.memory"), batches=(1, 2, 4))
    found = student.call("cycle_instances", plan=small.plan, edge=small.edge, cycles=_CYCLES, warmup=_WARM_UP).require(
        CLASS
    )
    device, process = found["device"] / 1e6, found["process"] / 1e6
    grown = f"{device:.1f} MB of device memory and {process:.1f} MB of this process in {found['cycles']} cycles"
    if max(found["device"], found["process"]) > _LEFT_BYTES:
        raise Missed(
            f"less than {_LEFT_BYTES / 1e6:.0f} MB more after {_CYCLES} cycles that follow {_WARM_UP} for warming up",
            f"growth by {grown}",
            "free the buffers and let go of context and engine in close(); keep no instance in a list",
        )
    return f"growth by {grown}"


@claim("inference.closed", cell=CELL, points=0.5, title="close() frees the buffers; infer raises from then on")
def closed(student: Student, case: Case) -> str:
    small = _network(case)
    found = student.call("close_instance", plan=small.plan, edge=small.edge).require(CLASS)
    _check_held(found["held"], "close()")
    if found["again"]["error"]:
        raise Missed("a second close() to do nothing", found["again"]["message"], "remember that it is closed")
    if found["infer"]["error"] in (None, "NotImplementedError"):
        raise Missed("infer to raise after close()", "no exception", "remember that it is closed, and raise")
    return f"{found['infer']['error']}: {found['infer']['message'][:80]}"


def _check_held(held: int, moment: str) -> None:
    if held > _HELD_BYTES:
        raise Missed(
            f"the device memory to be free after {moment}, while the instance is still there",
            f"{held / 1e6:.1f} MB still allocated",
            "call free() on every device buffer",
        )
