"""Step 10: an engine with several profiles, which of them serves a batch, and batches through two streams at once."""

from typing import Any, TypedDict

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.builder import FAILED, Builder
from helpers.checks.points.case import Case
from helpers.checks.points.pure import Answered, Raises, compare, results_of
from helpers.checks.points.s05_inference import judge
from helpers.checks.points.task import Task
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.builds import failing_build
from helpers.checks.probes.cuda_calls import Row, watched
from helpers.checks.probes.images import varied_images
from helpers.engine.backend import trt
from helpers.engine.given import probe_engine
from helpers.tools.outputs import onnx_outputs
from helpers.toys.networks import EDGE, tiny_onnx

PICK, RUN = "pick_profile", "run_batches"

PROMISES = ("`[(1, 1, 4), (2, 16, 64)]`",)
"""What the notebook's text says in figures."""

Triple = tuple[int, int, int]


def triples(case: Case) -> list[Triple]:
    """Return three triples whose ranges overlap, in no order of size, two of them with the same ends."""
    draw = case.random("profiles.triples")
    low, middle, high = (int(draw.integers(*ends)) for ends in ((2, 4), (5, 8), (9, 13)))
    return [(1, 1, low), (low, middle, high), (low, middle - 1, high)]


PROFILES = Builder("build_engine_profiles", "profiles", options=lambda case: {"shapes": triples(case)})
ENGINE = Task("profiles_engine", check="check_profiles", takes=(PROFILES.function, PICK))
STREAMS = Task("streamed_batches", check="check_streams", takes=(RUN,))
TASKS = (ENGINE, STREAMS)

PROFILES.ask(ENGINE, written=0.25)


@ENGINE.point("profiles.ranges", 0.5, "One profile per triple, in the order of the list")
def ranges(case: Case) -> str:
    facts = builders.facts_of(PROFILES.plan(case), "the engine")
    found = [list(profile.values()) for profile in facts["profiles"]]
    expected = [[[[batch, 3, EDGE, EDGE] for batch in triple]] for triple in triples(case)]
    if found != expected:
        advice = "make a profile for each triple, set min, opt, max in this order, and add each to the configuration"
        raise Missed(f"profiles {_said(expected)}", _said(found), advice)
    return f"profiles {_said(found)}"


def _said(profiles: list[list[list[list[int]]]]) -> str:
    """Return profiles as a student writes them: (min, opt, max) batches of an image's shape."""
    shapes = [shape for profile in profiles for shape in profile]
    images = sorted({tuple(shape[1:]) for triple in shapes for shape in triple})
    return f"{[tuple(shape[0] for shape in triple) for triple in shapes]}, of images {images}"


PROFILES.ask(ENGINE, half_precision=0.25)


@ENGINE.point("profiles.failures", 0.25, "A triple out of order raises RuntimeError", reported=FAILED)
def failures(case: Case) -> str:
    first, (least, best, largest), _ = triples(case)
    wrong = [first, (largest, best, least), (least, best, largest)]
    asked = {"function": PROFILES.function, "onnx": PROFILES.model(case), "options": {"shapes": wrong}}
    found = case.call(failing_build, parsed=False, **asked).require(PROFILES.function)
    if not found["as_asked"]:
        told = found["raised"] or "no exception: an engine without this profile, or with another"
        advice = "look at what add_optimization_profile returns: −1 is no index"
        raise Missed(f"a RuntimeError that you raise for {wrong}", told, advice)
    return found["raised"]


@probe
def picks(notebook: Notebook, *, name: str, calls: list[list[Any]], raising: bool, plan: bytes) -> list[Answered]:
    """Answer as `results_of`; each call has the plan's engine before its arguments."""
    engine, pick = _engine(plan), notebook[name]
    return results_of({name: lambda batch: pick(engine, batch)}, name=name, calls=calls, raising=raising)


def _engine(plan: bytes) -> Any:
    return trt.Runtime(trt.Logger(trt.Logger.INTERNAL_ERROR)).deserialize_cuda_engine(plan)


_RANGES: tuple[Triple, ...] = ((2, 2, 4), (7, 7, 7), (9, 48, 64), (3, 24, 64))
_SERVED = (2, 3, 4, 6, 7, 8, 9, 20, 40, 64)
"""Both ends of ranges; and batches whose nearest OPT is of a range that does not hold them: 6 and 8."""


def _picks(case: Case, answers: dict[int, Any], ordered: list[Triple], advice: str) -> str:
    onnx = tiny_onnx(case.number("profiles.pick"), 5, image=(1, 24, 40), names=("pixels", "scores"))
    pairs = [((batch,), right) for batch, right in answers.items()]
    advice = f"the engine's profiles are {ordered}: {advice}"
    return compare(case, PICK, pairs, advice, through=picks, given={"plan": probe_engine(onnx, *ordered)})


