"""The student's side of step 5: instances of the class on engines that are sent, with images drawn from seeds.

A call is {"seed", "number", "form", "exchanged", "even"}: how many images, of which seed, in which form of array;
`exchanged` swaps two in the middle; `even` ones are of one colour, so that a network cannot average away what a
conversion rounds. Those of form "refilled" are written into the array of the call before, if that can be written.
"""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from helpers.checks.points.s05_inference.alive import Alive, counted
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.images import varied_images

CLASS = "TensorRTInference"

Call = dict[str, Any]


def _read_only(images: np.ndarray) -> np.ndarray:
    images.flags.writeable = False
    return images


FORMS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "plain": lambda x: x,
    "a channels-last view": lambda x: np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2),
    "every second image": lambda x: np.repeat(x, 2, axis=0)[::2],
    "channels in reverse": lambda x: np.ascontiguousarray(x[:, ::-1])[:, ::-1],
    "Fortran's order": np.asfortranarray,
    "float64": lambda x: x.astype(np.float64),
    "a read-only array": _read_only,
}
"""Arrays that hold the same images in another way; each function gets an array of its own."""


def images_of(call: Call, image: Sequence[int]) -> np.ndarray:
    """Return the images of a call, float32 [number, *image]."""
    images = varied_images(call["seed"], call["number"], image)
    if call.get("even"):
        images[...] = images.mean(axis=(2, 3), keepdims=True)
    if call.get("exchanged"):
        images[[2, 3]] = images[[3, 2]]
    return images


@contextlib.contextmanager
def _file(plan: bytes) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.engine"
        path.write_bytes(plan)
        yield path


class NoArray(TypedDict):
    """What stands for a result that is no array."""

    type: str


Result = np.ndarray | NoArray


class Outcome(TypedDict):
    """What `_attempt` answers."""

    error: str | None
    message: str
    result: Result


def plain(result: Any) -> Result:
    """Return an array's copy as it is now; what is no array is told by its type's name."""
    return result.copy() if isinstance(result, np.ndarray) else {"type": type(result).__name__}


def _attempt(action: Callable[[], Any]) -> Outcome:
    """Return {"error", "message", "result"} of calling `action`; `error` is the exception's type, or None."""
    try:
        return {"error": None, "message": "", "result": plain(action())}
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error), "result": plain(None)}


@probe
def load(
    notebook: Notebook, *, plan: bytes, image: list[int], call: Call | None = None, missing: bool = False
) -> Result | None:
    """Make an instance from a path that is a string, as the class's docstring writes it, and run `call`, if given.

    It has the names of its own cell only, as in the steps that load the text of that cell.
    `missing`: there is no file at the path, but an engine beside it.
    """
    with _file(plan) as path:
        if missing:
            path.rename(path.with_name("other.engine"))
        model = notebook.alone(CLASS)(str(path))
        result = plain(model.infer(images_of(call, image))) if call else None
        model.close()
        return result


class Inferred(TypedDict):
    """What `infer` answers."""

    outputs: list[Result]
    later: list[Result]
    untouched: list[bool]


@probe
def infer(notebook: Notebook, *, plan: bytes, image: list[int], calls: list[Call], scribble: bool = False) -> Inferred:
    """Run calls in order on one instance; `scribble` overwrites each result once it is copied, as its owner may.

    Returns `outputs`, each as it was when `infer` returned it; `later`, the same arrays after the last call and after
    `close()`; and `untouched`, whether each input was left as it was, in its values and flags.
    """
    with _file(plan) as path:
        model = notebook[CLASS](path)
        results, outputs, untouched = [], [], []
        given = np.empty(0, np.float32)
        for call in calls:
            images = images_of(call, image)
            if call.get("form") == "refilled" and given.flags.writeable:
                given[...] = images
            else:
                given = FORMS.get(call.get("form"), FORMS["plain"])(images.copy())
            writable = given.flags.writeable
            results.append(model.infer(given))
            outputs.append(plain(results[-1]))
            untouched.append(bool(np.array_equal(given, images)) and given.flags.writeable == writable)
            if scribble and isinstance(results[-1], np.ndarray) and results[-1].flags.writeable:
                results[-1].fill(0)
        model.close()
        return {"outputs": outputs, "later": [plain(result) for result in results], "untouched": untouched}


@probe
def infer_in_two(
    notebook: Notebook, *, plans: list[bytes], image: list[int], seeds: list[int], numbers: list[int]
) -> list[Result]:
    """Keep an instance of each of two plans that came one after the other under one path, and call them in turn.

    The second is closed before the last call, which goes to the first.
    """
    with _file(plans[0]) as path:
        os.utime(path, (0, 0))
        models = [notebook[CLASS](path)]
        path.write_bytes(plans[1])
        os.utime(path, (0, 0.5))  # in the same second, as the second of two quick builds
        models.append(notebook[CLASS](path))
        outputs = []
        for index, (seed, number) in enumerate(zip(seeds, numbers, strict=True)):
            if index == len(seeds) - 1:
                models[1].close()
            outputs.append(plain(models[index % 2].infer(varied_images(seed, number, image))))
        models[0].close()
        return outputs


class Refusals(TypedDict):
    """What `refuse` answers."""

    tries: list[Outcome]
    after: Outcome


