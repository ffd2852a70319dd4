"""Step 5's points: what the class computes, what it refuses, and what it leaves behind."""

import re

import numpy as np

from helpers.checks.missed import SLIPS, Missed
from helpers.checks.points.case import Case
from helpers.checks.points.point import Reported, point
from helpers.checks.points.s05_inference import probes
from helpers.checks.points.s05_inference.alive import Alive
from helpers.checks.points.s05_inference.engines import (
    FIXED_BATCH,
    LEAST,
    MOST,
    Small,
    alike,
    calls,
    fixed,
    judge,
    usual,
    wide,
)
from helpers.checks.probes.student import Reply, one_each
from trtcpu.api_changes import replacement

CLASS = probes.CLASS

_LATER = 12
"""Calls after the first results that these must survive: who returns a few arrays in turn comes back to them."""

_CYCLES, _WARM_UP, _CALLS = 12, 3, 24
_LEAKED = 3
"""Objects more than before that are a leak: a way to end an instance has a third of the 12 cycles, so leaks 4."""

_BYTES_A_CYCLE = 50_000
"""Python's and NumPy's bytes a cycle that may stay: the host buffers of one instance take 800,000."""

_BYTES_A_CALL = 8_000
"""The same for a call: its images take 45,000 bytes, its scores 82,000."""


_SLIPS = "AttributeError, NameError and TypeError do not count"
_ALIVE = "buffers, contexts and bytes that are alive: counted in the student's process"


def _infer(case: Case, small: Small, wanted: list[probes.Call], **how: bool) -> probes.Inferred:
    ask = {"plan": small.plan, "image": list(small.image), "calls": wanted}
    found = case.call(probes.infer, **ask, **how).require(CLASS)
    for answers in found.values():
        one_each(answers, wanted)
    return found


def _first_outputs(case: Case) -> None:
    """Raise Missed where one plain batch comes out wrong: whatever asks for right outputs then says the same."""
    small, (call,) = usual(case), calls(case, "inference.first", 8)
    judge(_infer(case, small, [call])["outputs"][0], small, call, "a batch of 8")


def _computes(case: Case) -> bool:
    """Return whether a plain batch comes out right: wrong outputs cost their own points, not those of other things."""
    try:
        _first_outputs(case)
    except Missed:
        return False
    return True


def _runs(case: Case, small: Small, number: int) -> bool:
    """Return whether the class runs an engine at all: that it does not costs its own point, not those of others."""
    ask = {"plan": small.plan, "image": list(small.image), "calls": calls(case, "inference.runs", number)}
    return case.call(probes.infer, **ask).error is None


def _wide_or_usual(case: Case) -> Small:
    return wide(case) if _runs(case, wide(case), LEAST) else usual(case)


@point(f"Three engines give their outputs at batches 1, 7 and {MOST}")
def outputs(case: Case) -> str:
    _first_outputs(case)
    tried = {
        "the usual engine": (usual(case), (7, MOST, 1)),
        "an engine of one channel, 40×56, and 4,096 classes": (wide(case), (LEAST, MOST, 7)),
        f"an engine of fixed shape {FIXED_BATCH}×3×96×96 with other names": (fixed(case), (FIXED_BATCH, FIXED_BATCH)),
    }
    worst = 0.0
    for name, (small, numbers) in tried.items():
        wanted = calls(case, f"inference.outputs.{name}", *numbers)
        for call, result in zip(wanted, _infer(case, small, wanted)["outputs"], strict=True):
            worst = max(worst, judge(result, small, call, f"{name}, batch {call['number']}"))
    return f"{len(tried)} engines, relative error {worst:.0e}"


def _infer_forms(case: Case) -> tuple[list[probes.Call], probes.Inferred]:
    wanted = [call | {"form": form} for form in probes.FORMS for call in calls(case, f"inference.{form}", 5)]
    wanted += calls(case, "inference.even", 5, form="float64", even=True)
    return wanted, _infer(case, usual(case), wanted)


def _untouched(case: Case) -> str:
    wanted, found = _infer_forms(case)
    for call, untouched in zip(wanted, found["untouched"], strict=True):
        if not untouched:
            said = f"{call['form']}: its values or flags are others"
            raise Missed("the caller's array to stay as it was", said, "work on a copy of your own")
    return "the caller's arrays as they were"


@point(
    "Arrays that are not contiguous, or float64, give the same, and stay as they were",
    Reported("whether the array that it was given is as it was: it lives in the student's process", 0.1, _untouched),
)
def inputs(case: Case) -> str:
    _first_outputs(case)
    wanted, found = _infer_forms(case)
    for result, call in zip(found["outputs"], wanted, strict=True):
        judge(result, usual(case), call, f"images as {call['form']}")
    return ", ".join(probes.FORMS)