def _ordered(case: Case) -> list[Triple]:
    return [_RANGES[index] for index in case.random("profiles.order").permutation(len(_RANGES))]


@ENGINE.point("profiles.picked", 0.25, "pick_profile gives the profile that holds the batch and whose OPT is nearest")
def picked(case: Case) -> str:
    ordered, right = _ordered(case), {}
    for batch in _SERVED:
        holding = [triple for triple in ordered if triple[0] <= batch <= triple[2]]
        right[batch] = ordered.index(min(holding, key=lambda triple: abs(triple[1] - batch)))
    return _picks(case, right, ordered, "keep those whose range holds the batch, and compare their OPTs")


@ENGINE.point("profiles.refused", 0.25, "pick_profile raises ValueError for a batch that no profile holds")
def refused(case: Case) -> str:
    outside = dict.fromkeys((1, 65), Raises("ValueError"))
    return _picks(case, outside, _ordered(case), "raise it where no range holds the batch")


_IMAGE = (2, 28, 36)
_MOST = 6
_RAGGED = [_MOST] * 6 + [3]
_WATCHED = "copies, runs and waits by stream: noted in the student's process"


def batches_of(seed: int, numbers: list[int]) -> list[np.ndarray]:
    """Return a batch of images, float32 [n, 2, 28, 36], for each of the numbers."""
    return [varied_images(seed + index, number, _IMAGE) for index, number in enumerate(numbers)]


class Streamed(TypedDict):
    """What `run_batches` returned, each array's copy or another value's type, and what the watch saw."""

    outputs: list[np.ndarray | str] | str
    log: list[Row]
    refilled: int
    unawaited: int


@probe
def run_streams(notebook: Notebook, *, plan: bytes, seed: int, numbers: list[int], streams: int) -> Streamed:
    """Call `run_batches` once, watched, on batches of `numbers` images that come from a generator."""
    engine, given = _engine(plan), batches_of(seed, numbers)
    with watched() as watch:
        found = notebook[RUN](engine, (batch for batch in given), streams)
        unawaited = watch.unawaited
    outputs: list[np.ndarray | str] | str = type(found).__name__
    if isinstance(found, (list, tuple)):
        outputs = [one.copy() if isinstance(one, np.ndarray) else type(one).__name__ for one in found]
    return {"outputs": outputs, "log": watch.log, "refilled": watch.refilled, "unawaited": unawaited}


def _onnx(case: Case) -> bytes:
    return tiny_onnx(case.number("streams.network"), 17, image=_IMAGE, names=("pixels", "scores"))


def _run(case: Case, numbers: list[int], streams: int) -> Streamed:
    """Return what a call gave with as many profiles as streams, which differ in their largest batch."""
    plan = probe_engine(_onnx(case), *((1, 2 + index, _MOST + index) for index in range(streams)))
    seed = case.number(f"streams.{streams}")
    return case.call(run_streams, plan=plan, seed=seed, numbers=numbers, streams=streams).require(RUN)


def _in_two(case: Case) -> Streamed:
    return _run(case, _RAGGED, 2)


@STREAMS.point("streams.outputs", 0.5, "The batches' outputs come back in order, each in an array of its own")
def outputs(case: Case) -> str:
    worst = 0.0
    for numbers, streams in ((_RAGGED, 2), ([3, _MOST, 2, 5], 1)):
        found, what = _run(case, numbers, streams)["outputs"], f"batches of {numbers}, streams={streams}"
        if isinstance(found, str) or len(found) != len(numbers):
            told = f"a {found}" if isinstance(found, str) else f"{len(found)} of them"
            advice = "collect the outputs in a list, also what is still under way after the last batch"
            raise Missed(f"{what}: a list of {len(numbers)} arrays", told, advice)
        for index, batch in enumerate(batches_of(case.number(f"streams.{streams}"), numbers)):
            advice = "collect the oldest batch first; wait for its stream, then copy its rows out of the buffer"
            worst = max(worst, judge(found[index], onnx_outputs(_onnx(case), batch), f"{what}: batch {index}", advice))
    return f"{len(_RAGGED)} batches in two streams, 4 in one, relative error {worst:.0e}"


def _rows(log: list[Row], *what: str) -> list[Row]:
    return [row for row in log if row["what"] in what]