@probe
def refuse(
    notebook: Notebook, *, plan: bytes, image: list[int], shapes: list[list[int]], first: Call, call: Call
) -> Refusals:
    """Try inputs of wrong shapes on one instance after `first`. Returns the `tries`, and the outcome of `call` then."""
    with _file(plan) as path:
        model = notebook[CLASS](path)
        model.infer(images_of(first, image))
        tries = [_attempt(lambda shape=shape: model.infer(np.ones(shape, np.float32))) for shape in shapes]
        after = _attempt(lambda: model.infer(images_of(call, image)))
        model.close()
        return {"tries": tries, "after": after}


class _LeftEarlyError(Exception):
    """Raised inside a `with` block."""


class Ends(TypedDict):
    """How both ways to use an instance ended for the same images."""

    infer: str
    call: str


class Used(TypedDict):
    """What `use_as_context` answers."""

    called: Result
    ends: list[Ends]
    swallowed: list[str]
    ended: Alive
    closed: Alive
    left: Alive
    left_closed: Alive


@probe
def use_as_context(notebook: Notebook, *, plan: bytes, image: list[int], call: Call) -> Used:
    """Use one instance as `with … as model` and `model(images)`, others in blocks that raise.

    Returns `called`, what the call gave; `ends`, how `infer` and the `call` ended for one image, for one that is no
    batch, and for images of another shape; `swallowed`, the exceptions' names that did not leave their block; and what
    was alive after the first block, after the last one, and after a `close()` that followed each: `ended`, `closed`,
    `left`, `left_closed`.
    """
    images, swallowed = images_of(call, image), []
    other = np.ones((len(images), *image[:-1], image[-1] + 1), np.float32)
    with _file(plan) as path, counted() as alive:
        first, second = notebook[CLASS](path), None
        with first as model:
            called = plain(model(images))
            ends = [[_ending(way, given) for given in (images[:1], images[0], other)] for way in (model.infer, model)]
        ended, closed = alive(), _alive_after_closing((first, model), alive)
        for error in (ValueError("left"), RuntimeError("left"), _LeftEarlyError(), KeyboardInterrupt()):
            second = notebook[CLASS](path)
            if not _leaves(error, second, images):
                swallowed.append(type(error).__name__)
        left, left_closed = alive(), _alive_after_closing((second,), alive)
    found = {"ended": ended, "closed": closed, "left": left, "left_closed": left_closed}
    pairs = [{"infer": by_infer, "call": by_call} for by_infer, by_call in zip(*ends, strict=True)]
    return {**found, "called": called, "ends": pairs, "swallowed": swallowed}


def _ending(way: Callable[[np.ndarray], Any], images: np.ndarray) -> str:
    """Return the result's shape, or the name of what was raised."""
    found = _attempt(lambda: way(images))
    return found["error"] or str(np.shape(found["result"]))


def _leaves(error: BaseException, model: Any, images: np.ndarray) -> bool:
    """Return whether `error`, raised in a block, goes on; what the class itself raises does too."""
    try:
        with model as entered:
            entered.infer(images)
            raise error
    except type(error) as found:
        if found is not error:
            raise
        return True
    return False


def _alive_after_closing(models: Sequence[Any], alive: Callable[[], Alive]) -> Alive:
    for model in models:
        _attempt(model.close)
    return alive()


class Closed(TypedDict):
    """What `close_instance` answers."""

    alive: Alive
    again: Outcome
    infer: Outcome


@probe
def close_instance(notebook: Notebook, *, plan: bytes, image: list[int], call: Call) -> Closed:
    """Close an instance that is kept. Returns what is `alive` then, and the outcomes of closing and calling `again`."""
    images = images_of(call, image)
    with _file(plan) as path, counted() as alive:
        model = notebook[CLASS](path)
        model.infer(images)
        model.close()
        held = alive()
        return {"alive": held, "again": _attempt(model.close), "infer": _attempt(lambda: model.infer(images))}


class Growth(TypedDict):
    """What `make_many` and `call_many_times` answer."""

    before: Alive
    after: Alive


@probe
def make_many(notebook: Notebook, *, plan: bytes, image: list[int], call: Call, cycles: int, warmup: int) -> Growth:
    """Make, use and end instances over and over: by `close()`, by a `with` block, by one that raises.

    Returns what was alive `before` and `after` the `cycles` that follow the first `warmup`.
    """
    images = images_of(call, image)

    def cycle(index: int) -> None:
        if index % 3 == 0:
            model = notebook[CLASS](path)
            model.infer(images)
            model.close()
            return
        with contextlib.suppress(_LeftEarlyError), notebook[CLASS](path) as model:
            model.infer(images)
            if index % 3 == 1:
                raise _LeftEarlyError

    with _file(plan) as path, counted() as alive:
        for index in range(warmup):
            cycle(index)
        before = alive()
        for index in range(cycles):
            cycle(index)
        return {"before": before, "after": alive()}


@probe
def call_many_times(
    notebook: Notebook, *, plan: bytes, image: list[int], seeds: list[int], number: int, warmup: int
) -> Growth:
    """Call one instance with new images for each seed. Returns what was alive `before` and `after`, as `make_many`."""
    with _file(plan) as path, counted() as alive:
        model = notebook[CLASS](path)
        for index, seed in enumerate(seeds):
            if index == warmup:
                before = alive()
            model.infer(varied_images(seed, number, image))
        after = alive()
        model.close()
        return {"before": before, "after": after}
