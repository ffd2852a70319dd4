"""The points of build_engine_profiles(onnx_path, engine_path, shapes) and pick_profile(engine, batch)."""

from functools import partial
from typing import Any

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.case import Case
from helpers.checks.points.point import point
from helpers.checks.points.s09_mixed_precision.layers import Refusal
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.builds import BuiltEngine, FailedBuild, build_engine, failed_build
from helpers.checks.probes.loads import loads
from helpers.checks.probes.student import one_each
from helpers.engine.backend import cuda, trt
from helpers.engine.given import probe_engine
from helpers.toys.networks import EDGE, tiny_onnx
from trtcpu.errors import EngineError

BUILD, PICK = "build_engine_profiles", "pick_profile"

PROMISES = ("`[(1, 1, 4), (2, 16, 64)]`",)

Triple = tuple[int, int, int]


def network(case: Case) -> bytes:
    """Return a small network with weights of the case's own."""
    return tiny_onnx(case.number("profiles.network"))


def triples(case: Case) -> list[Triple]:
    """Return three triples whose ranges overlap, in no order of size, two of them with the same ends."""
    draw = case.random("profiles.triples")
    low, middle, high = (int(draw.integers(*ends)) for ends in ((2, 4), (5, 8), (9, 13)))
    found = [(1, 1, low), (low, middle - 1, high), (low, middle, high)]
    orders = ((0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1))  # neither rising nor falling
    return [found[index] for index in orders[draw.integers(len(orders))]]


def built(case: Case, **more: Any) -> BuiltEngine:
    """Return what `build_engine` answers for the case's network and triples."""
    asked = {"function": BUILD, "onnx": network(case), "options": {"shapes": triples(case)}}
    return case.call(build_engine, **asked, **more).require(BUILD)


@point("A serialized engine is built at each call, returned and written to engine_path")
def plan(case: Case) -> str:
    builders.asked_for(built(case, before=tiny_onnx(case.number("profiles.other"))))
    return builders.returned_and_written(built(case), BUILD)


@point("One profile per triple, in the order of the list")
def profiles(case: Case) -> str:
    facts = builders.facts_of(builders.plan_of(built(case), BUILD), "the engine")
    found = [[[shape[0] for shape in shapes] for shapes in profile.values()] for profile in facts["profiles"]]
    expected = [[list(triple)] for triple in triples(case)]
    sizes = {tuple(shape[1:]) for profile in facts["profiles"] for shapes in profile.values() for shape in shapes}
    if found != expected or sizes != {(3, EDGE, EDGE)}:
        advice = "make a profile for each triple, set min, opt, max in this order, and add each to the configuration"
        asked = f"profiles of batches {_said(expected)}, of 3×{EDGE}×{EDGE}"
        raise Missed(asked, f"{_said(found)}, of {sorted(sizes)}", advice)
    return f"batches {_said(found)}"


def _said(profiles: list[list[list[int]]]) -> str:
    return ", ".join(str(tuple(batches)) for profile in profiles for batches in profile) or "none"


@point("Built for half precision")
def half_precision(case: Case) -> str:
    return builders.in_half(built(case), BUILD)


@probe
def failing_profiles(notebook: Notebook, *, onnx: bytes, parsed: bool, shapes: list[list[int]]) -> FailedBuild:
    """Call `build_engine_profiles` where it must fail; the result is `failed_build`'s."""
    return failed_build(partial(notebook[BUILD], shapes=[tuple(triple) for triple in shapes]), onnx, parsed=parsed)


@point(
    "What cannot be parsed or built, or is out of order, raises, and an earlier engine file stays", builders.FAILURES
)
def failures(case: Case) -> str:
    asked = {"shapes": triples(case)}
    for onnx in (None, network(case)):
        said = builders.refuses(case, failing_profiles, BUILD, onnx, **asked)
    builders.keeps_files(case, failing_profiles, BUILD, network(case), **asked)
    builders.names_parser_errors(case, build_engine, BUILD, function=BUILD, options=asked)
    _refuses_disorder(case)
    return said


def _refuses_disorder(case: Case) -> None:
    """Raise Missed where one triple out of order among good ones is built around."""
    good, (least, best, largest) = triples(case), next(found for found in triples(case) if found[0] > 1)
    for wrong in ((largest, best, least), (least, largest, best)):
        asked = {"shapes": [good[0], wrong, good[1]]}
        found = case.call(failing_profiles, onnx=network(case), parsed=False, **asked).require(BUILD)
        if not found["as_asked"]:
            said = found["raised"] or f"no exception: an engine without the profile {wrong}, or with another"
            advice = "look at what add_optimization_profile returns: −1 is no index"
            raise Missed(f"a RuntimeError that you raise for the triples {asked['shapes']}", said, advice)
        if not found["kept"]:
            expected = "the engine file of an earlier build as it was"
            raise Missed(expected, f"another or gone after {wrong}", "write it once there is an engine")


Picked = int | str | Refusal


