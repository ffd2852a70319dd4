"""The points of run_batches(engine, batches, streams=2): what it returns, what it asks of the device, how it ends."""

from typing import Any

import numpy as np

from helpers.checks.missed import SLIPS, Missed
from helpers.checks.points.case import Case
from helpers.checks.points.point import Reported, point
from helpers.checks.points.s05_inference.engines import row_errors
from helpers.checks.points.s10_profiles_and_streams import probes
from helpers.checks.points.s10_profiles_and_streams.watch import NoProfileError, Row
from helpers.engine.given import probe_engine
from helpers.tools.outputs import onnx_outputs
from helpers.toys.networks import tiny_onnx

_WATCHED = Reported("copies, runs and waits by stream: noted in the student's process")

FUNCTION = probes.FUNCTION
_IMAGE = (2, 28, 36)
_CLASSES = 17
_LEAST, _MOST = 2, 6
_RANGES = ((_LEAST, 2, _MOST), (_LEAST, 4, _MOST + 3), (_LEAST, 6, _MOST + 1))
_RAGGED = [_MOST] * 6 + [3]
_VARIED = [3, 6, 2, 5, 6, 2, 4]
_TOLERANCE = 5e-5  # of a row, as in step 5's points
_CYCLES, _LEAKED = 6, 3


def _onnx(case: Case) -> bytes:
    return tiny_onnx(case.number("streams.network"), _CLASSES, image=_IMAGE, names=("pixels", "scores"))


def _plan(case: Case, profiles: int = 3) -> bytes:
    """Return a small FP32 engine with profiles that all hold batches 2 to 6, and have different largest ones."""
    return probe_engine(_onnx(case), *_RANGES[:profiles])


def _ask(case: Case, purpose: str, numbers: list[int], profiles: int = 3) -> dict[str, Any]:
    seed = case.number(f"streams.{purpose}")
    return {"plan": _plan(case, profiles), "image": list(_IMAGE), "seed": seed, "numbers": numbers}


def _run(case: Case, purpose: str, numbers: list[int], streams: int | None = 2, **how: bool) -> probes.Streamed:
    asked = _ask(case, purpose, numbers)
    return case.call(probes.run_streams, **asked, streams=streams, **how).require(FUNCTION)


def _in_two(case: Case) -> probes.Streamed:
    """Return what a plain call with two streams does; several points look at it."""
    return _run(case, "two", _RAGGED)


@point("The batches' outputs come back in order, whatever their sizes and the number of streams")
def outputs(case: Case) -> str:
    tried: tuple[tuple[str, list[int], int | None, dict[str, bool]], ...] = (
        ("two", _RAGGED, 2, {}),
        ("varied", _VARIED, None, {"listed": True}),
        ("three", _VARIED, 3, {"strided": True}),
        ("one", _RAGGED[-3:], 1, {}),
        ("short", [4], 2, {}),
        ("none", [], 2, {"listed": True}),
    )
    worst = 0.0
    for purpose, numbers, streams, how in tried:
        found, seed = _run(case, purpose, numbers, streams, **how), case.number(f"streams.{purpose}")
        what = f"batches of {numbers} in {streams or 'the usual number of'} streams"
        worst = max(worst, _judge(case, found["outputs"], seed, numbers, what))
        if not found["untouched"]:
            raise Missed(f"{what}: the batches as they were", "changed ones", "copy them into buffers of your own")
    return f"{len(tried)} calls with up to {len(_RAGGED)} batches, relative error {worst:.0e}"