@point("Results are float32 arrays of their own, which nothing changes later")
def copies(case: Case) -> str:
    wanted, right = calls(case, "inference.copies", 7, 7, MOST, *(7,) * _LATER), _computes(case)
    found = _infer(case, usual(case), wanted)
    for call, result, later in zip(wanted, found["outputs"], found["later"], strict=True):
        for array in (result, later):
            if not isinstance(array, np.ndarray) or array.dtype != np.float32:
                kind = f"an array of {array.dtype}" if isinstance(array, np.ndarray) else f"a {array['type']}"
                raise Missed("results as NumPy arrays of float32", kind, "convert the outputs")
        if not np.array_equal(result, later, equal_nan=True):
            advice = "return a copy, not the buffer that the next call fills again"
            raise Missed("a result that stays as it was returned", "a later call changed it", advice)
        if right:
            judge(later, usual(case), call, "a result after the last call")
    return f"{len(wanted)} results unchanged after the last call and after close()"


@point("A result does not depend on the calls before")
def independent(case: Case) -> str:
    _first_outputs(case)
    small = usual(case)
    one, other = ({"seed": case.number(f"inference.{name}")} for name in ("one", "other"))
    seven, alike = one | {"number": 7}, one | {"number": 7, "exchanged": True}
    order = [seven, alike, alike, other | {"number": MOST}, seven, other | {"number": 7}, one | {"number": MOST}, seven]
    order += [{"seed": case.number("inference.refilled"), "number": 7, "form": "refilled"}]
    found = _infer(case, small, order, scribble=True)["outputs"]
    for index, (result, call) in enumerate(zip(found, order, strict=True)):
        how = "the last array again with other images in it" if call.get("form") else f"a batch of {call['number']}"
        how = f"{how}, two images exchanged" if call.get("exchanged") else how
        judge(result, small, call, f"{how}, after batches {[earlier['number'] for earlier in order[:index]]}")
    return f"batches {[call['number'] for call in order]} in a row, some alike, each right"


@point("The output is read after the stream has finished")
def synchronised(case: Case) -> str:
    _first_outputs(case)
    wanted = calls(case, "inference.synchronised", *(MOST,) * 6)
    for small in (usual(case), _wide_or_usual(case)):
        for result, call in zip(_infer(case, small, wanted)["outputs"], wanted, strict=True):
            judge(result, small, call, "new images in each call")
    return f"{len(wanted)} batches of {MOST}, new images in each, on two engines"


@point("Two instances work side by side, each with an engine of its own")
def two_instances(case: Case) -> str:
    _first_outputs(case)
    pair = alike(case)
    wanted = calls(case, "inference.two", 3, 4, 5, 6, 7)
    found = case.call(
        probes.infer_in_two,
        plans=[small.plan for small in pair],
        image=list(pair[0].image),
        seeds=[call["seed"] for call in wanted],
        numbers=[call["number"] for call in wanted],
    ).require(CLASS)
    one_each(found, wanted)
    for index, (result, call) in enumerate(zip(found, wanted, strict=True)):
        state = "after the other was closed" if index == 4 else "with another instance alive"
        judge(result, pair[index % 2], call, f"a batch of {call['number']} {state}")
    return "two engines that came under one path, called in turn; one closed, the other still works"


def _refused(case: Case, small: Small, purpose: str, tries: list[tuple[list[int], str | None]], *numbers: int) -> str:
    """Return evidence that each shape is refused with its figure in the message, and that the instance works on.

    It runs a batch of the first of the numbers before, and one of the last after.
    """
    tries = [attempt for attempt in tries for _ in range(2)]  # what was refused once must be refused again
    first, call = calls(case, purpose, numbers[0], numbers[-1])
    given = [shape for shape, _ in tries]
    ask = {"plan": small.plan, "image": list(small.image), "first": first, "call": call}
    found = case.call(probes.refuse, shapes=given, **ask).require(CLASS)
    advice = "compare the array's shape with the engine's, look at what set_input_shape returns, raise ValueError"
    one_each(found["tries"], tries)
    for (shape, figure), outcome in zip(tries, found["tries"], strict=True):
        said = f"{outcome['error']}: {outcome['message'][:160]}"
        if outcome["error"] is None:
            raise Missed(f"an exception for images of shape {shape}", "none", advice)
        if not re.search(rf"(?<!\d){figure}(?!\d)" if figure else r"\S", outcome["message"]):
            raise Missed(f"an exception that names the shape it found, {shape}", said, advice)
    after = found["after"]
    if after["error"]:
        raise Missed("the instance to work on after a refusal", after["message"], "check before you copy")
    if _computes(case):
        judge(after["result"], small, call, "right images after a refusal")
    return f"{len(tries)} refused, such as {given[0]}: {found['tries'][0]['message'][:80]}"


