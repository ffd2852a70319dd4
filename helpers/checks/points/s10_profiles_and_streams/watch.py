"""A log of what a student's function asks CUDA and TensorRT for, in which the host sees what a slow device would show.

A copy to a page-locked array takes effect when the student's code has waited for it, not before: until then the array
holds NaN. What is too early by chance only, on a device that is quick enough, is so every time. A copy to a pageable
array waits for its stream, as in CUDA. That needs no clock: a log says what was enqueued, what had been waited for by
then, and whether memory that a copy reads was changed meanwhile.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict
from unittest import mock

import numpy as np
import torch

from helpers.engine.backend import cuda, trt

_LOCKS = ("pagelocked_empty", "pagelocked_zeros", "pagelocked_empty_like", "pagelocked_zeros_like")
_RUNS = ("execute_async_v3", "execute_async_v2")
_ABOUT_SHAPES = ("set_input_shape", "get_tensor_shape")


class Call(TypedDict):
    """A call of which nothing more is known."""

    what: Literal["alloc", "draw", "blocking"]


class Copy(TypedDict):
    """An asynchronous copy: the `stream`'s handle, and `pinned`, whether the host's array is page-locked."""

    what: Literal["in", "out"]
    stream: int
    pinned: bool


class Run(TypedDict):
    """A run: the `stream`'s handle, the `context`, its `profile`, and `beside`: how many other streams had runs that
    nobody had waited for."""

    what: Literal["run"]
    stream: int
    context: int
    profile: int
    beside: int


Row = Call | Copy | Run


class NoProfileError(Exception):
    """A context that has no optimization profile was used. TensorRT 8.6 would end the process."""


@dataclass
class _Enqueued:
    """Something in a stream that nobody has waited for yet, the memory it uses, and what is done when somebody has."""

    stream: int
    run: bool = False
    memory: tuple[range, ...] = ()
    settle: Callable[[], None] = lambda: None


@dataclass
class Watch:
    """`log` is what was called; `refilled` counts page-locked inputs changed before the wait for their copy, `shared`
    copies to or from memory that another stream's copy was using."""

    refuses: int | None = None
    log: list[Row] = field(default_factory=list)
    refilled: int = 0
    shared: int = 0
    _locked: list[range] = field(default_factory=list)
    _pending: list[_Enqueued] = field(default_factory=list)
    _marks: dict[int, tuple[Any, int, list[_Enqueued]]] = field(default_factory=dict)

    @property
    def unawaited(self) -> int:
        """How many operations nobody has waited for."""
        return len(self._pending)

    def drawn(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield what `batches` does, each with a row of the log."""
        for batch in batches:
            self.log.append({"what": "draw"})
            yield batch

    def _await(self, operations: list[_Enqueued]) -> None:
        """Settle `operations`: those that wait in their streams' order."""
        for one in operations:
            if any(one is other for other in self._pending):
                self._pending = [other for other in self._pending if other is not one]
                one.settle()

    def _of(self, stream: int) -> list[_Enqueued]:
        """Return what is over when `stream` is: its own operations, and what these waited for.

        The default stream waits for what all streams were given before, and what they are given later waits for it.
        """
        streams = [one.stream for one in self._pending]
        last = max((index for index, other in enumerate(streams) if other == stream), default=-1)
        barrier = max((index for index, other in enumerate(streams[: last + 1]) if not other), default=-1)
        return [one for index, one in enumerate(self._pending) if index <= barrier or one.stream == stream]

    def allocating(self, make: Callable[..., Any]) -> Callable[..., Any]:
        def allocate(*args: Any, **kwargs: Any) -> Any:
            self.log.append({"what": "alloc"})
            return make(*args, **kwargs)

        return allocate

    def locking(self, make: Callable[..., Any]) -> Callable[..., Any]:
        def lock(*args: Any, **kwargs: Any) -> Any:
            found = self.allocating(make)(*args, **kwargs)
            self._locked.append(_range(_address(found), found.nbytes))
            return found

        return lock

    def _pinned(self, host: Any) -> bool:
        """Return whether a host array lies in page-locked memory that was allocated here."""
        return any(_address(np.asarray(host)) in memory for memory in self._locked)

    def _copy(self, what: str, host: np.ndarray, device: Any, stream: Any, settle: Callable[[], None]) -> None:
        """Log a copy, and note that nobody has waited for it yet."""
        handle, memory = _handle(stream), tuple(_range(at, host.nbytes) for at in (_address(host), int(device)))
        others = [one for one in self._pending if one.stream != handle]
        self.shared += any(_overlap(one, two) for other in others for one in other.memory for two in memory)
        self.log.append({"what": what, "stream": handle, "pinned": self._pinned(host)})
        self._pending.append(_Enqueued(handle, memory=memory, settle=settle))

    def copying_in(self, copy: Callable[..., Any]) -> Callable[..., Any]:
        def memcpy_htod_async(dest: Any, src: Any, stream: Any = None) -> None:
            host = np.asarray(src)
            read = host.copy() if host.flags.c_contiguous else host  # what an instant device reads
            copy(dest, read, stream)

            def settle() -> None:
                self.refilled += self._pinned(host) and host.tobytes() != read.tobytes()

            self._copy("in", host, dest, stream, settle)

        return memcpy_htod_async

    def copying_out(self, copy: Callable[..., Any]) -> Callable[..., Any]:
        def memcpy_dtoh_async(dest: Any, src: Any, stream: Any = None) -> None:
            host = dest if isinstance(dest, np.ndarray) else np.frombuffer(dest, np.uint8)
            arrived = np.empty_like(host) if host.flags.c_contiguous else host
            copy(arrived, src, stream)
            host.reshape(-1).view(np.uint8)[:] = 0xFF  # NaN in any floating type
            self._copy("out", host, src, stream, lambda: np.copyto(host, arrived))
            if not self._pinned(host):
                self._await(self._of(_handle(stream)))

        return memcpy_dtoh_async

    def blocking(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def copy(*args: Any, **kwargs: Any) -> Any:
            self.log.append({"what": "blocking"})
            return self.awaiting_all(call)(*args, **kwargs)

        return copy

    def awaiting_all(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def waited(*args: Any, **kwargs: Any) -> Any:
            found = call(*args, **kwargs)
            self._await(list(self._pending))
            return found

        return waited

    def running(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def execute(context: Any, *args: Any, **kwargs: Any) -> Any:
            stream = int(kwargs.get("stream_handle", args[-1] if args else 0))
            count = sum(row["what"] == "run" for row in self.log)
            beside = len({one.stream for one in self._pending if one.run and one.stream != stream})
            about = {"context": id(context), "profile": _profile(context), "beside": beside}
            self.log.append({"what": "run", "stream": stream, **about})
            if count == self.refuses:
                return False
            found = run(context, *args, **kwargs)
            self._pending.append(_Enqueued(stream, run=True))
            return found

        return execute

    def waiting(self, wait: Callable[..., Any]) -> Callable[..., Any]:
        """Watch a stream's method that waits for it, or answers whether it is done."""

        def waited(stream: Any) -> Any:
            found = wait(stream)
            if found is not False:
                self._await(self._of(_handle(stream)))
            return found

        return waited

    def marking(self, record: Callable[..., Any]) -> Callable[..., Any]:
        def marked(event: Any, stream: Any = None) -> Any:
            self._marks[id(event)] = (event, _handle(stream), self._of(_handle(stream)))
            return record(event, stream)

        return marked

    def reaching(self, reach: Callable[..., Any]) -> Callable[..., Any]:
        """Watch an event's method that waits for it, or answers whether it was reached."""

        def reached(event: Any) -> Any:
            found = reach(event)
            if found is not False:
                self._await(self._marks.get(id(event), (event, 0, []))[2])
            return found

        return reached

    def following(self, wait_for_event: Callable[..., Any]) -> Callable[..., Any]:
        def follows(stream: Any, event: Any) -> Any:
            before = self._marks.get(id(event), (event, 0, []))[2]
            self._pending.append(_Enqueued(_handle(stream), settle=lambda: self._await(before)))
            return wait_for_event(stream, event)

        return follows


def _profile(context: Any) -> int:
    """Return the index of a context's profile.

    Raises:
        NoProfileError: it has none.
    """
    index = int(context.active_optimization_profile)
    if index < 0:
        raise NoProfileError("this execution context has no optimization profile; set one before you use it")
    return index


def _with_profile(call: Callable[..., Any]) -> Callable[..., Any]:
    def used(context: Any, *args: Any, **kwargs: Any) -> Any:
        _profile(context)
        return call(context, *args, **kwargs)

    return used


def _range(start: int, nbytes: int) -> range:
    return range(start, start + nbytes)


def _overlap(one: range, other: range) -> bool:
    return max(one.start, other.start) < min(one.stop, other.stop)


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def _handle(stream: Any) -> int:
    return 0 if stream is None else int(stream.handle)


@contextlib.contextmanager
def watched(refuses: int | None = None) -> Iterator[Watch]:
    """Watch what is called inside the block. With `refuses` the run of that number, from 0, answers False."""
    watch = Watch(refuses)
    replaced = [
        (cuda, "mem_alloc", watch.allocating),
        *((cuda, name, watch.locking) for name in _LOCKS),
        *((cuda, name, watch.blocking) for name in ("memcpy_htod", "memcpy_dtoh")),
        *((trt.IExecutionContext, name, watch.running) for name in _RUNS),
        *((trt.IExecutionContext, name, _with_profile) for name in _ABOUT_SHAPES),
        (cuda, "memcpy_htod_async", watch.copying_in),
        (cuda, "memcpy_dtoh_async", watch.copying_out),
        *((cuda.Stream, name, watch.waiting) for name in ("synchronize", "is_done")),
        *((cuda.Event, name, watch.reaching) for name in ("synchronize", "query")),
        (cuda.Event, "record", watch.marking),
        (cuda.Stream, "wait_for_event", watch.following),
        *((owner, "synchronize", watch.awaiting_all) for owner in (cuda.Context, torch.cuda)),
    ]
    with contextlib.ExitStack() as stack:
        for owner, name, recording in replaced:
            if hasattr(owner, name):
                stack.enter_context(mock.patch.object(owner, name, recording(getattr(owner, name))))
        yield watch
    cuda.Context.synchronize()  # what was never waited for still writes to memory that the log holds on to