def _judge(case: Case, results: Any, seed: int, numbers: list[int], what: str) -> float:
    """Return the largest relative error of a row; raise Missed where `results` are not the batches' outputs."""
    if isinstance(results, dict):
        raise Missed(f"{what}: a list of arrays", f"a {results['type']}", "collect the outputs in a list")
    if len(results) != len(numbers):
        advice = "after the last batch collect what is still under way"
        raise Missed(f"{what}: {len(numbers)} arrays", str(len(results)), advice)
    worst = 0.0
    for index, batch in enumerate(probes.batches_of(seed, numbers, list(_IMAGE))):
        expected, found = onnx_outputs(_onnx(case), batch), results[index]
        if not isinstance(found, np.ndarray) or found.shape != expected.shape or found.dtype.kind in "SU":
            said = f"{found.dtype} {found.shape}" if isinstance(found, np.ndarray) else f"a {found['type']}"
            advice = "return one row an image, also for a batch that is smaller than the others"
            raise Missed(f"{what}: an array of shape {expected.shape} for batch {index}", said, advice)
        wrong = ~(row_errors(found, expected) <= _TOLERANCE)
        if wrong.any():
            advice = "wait for a batch's stream before you read it or fill its buffers again; collect the oldest first"
            asked = f"{what}: the network's outputs for batch {index}"
            raise Missed(asked, f"{wrong.sum()} of {len(wrong)} rows are others", advice)
        worst = max(worst, float(row_errors(found, expected).max()))
    return worst


@point("The outputs are float32 arrays of their own, which no later batch or call changes")
def copies(case: Case) -> str:
    found = _run(case, "copies", _RAGGED, again=True)
    results = found["outputs"]
    if isinstance(results, dict) or not all(isinstance(result, np.ndarray) for result in results):
        raise Missed("a list of NumPy arrays", "something else", "collect a copy of each batch's outputs in a list")
    if not results or any(result.dtype != np.float32 for result in results):
        kinds = sorted({str(result.dtype) for result in results})
        raise Missed(f"{len(_RAGGED)} arrays of float32", ", ".join(kinds) or "none", "return what the engine gives")
    later = len(results) == len(found["later"]) and all(map(_same, results, found["later"]))
    if found["alike"] or not later:
        said = "two of them share their memory" if found["alike"] else "another call changed them"
        advice = "a batch's outputs lie in a buffer that is filled again: copy them"
        raise Missed("arrays that stay as they were returned", said, advice)
    return f"{len(results)} arrays, the same after another call, none in another's memory"


def _same(result: np.ndarray, later: probes.Result) -> bool:
    return getattr(later, "dtype", None) == result.dtype and np.array_equal(result, later, equal_nan=True)


def _rows(log: list[Row], *what: str) -> list[Row]:
    return [row for row in log if row["what"] in what]


@point("Every copy is asynchronous, in page-locked buffers that are allocated before the first run", _WATCHED)
def pinned(case: Case) -> str:
    log = _in_two(case)["log"]
    moved, blocking = _rows(log, "in", "out"), _rows(log, "blocking")
    ways = {way: len(_rows(log, way)) for way in ("in", "out")}
    if blocking or min(ways.values()) < len(_RAGGED):
        found = f"{ways['in']} asynchronous copies in, {ways['out']} out, {len(blocking)} that block"
        advice = "memcpy_htod_async and memcpy_dtoh_async, both with the lane's stream"
        raise Missed(f"{len(_RAGGED)} batches copied in and out by asynchronous copies", found, advice)
    pageable = [row["what"] for row in moved if not row["pinned"]]
    if pageable:
        found = f"{pageable.count('in')} copies in and {pageable.count('out')} out with pageable arrays"
        advice = "copy the batch into a page-locked array of yours first, and the scores to one: cuda.pagelocked_empty"
        raise Missed("page-locked arrays at the host's end of every copy", found, advice)
    first = next((index for index, row in enumerate(log) if row["what"] == "run"), len(log))
    late = len(_rows(log[first:], "alloc"))
    if late:
        advice = "allocate for the profile's largest batch when a lane is made; a smaller batch takes a part of it"
        raise Missed("all buffers allocated before the first run", f"{late} allocations after it", advice)
    return f"{len(moved)} asynchronous copies, all of page-locked memory; {len(_rows(log, 'alloc'))} buffers, made once"