@STREAMS.point("streams.pinned", 0.5, "Copies are asynchronous, in pinned buffers that are made once", _WATCHED)
def pinned(case: Case) -> str:
    log = _in_two(case)["log"]
    copies, blocking = _rows(log, "in", "out"), _rows(log, "blocking")
    if blocking or len(copies) < 2 * len(_RAGGED):
        advice = "memcpy_htod_async and memcpy_dtoh_async, both with the lane's stream"
        told = f"{len(copies)} asynchronous copies, {len(blocking)} that block"
        raise Missed(f"{len(_RAGGED)} batches copied in and out by asynchronous copies", told, advice)
    if pageable := [row["what"] for row in copies if not row["pinned"]]:
        told = f"{pageable.count('in')} copies in and {pageable.count('out')} out with ordinary arrays"
        advice = "copy the batch into a page-locked array of yours first, and the scores to one: cuda.pagelocked_empty"
        raise Missed("page-locked arrays at the host's end of every copy", told, advice)
    first = next((index for index, row in enumerate(log) if row["what"] == "run"), len(log))
    if late := len(_rows(log[first:], "alloc")):
        advice = "allocate for the profile's largest batch when a lane is made; a smaller batch takes a part of it"
        raise Missed("all buffers allocated before the first run", f"{late} allocations after it", advice)
    return f"{len(copies)} asynchronous copies, all of page-locked memory; {len(_rows(log, 'alloc'))} buffers"


@STREAMS.point("streams.overlap", 0.5, "Two lanes, each with its stream, context and profile, work at once", _WATCHED)
def overlap(case: Case) -> str:
    log = _in_two(case)["log"]
    runs = _rows(log, "run")
    _own_lanes(runs)
    _own_streams(log)
    if alone := [number for number, row in enumerate(runs) if number and not row["beside"]]:
        advice = "wait for the oldest lane, when its buffers are needed again; a copy to an ordinary array waits too"
        raise Missed("one batch under way while the next is enqueued", f"nothing under way at batch {alone[0]}", advice)
    return f"{len(runs)} runs, each enqueued while the other stream was at work"


def _own_lanes(runs: list[Row]) -> None:
    """Raise Missed where the runs are not in two streams, each with its own context and profile."""
    lanes = {(row["stream"], row["profile"], row["context"]) for row in runs}
    streams, profiles, contexts = ({row[key] for row in runs} for key in ("stream", "profile", "context"))
    apart = all(len(part) == 2 for part in (lanes, streams, profiles, contexts))
    if len(runs) != len(_RAGGED) or not apart or 0 in streams:
        told = f"{len(runs)} runs; (stream, profile): {sorted(lane[:2] for lane in lanes)}"
        advice = "for each lane: a Stream, create_execution_context, set_optimization_profile_async(its number, …)"
        raise Missed(f"{len(_RAGGED)} runs in two streams, each with its own context and profile", told, advice)


def _own_streams(log: list[Row]) -> None:
    """Raise Missed where a batch's copies are in another stream than its run, or not around it."""
    for stream in {row["stream"] for row in _rows(log, "in", "run", "out")}:
        found = [row["what"] for row in _rows(log, "in", "run", "out") if row["stream"] == stream]
        if found != ["in", "run", "out"] * (len(found) // 3):
            advice = "pass the lane's stream to both copies: a stream keeps the order of copy in, run, copy out"
            told = f"in one stream: {', '.join(found[:6])} …"
            raise Missed("copy in, run, copy out of each batch in one stream", told, advice)


@STREAMS.point("streams.awaited", 0.5, "Nothing is read or filled again before its stream was waited for", _WATCHED)
def awaited(case: Case) -> str:
    found = _in_two(case)
    if isinstance(found["outputs"], str) or len(_rows(found["log"], "out")) < len(_RAGGED):
        raise Missed("a list of outputs that were copied asynchronously", "none", "look at the points above")
    for index, (result, number) in enumerate(zip(found["outputs"], _RAGGED, strict=False)):
        numbers = isinstance(result, np.ndarray) and result.ndim and result.dtype.kind == "f"
        if numbers and np.isnan(result[:number]).any():
            advice = "synchronize the lane's stream, then copy its outputs"
            raise Missed("outputs that are read once they have arrived", f"batch {index} was read before", advice)
    if found["refilled"]:
        told = f"{found['refilled']} times the next batch was written over one that was still to be copied"
        advice = "buffers of its own for each lane; synchronize its stream before you write its next batch"
        raise Missed("an input buffer filled again after its stream was waited for", told, advice)
    if found["unawaited"]:
        told = f"{found['unawaited']} operations under way"
        raise Missed("no stream at work when the function ends", told, "wait for every lane in the end")
    return f"{len(found['outputs'])} batches, each read and each buffer filled again after its stream"