@point("Images of another shape give an exception that names it")
def shapes(case: Case) -> str:
    small, (_, height, width) = usual(case), usual(case).image
    random = case.random("inference.figures")
    edge, channels = int(random.integers(150, 220)), int(random.integers(4, 9))
    tries = [([2, 3, edge, edge], str(edge)), ([2, channels, height, width], str(channels))]
    tries += [([2, height, width, 3], None)]
    flat = [3, height, width], [2, 3 * height * width], [2, 3, height, width, 1]
    broadcast = [2, 1, height, width], [2, 3, 1, 1], [2, 3, height, 1]  # np.copyto takes them
    tries += [(shape, None) for shape in (*flat, *broadcast)]
    said = _refused(case, small, "inference.shapes", tries, 7, MOST)
    if _runs(case, wide(case), LEAST):
        _refused(case, wide(case), "inference.turned", [([2, 1, 56, 40], None), ([2, 40, 56, 1], None)], 7)
    return said


@point(f"So does a batch outside the profile, such as {MOST + 1}")
def batches(case: Case) -> str:
    image = list(usual(case).image)
    beyond = MOST + int(case.random("inference.beyond").integers(1, 9))
    tries = [([0, *image], None), ([beyond, *image], str(beyond))]
    said = _refused(case, usual(case), "inference.batches", tries, 7, MOST)
    for small, number, last in ((wide(case), LEAST, MOST), (fixed(case), FIXED_BATCH, FIXED_BATCH)):
        if _runs(case, small, number):
            tries = [([number - 1, *small.image], str(number - 1))]
            _refused(case, small, f"inference.{number - 1}", tries, number, last)
    return said


@point("It loads a file, and raises for one that is missing or no engine")
def loading(case: Case) -> str:
    small, (call,) = usual(case), calls(case, "inference.loading", 3)
    image = list(small.image)
    loaded = case.call(probes.load, plan=small.plan, image=image, call=call)
    if loaded.error and loaded.error["type"] == "NameError":
        advice = "steps 6 and 7 load the text of this cell alone: put its imports and helpers into it"
        raise Missed("the class to run with what its own cell defines", loaded.error["message"], advice)
    loaded.require(CLASS)
    missing = case.call(probes.load, plan=small.plan, image=image, missing=True)
    broken = case.call(probes.load, plan=b"this is no engine" * 64, image=image)
    return f"{_raised(missing, 'a file that is not there')}; {_raised(broken, 'a file that is no engine')}"


def _raised(reply: Reply, what: str) -> str:
    expected = f"an exception that is raised on purpose for {what}"
    if reply.error is None:
        raise Missed(expected, "none", "let open() raise, and look at what deserialize_cuda_engine returns")
    said = f"{reply.error['type']}: {reply.error['message'][:100]}"
    if reply.error["type"] == "NotImplementedError" or reply.slipped:
        advice = f"deserialize_cuda_engine returns None for what it cannot load: look, and raise; {_SLIPS}"
        raise Missed(expected, said, replacement(said) or advice)
    return said


def _used_in_blocks(case: Case) -> probes.Used:
    small, (call,) = usual(case), calls(case, "inference.interface", 7)
    ask = {"plan": small.plan, "image": list(small.image), "call": call}
    return case.call(probes.use_as_context, **ask).require(CLASS)


def _freed_by_blocks(case: Case) -> str:
    found = _used_in_blocks(case)
    for block, ended, done in (("", "ended", "closed"), (" that raises", "left", "left_closed")):
        if _buffers(found[ended]) != _buffers(found[done]):
            held = f"{_buffers(found[ended])}; after close() {_buffers(found[done])}"
            raise Missed(f"a with block{block} to free what close() frees", held, "call close() in __exit__, always")
    return "what close() frees is free after a with block, also where it raises"