@probe
def picks(notebook: Notebook, *, plan: bytes, batches: list[int]) -> list[Picked]:
    """Return, for each batch, the index that `pick_profile` gives, or `type` and `message` of what it raised."""
    engine = trt.Runtime(trt.Logger(trt.Logger.INTERNAL_ERROR)).deserialize_cuda_engine(plan)
    pick, found = notebook[PICK], []
    for batch in batches:
        try:
            index = pick(engine, batch)
            found.append(int(index) if int(index) == index else str(index))
        except NotImplementedError:
            raise
        except Exception as error:
            found.append({"type": type(error).__name__, "message": str(error)})
    return found


@loads
def outputs_in(plan: bytes, index: int, names: list[str], images: np.ndarray) -> np.ndarray:
    """Return the outputs [N, classes] of a batch in one of a plan's profiles; `names` are input and output.

    Raises:
        EngineError: the profile does not take it, or the engine does not run.
    """
    engine = trt.Runtime(trt.Logger(trt.Logger.INTERNAL_ERROR)).deserialize_cuda_engine(plan)
    context, stream = engine.create_execution_context(), cuda.Stream()
    ready = context.set_optimization_profile_async(index, stream.handle)
    if not (ready and context.set_input_shape(names[0], images.shape)):
        raise EngineError("TensorRT refused the shape")
    found = np.empty(tuple(context.get_tensor_shape(names[1])), np.float32)
    buffers = [cuda.mem_alloc(array.nbytes) for array in (images, found)]
    for name, buffer in zip(names, buffers, strict=True):
        context.set_tensor_address(name, int(buffer))
    cuda.memcpy_htod(buffers[0], images)
    if not context.execute_async_v3(stream.handle):
        raise EngineError("TensorRT refused to run")
    stream.synchronize()
    cuda.memcpy_dtoh(found, buffers[1])
    return found


_RANGES: dict[str, Triple] = {"few": (1, 1, 4), "some": (3, 8, 16), "many": (9, 48, 64), "any": (1, 24, 64)}
_SERVED = {1: "few", 3: "few", 4: "few", 5: "some", 9: "some", 12: "some", 17: "any", 24: "any", 40: "many", 64: "many"}
"""What serves a batch: of the ranges that hold it, the one with the nearest OPT."""
_TIED = {16: ("some", "any"), 36: ("any", "many")}
_EDGES: dict[str, Triple] = {"seven": (7, 7, 7), "wide": (2, 20, 40)}
_HELD = {6: "wide", 7: "seven", 8: "wide", 2: "wide", 40: "wide"}
"""The nearest OPT is that of a range that does not hold 6 or 8."""


def _told(picked: Picked) -> str:
    return f"{picked['type']}: {picked['message'][:80]}" if isinstance(picked, dict) else f"profile {picked}"


def _picks(case: Case, ranges: dict[str, Triple], batches: list[int]) -> tuple[list[str], list[Picked]]:
    """Return the names of an engine's profiles in their order, which is the case's own, and what was picked."""
    names = [list(ranges)[index] for index in case.random(f"profiles.order.{len(ranges)}").permutation(len(ranges))]
    onnx = tiny_onnx(case.number("profiles.pick"), 5, image=(1, 24, 40), names=("pixels", "scores"))
    plan = probe_engine(onnx, *(ranges[name] for name in names))
    found = case.call(picks, plan=plan, batches=batches).require(PICK)
    return names, one_each(found, batches, "batches")


@point("pick_profile gives the profile that holds the batch and whose OPT is nearest, the first of two")
def nearest(case: Case) -> str:
    for ranges, served in ((_RANGES, _SERVED | _TIED), (_EDGES, _HELD)):
        names, found = _picks(case, ranges, list(served))
        said = ", ".join(f"{index}: {ranges[name]}" for index, name in enumerate(names))
        for (batch, wanted), index in zip(served.items(), found, strict=True):
            expected = names.index(wanted) if isinstance(wanted, str) else min(map(names.index, wanted))
            if index != expected:
                advice = "go through the profiles in order; keep those whose range holds the batch; compare their OPTs"
                raise Missed(f"profile {expected} for a batch of {batch} with profiles {said}", _told(index), advice)
    return f"{len(_SERVED | _TIED) + len(_HELD)} batches on two engines, two of them as near to one OPT as to another"


@point("pick_profile raises ValueError for a batch that no profile holds")
def outside(case: Case) -> str:
    for ranges, batches in ((_RANGES, [65, 0]), (_EDGES, [1, 41])):
        names, found = _picks(case, ranges, batches)
        for batch, answer in zip(batches, found, strict=True):
            if not isinstance(answer, dict) or answer["type"] != "ValueError":
                expected = f"ValueError for a batch of {batch} with profiles {[ranges[name] for name in names]}"
                raise Missed(expected, _told(answer), "raise it where no range holds the batch")
    return "0 and 65 where the ranges end at 64; 1 and 41 where they are 2 to 40"