@point("Each lane has a context, a profile and a stream of its own, and they overlap", _WATCHED)
def overlap(case: Case) -> str:
    said = [_overlaps(_in_two(case)["log"], 2), _overlaps(_run(case, "three", _VARIED, 3, strided=True)["log"], 3)]
    return "; ".join(said)


def _overlaps(log: list[Row], streams: int) -> str:
    runs = _rows(log, "run")
    batches, what = len(_rows(log, "draw")), f"with streams={streams}"
    used = {row["stream"]: (row["context"], row["profile"]) for row in runs}
    if len(runs) != batches or len(used) != streams or 0 in used:
        found = f"{len(runs)} runs in {len(used)} streams{', the default one among them' if 0 in used else ''}"
        advice = "make a cuda.Stream for each lane, and give its handle to execute_async_v3"
        raise Missed(f"{what} {batches} batches in {streams} streams of yours", found, advice)
    apart = all(len({pair[part] for pair in used.values()}) == streams for part in (0, 1))
    steady = all(used[row["stream"]] == (row["context"], row["profile"]) for row in runs)
    if not apart or not steady:
        found = f"by stream: {[f'profile {profile}' for _, profile in used.values()]}"
        found += "" if len({context for context, _ in used.values()}) == streams else ", one context in several"
        advice = "create_execution_context and set_optimization_profile_async(number of the lane, …) for each lane"
        raise Missed(f"{what} a context and a profile of its own for each stream", found, advice)
    _in_own_stream(log, what)
    for number, row in enumerate(runs):
        wanted = min(number, streams - 1)
        if row["beside"] < wanted:
            found = f"{row['beside']} when batch {number} was enqueued"
            advice = "wait for the oldest lane, when its buffers are needed again; a copy to a pageable array waits too"
            raise Missed(f"{what} the batches of {wanted} other streams under way", found, advice)
    first = next(index for index, row in enumerate(log) if row["what"] == "run")
    if len(_rows(log[:first], "draw")) > streams + 1:
        found = f"{len(_rows(log[:first], 'draw'))} drawn before the first run"
        raise Missed(f"{what} batches drawn as they are used", found, "go through `batches` with a for loop, no list")
    return f"{what} {len(runs)} runs, each enqueued while work of {streams - 1} other streams was under way"