@point(
    "It works as model(images) and in a with block, which ends like close()",
    Reported(_ALIVE, 0.3, _freed_by_blocks),
)
def interface(case: Case) -> str:
    found = _used_in_blocks(case)
    if _computes(case):
        small, (call,) = usual(case), calls(case, "inference.interface", 7)
        judge(found["called"], small, call, "model(images) in a with block")
    for end in found["ends"]:
        if end["infer"] != end["call"]:
            expected = f"model(images) to end as infer: {end['infer']}"
            raise Missed(expected, end["call"], "return infer(images), and no more")
    if found["swallowed"]:
        advice = "__exit__ that returns something true swallows the exception; return nothing"
        raise Missed("an exception in the block to go on", f"{found['swallowed'][0]} was swallowed", advice)
    return "called inside a with block"


def _buffers(alive: Alive) -> str:
    held = f"{alive['device']} device buffers, {alive['engines']} engines and {alive['contexts']} contexts"
    return f"{held}, {alive['torch']:,} bytes of tensors" if alive["torch"] else held


def _closed(case: Case) -> probes.Closed:
    largest = MOST + 1 + case.number("inference.largest") % 64
    small = usual(case, "inference.closing", largest)  # an engine, and buffers of a size, not seen before
    (call,) = calls(case, "inference.closed", 7)
    ask = {"plan": small.plan, "image": list(small.image), "call": call}
    return case.call(probes.close_instance, **ask).require(CLASS)


def _freed_by_close(case: Case) -> str:
    alive = _closed(case)["alive"]
    if any(alive[kind] for kind in ("device", "torch", "engines", "contexts")):
        advice = "call free() on every device buffer; set context and engine to None"
        raise Missed("nothing of a closed instance on the device", _buffers(alive), advice)
    return "nothing of it on the device"


@point("close() frees buffers, context and engine; infer raises from then on", Reported(_ALIVE, 0.5, _freed_by_close))
def closed(case: Case) -> str:
    found = _closed(case)
    if found["again"]["error"]:
        said = f"{found['again']['error']}: {found['again']['message'][:100]}"
        raise Missed("a second close() to do nothing", said, "remember that it is closed")
    if found["infer"]["error"] is None:
        raise Missed("infer to raise after close()", "no exception", "remember that it is closed, and raise")
    said = f"{found['infer']['error']}: {found['infer']['message'][:80]}"
    if found["infer"]["error"] in SLIPS:
        expected = "an exception that infer raises on purpose after close()"
        raise Missed(expected, said, f"look whether it is closed, and raise; {_SLIPS}")
    return said


@point(f"{_CYCLES} instances made and ended leave nothing behind", Reported(_ALIVE))
def instances(case: Case) -> str:
    small, (call,) = _wide_or_usual(case), calls(case, "inference.memory", MOST)
    ask = {"plan": small.plan, "image": list(small.image), "call": call}
    found = case.call(probes.make_many, cycles=_CYCLES, warmup=_WARM_UP, **ask).require(CLASS)
    advice = "free and let go in close(), on every way out of a with block; keep no instance, engine or array in a list"
    return _nothing_left(found, _CYCLES * _BYTES_A_CYCLE, f"{_CYCLES} instances", advice)


@point("One context serves all calls, and calls leave nothing behind", Reported(_ALIVE))
def one_instance(case: Case) -> str:
    small = _wide_or_usual(case)
    seeds = [case.number(f"inference.call.{index}") for index in range(_WARM_UP + _CALLS)]
    ask = {"plan": small.plan, "image": list(small.image), "seeds": seeds, "number": 5, "warmup": _WARM_UP}
    found = case.call(probes.call_many_times, **ask).require(CLASS)
    made = found["after"]["contexts_made"]
    if made != 1:
        said = f"{made} made in {len(seeds)} calls"
        raise Missed("one execution context for an instance", said, "make it in the constructor, use it in infer")
    advice = "allocate in allocate_buffers, or free what a call allocates; keep no images, buffers or scores of a call"
    return _nothing_left(found, _CALLS * _BYTES_A_CALL, f"{_CALLS} calls", advice)


def _nothing_left(found: probes.Growth, most_bytes: int, what: str, advice: str) -> str:
    grown = {kind: found["after"][kind] - found["before"][kind] for kind in found["after"]}
    objects = {kind: grown[kind] for kind in ("device", "host", "engines", "contexts", "streams")}
    held = grown["python"] + grown["torch"]
    names = {"device": "device buffers", "host": "page-locked arrays", "streams": "streams and events"}
    left = [f"{count} {names.get(kind, kind)}" for kind, count in objects.items() if count >= _LEAKED]
    left += [f"{held / 1e6:.1f} MB of arrays and objects"] if held > most_bytes else []
    if left:
        raise Missed(f"nothing more than before after {what}", ", ".join(left), advice)
    return f"{what}: {max(0, held) / 1e3:.0f} KB more, no buffer, engine or context"
