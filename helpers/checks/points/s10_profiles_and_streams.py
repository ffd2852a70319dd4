"""Step 10: an engine with several profiles, the profile for a batch, and batches in two streams at the same time."""

from typing import Any, TypedDict

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.builder import FAILED, Builder
from helpers.checks.points.case import Case
from helpers.checks.points.pure import Answered, Raises, agree, compare, results_of
from helpers.checks.points.s05_inference import judge
from helpers.checks.points.task import Task
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.builds import failing_build
from helpers.checks.probes.cuda_calls import Watch, watched
from helpers.checks.probes.images import varied_images
from helpers.engine.backend import trt
from helpers.engine.given import probe_engine
from helpers.tools.outputs import onnx_outputs
from helpers.toys.networks import tiny_onnx

PICK, RUN = "pick_profile", "run_batches"

PROMISES = ("`[(1, 1, 4), (2, 16, 64)]`",)
"""Figures in the notebook's text."""

Triple = tuple[int, int, int]


def triples(case: Case) -> list[Triple]:
    """Return three triples with overlapping ranges, not sorted by size, two of them with the same ends."""
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
    profiles = builders.facts_of(PROFILES.plan(case), "the engine")["profiles"]
    found = [tuple(shape[0] for shape in shapes) for profile in profiles for shapes in profile.values()]
    if found != triples(case):
        advice = "add one profile per triple, each with min, opt and max in this order"
        raise Missed(f"profiles of batches {triples(case)}", f"{found}", advice)
    return f"profiles of batches {found}"


PROFILES.ask(ENGINE, half_precision=0.25)


@ENGINE.point("profiles.failures", 0.25, "A triple out of order raises RuntimeError", reported=FAILED)
def failures(case: Case) -> str:
    first, (least, best, largest), _ = triples(case)
    wrong = [first, (largest, best, least), (least, best, largest)]
    asked = {"function": PROFILES.function, "onnx": PROFILES.model(case), "options": {"shapes": wrong}}
    found = case.call(failing_build, parsed=False, **asked).require(PROFILES.function)
    if not (found["as_asked"] and found["raised"]):
        told = found["raised"] or "no exception: an engine without this profile, or with another"
        advice = "check what add_optimization_profile returns: −1 is a failure"
        raise Missed(f"your own RuntimeError for {wrong}", told, advice)
    return found["raised"]


@probe
def picks(notebook: Notebook, *, name: str, calls: list[list[Any]], raising: bool, plan: bytes) -> list[Answered]:
    """Answer like `results_of`; each call gets the plan's engine before its arguments."""
    engine, pick = _engine(plan), notebook[name]
    return results_of({name: lambda batch: pick(engine, batch)}, name=name, calls=calls, raising=raising)


def _engine(plan: bytes) -> Any:
    return trt.Runtime(trt.Logger(trt.Logger.INTERNAL_ERROR)).deserialize_cuda_engine(plan)


_RANGES: tuple[Triple, ...] = ((2, 2, 4), (7, 7, 7), (9, 48, 64), (3, 24, 64))
_SERVED = (2, 3, 4, 6, 7, 8, 9, 20, 40, 64)
"""Both ends of ranges, and batches (6 and 8) whose nearest OPT is in a range that does not hold them."""


def _picks(case: Case, answers: dict[int, Any], ordered: list[Triple], advice: str) -> str:
    onnx = tiny_onnx(case.number("profiles.pick"), 5, image=(1, 24, 40), names=("pixels", "scores"))
    pairs = [((batch,), right) for batch, right in answers.items()]
    advice = f"the engine's profiles are {ordered}: {advice}"
    return compare(case, PICK, pairs, advice, through=picks, given={"plan": probe_engine(onnx, *ordered)})


def _ordered(case: Case) -> list[Triple]:
    return [_RANGES[index] for index in case.random("profiles.order").permutation(len(_RANGES))]


@ENGINE.point("profiles.picked", 0.25, "pick_profile returns the profile that holds the batch, with the nearest OPT")
def picked(case: Case) -> str:
    ordered, right = _ordered(case), {}
    for batch in _SERVED:
        holding = [triple for triple in ordered if triple[0] <= batch <= triple[2]]
        right[batch] = ordered.index(min(holding, key=lambda triple: abs(triple[1] - batch)))
    return _picks(case, right, ordered, "take those whose range holds the batch, and compare their OPTs")


@ENGINE.point("profiles.refused", 0.25, "pick_profile raises ValueError if no profile holds the batch")
def refused(case: Case) -> str:
    outside = dict.fromkeys((1, 65), Raises("ValueError"))
    return _picks(case, outside, _ordered(case), "raise ValueError if no range holds the batch")


_IMAGE = (2, 28, 36)
_MOST = 6
_RAGGED = [_MOST] * 6 + [3]
_WATCHED = "copies, runs and synchronisations by stream: noted in the student's process"


def batches_of(seed: int, numbers: list[int]) -> list[np.ndarray]:
    """Return a batch of images, float32 [n, 2, 28, 36], for each of the numbers."""
    return [varied_images(seed + index, number, _IMAGE) for index, number in enumerate(numbers)]


class Streamed(TypedDict):
    """The result of `run_batches`, as copies of arrays or types of other values, and the counted calls."""

    outputs: list[np.ndarray | str] | str
    counts: dict[str, int]