def _in_own_stream(log: list[Row], what: str) -> None:
    """Raise Missed where a batch's copies are in another stream than its run, or not around it."""
    order: dict[int, list[str]] = {}
    for row in _rows(log, "in", "run", "out"):
        order.setdefault(row["stream"], []).append(row["what"])
    for found in order.values():
        if found != ["in", "run", "out"] * (len(found) // 3):
            said = f"in one stream: {', '.join(found[:6])} …"
            advice = "pass the lane's stream to both copies: a stream keeps the order of copy in, run, copy out"
            raise Missed(f"{what} copy in, run, copy out of each batch in one stream", said, advice)


@point("Nothing is read, and no buffer filled again, before its stream was waited for", _WATCHED)
def awaited(case: Case) -> str:
    waited = 0
    for purpose, numbers, streams, how in (("two", _RAGGED, 2, {}), ("three", _VARIED, 3, {"strided": True})):
        found = _run(case, purpose, numbers, streams, **how)
        results = found["outputs"]
        if not isinstance(results, list) or not _rows(found["log"], "out"):
            raise Missed("a list of outputs that were copied asynchronously", "none", "look at the points above")
        early = [
            index for index, (rows, result) in enumerate(zip(numbers, results, strict=False)) if _unread(result, rows)
        ]
        if early:
            advice = "synchronize the lane's stream, then copy its outputs"
            raise Missed("outputs that are read once they have arrived", f"batch {early[0]} was read before", advice)
        if found["refilled"]:
            said = f"{found['refilled']} times the next batch was written over one that was still to be copied"
            advice = "synchronize a lane's stream before you write its next batch"
            raise Missed("an input buffer filled again after its stream was waited for", said, advice)
        if found["shared"]:
            said = f"{found['shared']} copies to or from memory that another stream was using"
            raise Missed("buffers of its own for each lane", said, "allocate all four buffers once for each lane")
        waited += len(results)
    return f"{waited} batches, each read and each buffer filled again after its stream"


def _unread(result: Any, rows: int) -> bool:
    is_read = isinstance(result, np.ndarray) and result.ndim and result.dtype.kind == "f"
    return bool(is_read and np.isnan(result[:rows]).any())


_ENDS: dict[str, dict[str, Any]] = {
    "a batch that is larger than the profile": {"numbers": [4, 5, _MOST + 9, 4]},
    "a batch that is smaller than the profile": {"numbers": [4, 5, _LEAST - 1, 4]},
    "a run that TensorRT refuses": {"numbers": [4, 5, 6, 3], "refuses": 2},
    "an iterator that raises": {"numbers": [4, 5, 6], "breaks": True},
    "a profile that TensorRT does not give": {"numbers": [4, 5, 6], "withheld": 1},
}


def _ended(case: Case, what: str) -> probes.Ended:
    how = dict(_ENDS[what])
    asked = _ask(case, "ends", how.pop("numbers"))
    return case.call(probes.streams_end, **asked, streams=2, **how).require(FUNCTION)


@point("However it ends, every stream was waited for and nothing stays allocated", _WATCHED)
def ends(case: Case) -> str:
    left = {"the last batch": _in_two(case)["unawaited"]}
    left |= {what: _ended(case, what)["unawaited"] for what in _ENDS}
    open_ended = next((what for what, number in left.items() if number), None)
    if open_ended:
        found = f"{left[open_ended]} operations under way after {open_ended}"
        advice = "wait for every lane's stream in a finally block: the device still uses the buffers that go"
        raise Missed("no stream that still works when the function ends", found, advice)
    asked = _ask(case, "left", _VARIED)
    found = case.call(probes.streams_leave, **asked, streams=2, cycles=_CYCLES).require(FUNCTION)
    kinds = {"device": "device buffers", "host": "page-locked arrays", "contexts": "contexts", "streams": "streams"}
    grown = {name: found["after"][kind] - found["before"][kind] for kind, name in kinds.items()}
    more = ", ".join(f"{number} {name}" for name, number in grown.items() if number >= _LEAKED)
    if more:
        advice = "keep lanes in the function's own variables; no list or cache outside of it"
        raise Missed(f"nothing more than before after {_CYCLES} calls", more, advice)
    return f"{len(left)} ends with nothing under way; {_CYCLES} calls leave no buffer, context or stream"


@point("What goes wrong raises: a batch, a run or a profile that is refused, an iterator, too few profiles", _WATCHED)
def errors(case: Case) -> str:
    said = []
    for what, how in _ENDS.items():
        found = _ended(case, what)
        told = f"{found['raised']}: {found['message'][:100]}" if found["raised"] else "no exception"
        if how.get("breaks"):
            if not (found["raised"] and found["own"]):
                raise Missed(f"the exception of {what} as it was raised", told, "let it go on: finally, not except")
        elif found["raised"] is None or found["raised"] in {*SLIPS, NoProfileError.__name__}:
            advice = "look at what set_optimization_profile_async, set_input_shape and execute_async_v3 return"
            raise Missed(f"an exception that you raise for {what}", told, advice)
        said.append(found["raised"])
    return f"{len(said)} ways to fail: {', '.join(said)}; {_too_few(case)} for too few profiles"


def _too_few(case: Case) -> str:
    """Return what is raised for two streams and one profile; raise Missed where it is no ValueError, or too late."""
    asked = _ask(case, "few", [4, 5, 6], profiles=1)
    found = case.call(probes.streams_end, **asked, streams=2, contexts=False).require(FUNCTION)
    if found["raised"] != "ValueError":
        told = f"{found['raised']}: {found['message'][:80]}" if found["raised"] else "no exception"
        advice = "compare num_optimization_profiles with streams before anything is made"
        raise Missed("a ValueError, before a context is made, for two streams and one profile", told, advice)
    return found["raised"]
