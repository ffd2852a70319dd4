"""Runs a student's inference class on engines that are sent, with images that both sides draw from the same seed."""

import contextlib
import gc
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from helpers.probes.answer import Notebook as Submission
from helpers.probes.answer import probe as operation
from helpers.probes.images import varied_images
from helpers.probes.memory_use import device_memory_bytes, growth_over

__all__ = ["close_instance", "cycle_instances", "infer", "infer_in_two", "refuse", "use_as_context"]

CLASS = "TensorRTInference"


class _LeftEarlyError(Exception):
    """Raised inside a `with` block: it must free the memory then too."""


@contextlib.contextmanager
def _file(plan: bytes) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.engine"
        path.write_bytes(plan)
        yield str(path)


def _shaped(images: np.ndarray, form: str) -> np.ndarray:
    """Return the same images in another memory layout or type."""
    if form == "float64":
        return images.astype(np.float64)
    if form == "channels_last":  # as np.transpose leaves an image that was read as [H, W, C]
        return np.ascontiguousarray(images.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    if form == "every_second":
        return np.repeat(images, 2, axis=0)[::2]
    return images


def _plain(result: Any) -> Any:
    """Return an array's copy as it is now; what is no array is told by its type's name."""
    return result.copy() if isinstance(result, np.ndarray) else {"type": type(result).__name__}


def _attempt(action: Any) -> dict[str, Any]:
    """Return {"error": None, "result"} or {"error": type, "message"} of calling `action`."""
    try:
        return {"error": None, "message": "", "result": _plain(action())}
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error), "result": None}


@operation
def infer(submission: Submission, *, plan: bytes, edge: int, calls: list[dict[str, Any]]) -> dict[str, Any]:
    """Run the calls ({"seed", "number", "form"}) in order on one instance; "refilled" passes the last array once more.

    Returns `outputs`, each as it was when `infer` returned it; `later`, the same arrays after the last call; and
    `untouched`, whether each input was left as it was, and can be written still.
    """
    with _file(plan) as path:
        model = submission[CLASS](path)
        results, outputs, untouched = [], [], []
        given = np.empty(0, np.float32)
        for call in calls:
            images = varied_images(call["seed"], call["number"], edge)
            if call.get("form") == "refilled":
                given[...] = images
            else:
                given = _shaped(images.copy(), call.get("form", "plain"))
            results.append(model.infer(given))
            outputs.append(_plain(results[-1]))
            untouched.append(bool(np.array_equal(given, images)) and given.flags.writeable)
        later = [_plain(result) for result in results]
        model.close()
        return {"outputs": outputs, "later": later, "untouched": untouched}


@operation
def infer_in_two(submission: Submission, *, plans: list[bytes], edge: int, seeds: list[int]) -> list[Any]:
    """Keep an instance of each of the two plans and call them in turn; the second is closed before the last call."""
    with _file(plans[0]) as first_path, _file(plans[1]) as second_path:
        first, second = submission[CLASS](first_path), submission[CLASS](second_path)
        outputs = [
            _plain(model.infer(varied_images(seed, 3 + index, edge)))
            for index, (model, seed) in enumerate(zip((first, second, first, second), seeds, strict=False))
        ]
        second.close()
        outputs.append(_plain(first.infer(varied_images(seeds[4], 7, edge))))
        first.close()
        return outputs


@operation
def refuse(
    submission: Submission, *, plan: bytes, shapes: list[list[int]], edge: int, seed: int, number: int
) -> dict[str, Any]:
    """Try inputs of wrong shapes, each on one instance, then `number` right images.

    Returns `tries`: each an error or a result; and `after`, the outcome of the right ones.
    """
    with _file(plan) as path:
        model = submission[CLASS](path)
        tries = [_attempt(lambda shape=shape: model.infer(np.ones(shape, np.float32))) for shape in shapes]
        after = _attempt(lambda: model.infer(varied_images(seed, number, edge)))
        model.close()
        return {"tries": tries, "after": after}


@operation
def use_as_context(submission: Submission, *, plan: bytes, edge: int, seed: int) -> dict[str, Any]:
    """Use an instance as `with … as model` and as `model(images)`.

    Returns `called`, and `held`: the device bytes that are still allocated after the block.
    """
    with _file(plan) as path:
        _warm_up(submission, path, edge)
        before = device_memory_bytes()
        instance = submission[CLASS](path)
        with instance as model:
            called = _plain(model(varied_images(seed, 7, edge)))
        gc.collect()
        held = device_memory_bytes() - before
        return {"called": called, "held": held}


@operation
def close_instance(submission: Submission, *, plan: bytes, edge: int) -> dict[str, Any]:
    """Close an instance that is kept, then call it and close it again.

    Returns `held`: the device bytes that are still allocated after `close()`; and the outcomes `infer` and `again`.
    """
    with _file(plan) as path:
        _warm_up(submission, path, edge)
        before = device_memory_bytes()
        model = submission[CLASS](path)
        images = varied_images(1, 7, edge)
        model.infer(images)
        model.close()
        gc.collect()
        held = device_memory_bytes() - before
        return {"held": held, "again": _attempt(model.close), "infer": _attempt(lambda: model.infer(images))}


@operation
def cycle_instances(submission: Submission, *, plan: bytes, edge: int, cycles: int, warmup: int) -> dict[str, int]:
    """Create, use and close instances over and over; returns what that left behind, in bytes."""
    images = varied_images(2, 4, edge)

    def cycle(index: int) -> None:
        if index % 2:
            model = submission[CLASS](path)
            model.infer(images)
            model.close()
        elif index % 4:
            with submission[CLASS](path) as model:
                model.infer(images)
        else:
            with contextlib.suppress(_LeftEarlyError), submission[CLASS](path) as model:
                model.infer(images)
                raise _LeftEarlyError

    with _file(plan) as path:
        growth = growth_over(cycle, cycles, warmup)
    return {"cycles": growth.cycles, "device": growth.device_bytes, "process": growth.process_bytes}


def _warm_up(submission: Submission, path: str, edge: int) -> None:
    """Use one instance, so that what the first one loads for good is there before memory is compared."""
    model = submission[CLASS](path)
    model.infer(varied_images(0, 7, edge))
    model.close()
    del model
    gc.collect()