@probe
def run_streams(notebook: Notebook, *, plan: bytes, seed: int, numbers: list[int], streams: int) -> Streamed:
    """Call `run_batches` once, watched, on a generator of batches of `numbers` images."""
    engine, given = _engine(plan), batches_of(seed, numbers)
    with watched() as watch:
        found = notebook[RUN](engine, (batch for batch in given), streams)
        counts = _counts(watch)
    outputs: list[np.ndarray | str] | str = type(found).__name__
    if isinstance(found, (list, tuple)):
        outputs = [one.copy() if isinstance(one, np.ndarray) else type(one).__name__ for one in found]
        counts["batches read before their scores had arrived"] = sum(map(_not_there, outputs))
    return {"outputs": outputs, "counts": counts}


def _not_there(scores: np.ndarray | str) -> bool:
    return isinstance(scores, np.ndarray) and scores.dtype.kind == "f" and bool(np.isnan(scores).any())


def _counts(watch: Watch) -> dict[str, int]:
    """Return counts of the calls, by the words of the points' messages."""
    calls = {what: [call for call in watch.log if call.what == what] for what in ("in", "out", "run", "blocking")}
    runs, copies = calls["run"], calls["in"] + calls["out"]
    first = watch.log.index(runs[0]) if runs else 0
    return {
        "copies in": len(calls["in"]),
        "copies out": len(calls["out"]),
        "copies that block": len(calls["blocking"]),
        "copies of unpinned arrays": sum(not copy.pinned for copy in copies),
        "allocations after the first run": sum("buffers" in call.what for call in watch.log[first:]),
        "runs": len(runs),
        "later runs with nothing else under way": sum(not run.beside for run in runs[1:]),
        "streams": len({call.stream for call in runs + copies}),
        "contexts": len({run.context for run in runs}),
        "profiles": len({run.profile for run in runs}),
        "lanes of stream, context and profile": len({(run.stream, run.context, run.profile) for run in runs}),
        "inputs refilled before their copy was done": watch.refilled,
        "operations still running at the end": len(watch.under_way),
    }


def _onnx(case: Case) -> bytes:
    return tiny_onnx(case.number("streams.network"), 17, image=_IMAGE, names=("pixels", "scores"))


def _run(case: Case, numbers: list[int], streams: int) -> Streamed:
    """Return the result of a call with as many profiles as streams; their largest batches differ."""
    plan = probe_engine(_onnx(case), *((1, 2 + index, _MOST + index) for index in range(streams)))
    seed = case.number(f"streams.{streams}")
    return case.call(run_streams, plan=plan, seed=seed, numbers=numbers, streams=streams).require(RUN)


@STREAMS.point("streams.outputs", 0.5, "Outputs come back in order, each in its own array")
def outputs(case: Case) -> str:
    worst = 0.0
    for numbers, streams in ((_RAGGED, 2), ([3, _MOST, 2, 5], 1)):
        found, what = _run(case, numbers, streams)["outputs"], f"batches of {numbers}, streams={streams}"
        if isinstance(found, str) or len(found) != len(numbers):
            told = f"a {found}" if isinstance(found, str) else f"{len(found)} of them"
            advice = "collect all outputs in a list, also those still running after the last batch"
            raise Missed(f"{what}: a list of {len(numbers)} arrays", told, advice)
        for index, batch in enumerate(batches_of(case.number(f"streams.{streams}"), numbers)):
            advice = "collect the oldest batch first: wait for its stream, then copy its rows out of the buffer"
            worst = max(worst, judge(found[index], onnx_outputs(_onnx(case), batch), f"{what}: batch {index}", advice))
    return f"{len(_RAGGED)} batches in two streams, 4 in one, relative error {worst:.0e}"


def _counted(case: Case, right: dict[str, int], advice: str) -> str:
    """Return evidence that the counts of the calls for two streams are right."""
    agree(_run(case, _RAGGED, 2)["counts"], right, f"{RUN}, {len(_RAGGED)} batches in 2 streams", advice)
    return "; ".join(f"{count} {what}" for what, count in right.items())


@STREAMS.point("streams.pinned", 0.5, "Copies are asynchronous, with pinned buffers that are made once", _WATCHED)
def pinned(case: Case) -> str:
    copied = dict.fromkeys(("copies in", "copies out"), len(_RAGGED))
    never = dict.fromkeys(("copies that block", "copies of unpinned arrays", "allocations after the first run"), 0)
    advice = "make pagelocked_empty arrays and device memory once per lane; copy with memcpy_htod_async and _dtoh_async"
    return _counted(case, copied | never, advice)


@STREAMS.point("streams.overlap", 0.5, "Two lanes work at once, each with its stream, context and profile", _WATCHED)
def overlap(case: Case) -> str:
    lanes = dict.fromkeys(("streams", "contexts", "profiles", "lanes of stream, context and profile"), 2)
    right = {"runs": len(_RAGGED), **lanes, "later runs with nothing else under way": 0}
    advice = "give each lane its Stream, context and profile, and wait only when you need its buffers"
    return _counted(case, right, advice)


@STREAMS.point("streams.awaited", 0.5, "No buffer is read or refilled before its stream is done", _WATCHED)
def awaited(case: Case) -> str:
    early = "batches read before their scores had arrived", "inputs refilled before their copy was done"
    right = {"copies out": len(_RAGGED), **dict.fromkeys((*early, "operations still running at the end"), 0)}
    advice = "synchronize a lane's stream before you read or refill its buffers, and all lanes at the end"
    return _counted(case, right, advice)
