"""The student's side of run_batches: it is called on engines that are sent, with images drawn from seeds."""

import contextlib
from collections.abc import Iterator
from typing import Any, TypedDict
from unittest import mock

import numpy as np

from helpers.checks.points.s05_inference.alive import counted
from helpers.checks.points.s05_inference.probes import Growth, NoArray, Result, plain
from helpers.checks.points.s10_profiles_and_streams.watch import Row, watched
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.images import varied_images
from helpers.engine.backend import trt

FUNCTION = "run_batches"


class CannotReadError(Exception):
    """Raised by an iterator of batches."""


class ContextMadeError(Exception):
    """Raised in the place of making a context."""


def batches_of(seed: int, numbers: list[int], image: list[int]) -> list[np.ndarray]:
    """Return a batch of images, float32 [n, *image], for each of the numbers."""
    return [varied_images(seed + index, number, image) for index, number in enumerate(numbers)]


def _engine(plan: bytes) -> Any:
    return trt.Runtime(trt.Logger(trt.Logger.INTERNAL_ERROR)).deserialize_cuda_engine(plan)


class Streamed(TypedDict):
    """What `run_streams` answers."""

    outputs: list[Result] | NoArray
    later: list[Result]
    alike: bool
    log: list[Row]
    refilled: int
    shared: int
    unawaited: int
    untouched: bool


class Ended(TypedDict):
    """What `streams_end` answers."""

    raised: str | None
    message: str
    own: bool
    unawaited: int


@probe
def run_streams(
    notebook: Notebook,
    *,
    plan: bytes,
    image: list[int],
    seed: int,
    numbers: list[int],
    streams: int | None,
    listed: bool = False,
    strided: bool = False,
    again: bool = False,
) -> Streamed:
    """Call `run_batches` once, watched, on batches of `numbers` images; with `streams` None by its default.

    They come from a generator, or in a list if `listed`; with `strided` they are views in another memory layout.
    Returns `outputs` (a list, or {"type"} of what came instead); with `again` these arrays as they are `later`, after a
    second call with other images, else none; `alike`, whether two of them share memory; the `log`, `refilled`, `shared`
    and `unawaited` of the watch; and `untouched`, whether the batches given are as they were.
    """
    engine, batches = _engine(plan), batches_of(seed, numbers, image)
    given = [_strided(batch) if strided else batch.copy() for batch in batches]
    how = {} if streams is None else {"streams": streams}
    with watched() as watch:
        drawn = watch.drawn(iter(given))
        found = notebook[FUNCTION](engine, given if listed else drawn, **how)
        unawaited = watch.unawaited
    results = list(found) if isinstance(found, (list, tuple)) else None
    answer: Streamed = {
        "outputs": {"type": type(found).__name__} if results is None else [plain(result) for result in results],
        "later": [],
        "alike": results is not None and _share(results),
        "log": watch.log,
        "refilled": watch.refilled,
        "shared": watch.shared,
        "unawaited": unawaited,
        "untouched": all(np.array_equal(one, other) for one, other in zip(given, batches, strict=True)),
    }
    if again and results is not None:
        notebook[FUNCTION](engine, batches_of(seed + len(numbers), numbers, image), **how)
        answer["later"] = [plain(result) for result in results]
    return answer


def _strided(batch: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(batch.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


def _share(results: list[Any]) -> bool:
    arrays = [result for result in results if isinstance(result, np.ndarray)]
    return any(np.shares_memory(one, other) for i, one in enumerate(arrays) for other in arrays[:i])


def _failing(batches: list[np.ndarray], error: Exception | None = None) -> Iterator[np.ndarray]:
    yield from batches
    raise error or CannotReadError("the next file cannot be read")


@probe
def streams_end(
    notebook: Notebook,
    *,
    plan: bytes,
    image: list[int],
    seed: int,
    numbers: list[int],
    streams: int,
    refuses: int | None = None,
    breaks: bool = False,
    withheld: int | None = None,
    contexts: bool = True,
) -> Ended:
    """Call `run_batches` where it ends by an exception: a batch that does not fit, a run that answers False
    (`refuses`), an iterator that `breaks` after its batches, the profile `withheld`; without `contexts` none is made.

    Returns `raised` (the exception's type, None without one), its `message`, `own`, whether it is the iterator's, and
    how many operations were `unawaited` by then.
    """
    error, engine, raised = CannotReadError("the next file cannot be read"), _engine(plan), None
    batches = batches_of(seed, numbers, image)
    with watched(refuses) as watch, _contexts(contexts), _without_profile(withheld):
        try:
            notebook[FUNCTION](engine, _failing(batches, error) if breaks else iter(batches), streams=streams)
        except NotImplementedError:
            raise
        except Exception as found:
            raised = found
        unawaited = watch.unawaited
    kind = None if raised is None else type(raised).__name__
    return {"raised": kind, "message": str(raised), "own": raised is error, "unawaited": unawaited}


@contextlib.contextmanager
def _without_profile(index: int | None) -> Iterator[None]:
    """Let no context have the profile of that index, as TensorRT 8.6 where another has it."""
    name, original = "set_optimization_profile_async", trt.IExecutionContext.set_optimization_profile_async

    def given(context: Any, profile_index: int, stream_handle: int) -> bool:
        return profile_index != index and original(context, profile_index, stream_handle)

    with mock.patch.object(trt.IExecutionContext, name, given):
        yield


@contextlib.contextmanager
def _contexts(allowed: bool) -> Iterator[None]:
    """Without `allowed` raise where a context is made: on TensorRT 8.6 one without a profile could end the process."""

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise ContextMadeError("an execution context was made")

    with contextlib.ExitStack() as stack:
        if not allowed:
            stack.enter_context(mock.patch.object(trt.ICudaEngine, "create_execution_context", refuse))
        yield


@probe
def streams_leave(
    notebook: Notebook, *, plan: bytes, image: list[int], seed: int, numbers: list[int], streams: int, cycles: int
) -> Growth:
    """Call `run_batches` again and again, every other time with an iterator that breaks.

    Returns what is alive `before` and `after` the `cycles` that follow the first two, as `counted` counts.
    """
    engine, batches = _engine(plan), batches_of(seed, numbers, image)

    def cycle(index: int) -> None:
        breaks = index % 2 == 1
        with contextlib.suppress(*([Exception] if breaks else [])):
            notebook[FUNCTION](engine, _failing(batches) if breaks else batches, streams=streams)

    with counted() as alive:
        cycle(0)
        cycle(1)
        before = alive()
        for index in range(cycles):
            cycle(index)
        return {"before": before, "after": alive()}
