"""Watches a student's calls of CUDA and TensorRT, and lets the device look as slow as a real one may be.

    with watched() as watch:
        ...                                  # the student's code
    watch.log, watch.refilled, watch.under_way, watch.alive()

A copy to a page-locked array takes effect only after a synchronisation; until then the array holds NaN. So code that
reads too early fails every time, not only by chance. A copy to a pageable array waits, as in CUDA.
"""

import contextlib
import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock
from weakref import WeakValueDictionary

import numpy as np
import torch

from helpers.engine.backend import cuda, trt

_LOCKS = ("pagelocked_empty", "pagelocked_zeros", "pagelocked_empty_like", "pagelocked_zeros_like")
_USES_PROFILE = ("set_input_shape", "get_tensor_shape", "execute_async_v3")
_HELD = ("device buffers", "engines", "contexts")


class NoProfileError(Exception):
    """A context without an optimization profile was used. TensorRT 8.6 would end the process."""


@dataclass(eq=False)
class Call:
    """A copy "in" or "out", a "run", a "blocking" copy, or something created, such as "contexts".

    For an asynchronous copy: the handle of its `stream`, and `pinned`: if the host array is page-locked. For a run: its
    `stream`, its `context` and the context's `profile`, and `beside`: how many other streams had unfinished work.
    `arrive` makes its result visible to the host; it is None after a synchronisation.
    """

    what: str
    stream: int = 0
    pinned: bool = False
    context: int = 0
    profile: int = 0
    beside: int = 0
    arrive: Callable[[], None] | None = None


@dataclass
class Watch:
    """`log` has the calls; `refilled` counts page-locked inputs that changed before their copy was done."""

    log: list[Call] = field(default_factory=list)
    refilled: int = 0
    marks: dict[int, list[Call]] = field(default_factory=dict)
    _locked: list[range] = field(default_factory=list)
    held: dict[str, Any] = field(default_factory=lambda: {kind: WeakValueDictionary() for kind in _HELD})

    @property
    def under_way(self) -> list[Call]:
        """The calls without a synchronisation after them."""
        return [call for call in self.log if call.arrive]

    def in_stream(self, stream: Any) -> list[Call]:
        """Return the calls of a stream without a synchronisation after them."""
        return [call for call in self.under_way if call.stream == _handle(stream)]

    def waited(self, calls: list[Call]) -> None:
        """Make the results of `calls` visible, after a synchronisation."""
        for call in calls:
            if call.arrive:
                call.arrive()
                call.arrive = None

    def alive(self) -> dict[str, int]:
        """Return how many objects of each kind are alive, and how many contexts were made."""
        gc.collect()
        made = sum(call.what == "contexts" for call in self.log)
        return {**{kind: len(held) for kind, held in self.held.items()}, "contexts made": made}

    def made(self, kind: str, found: Any) -> None:
        """Note an object, and count it while it is alive."""
        if found is not None:
            self.held[kind][id(found)] = found
            self.log.append(Call(kind))

    def locked(self, array: np.ndarray) -> None:
        """Remember page-locked memory."""
        self.log.append(Call("page-locked buffers"))
        self._locked.append(range(start := _address(array), start + array.nbytes))

    def blocked(self) -> None:
        """Note a copy that waits for the whole device."""
        self.log.append(Call("blocking"))
        self.waited(self.under_way)

    def ran(self, context: Any, stream: int) -> None:
        """Note a run."""
        beside = len({call.stream for call in self.under_way} - {stream})
        profile = int(context.active_optimization_profile)
        self.log.append(Call("run", stream, False, id(context), profile, beside, arrive=lambda: None))

    def copied_in(self, copy: Callable[..., Any], dest: Any, src: Any, stream: Any = None) -> None:
        """Copy at once; count the copy as refilled if the source has changed by the time of the synchronisation."""
        host = np.asarray(src)
        read, pinned = host.copy() if host.flags.c_contiguous else host, self._pinned(host)
        copy(dest, read, stream)

        def arrive() -> None:
            self.refilled += pinned and host.tobytes() != read.tobytes()

        self.log.append(Call("in", _handle(stream), pinned, arrive=arrive))

    def copied_out(self, copy: Callable[..., Any], dest: Any, src: Any, stream: Any = None) -> None:
        """Let a copy arrive at the synchronisation; a copy to pageable memory waits by itself."""
        host = np.asarray(dest)
        arrived, pinned = np.empty_like(host) if host.flags.c_contiguous else host, self._pinned(host)
        copy(arrived, src, stream)
        host.reshape(-1).view(np.uint8)[:] = 0xFF  # NaN in any floating type
        self.log.append(Call("out", _handle(stream), pinned, arrive=lambda: np.copyto(host, arrived)))
        if not pinned:
            self.waited(self.in_stream(stream))

    def _pinned(self, host: np.ndarray) -> bool:
        return any(_address(host) in memory for memory in self._locked)


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def _handle(stream: Any) -> int:
    return 0 if stream is None else int(stream.handle)


Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


def _then(note: Callable[..., None]) -> Wrap:
    """Return a wrapper that calls `note(found, *arguments)` after each call, unless it returned False."""

    def wrap(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            found = call(*args, **kwargs)
            if found is not False:
                note(found, *args, **kwargs)
            return found

        return called

    return wrap


def _instead(replacement: Callable[..., None]) -> Wrap:
    return lambda call: lambda *args, **kwargs: replacement(call, *args, **kwargs)


def _with_profile(call: Callable[..., Any]) -> Callable[..., Any]:
    def used(context: Any, *args: Any, **kwargs: Any) -> Any:
        if context.active_optimization_profile < 0:
            raise NoProfileError("this execution context has no optimization profile; set one before you use it")
        return call(context, *args, **kwargs)

    return used


@contextlib.contextmanager
def watched() -> Iterator[Watch]:
    """Watch the calls inside the block."""
    watch, context, stream, event = Watch(), trt.IExecutionContext, cuda.Stream, cuda.Event
    replaced: list[tuple[Any, str, Wrap]] = [
        (cuda, "mem_alloc", _then(lambda found, *_, **__: watch.made("device buffers", found))),
        (cuda.DeviceAllocation, "free", _then(lambda _, freed: watch.held["device buffers"].pop(id(freed), None))),
        (trt.Runtime, "deserialize_cuda_engine", _then(lambda found, *_, **__: watch.made("engines", found))),
        (trt.ICudaEngine, "create_execution_context", _then(lambda found, *_, **__: watch.made("contexts", found))),
        *((cuda, name, _then(lambda found, *_, **__: watch.locked(found))) for name in _LOCKS),
        (cuda, "memcpy_htod_async", _instead(watch.copied_in)),
        (cuda, "memcpy_dtoh_async", _instead(watch.copied_out)),
        *((cuda, name, _then(lambda *_, **__: watch.blocked())) for name in ("memcpy_htod", "memcpy_dtoh")),
        (context, "execute_async_v3", _then(lambda _, ran, stream_handle: watch.ran(ran, int(stream_handle)))),
        *((context, name, _with_profile) for name in _USES_PROFILE),
        *(
            (stream, name, _then(lambda _, of: watch.waited(watch.in_stream(of))))
            for name in ("synchronize", "is_done")
        ),
        *(
            (event, name, _then(lambda _, of: watch.waited(watch.marks.get(id(of), []))))
            for name in ("synchronize", "query")
        ),
        (event, "record", _then(lambda _, of, stream=None: watch.marks.update({id(of): watch.in_stream(stream)}))),
        *(
            (owner, "synchronize", _then(lambda *_: watch.waited(watch.under_way)))
            for owner in (cuda.Context, torch.cuda)
        ),
    ]
    with contextlib.ExitStack() as stack:
        for owner, name, wrap in replaced:
            if hasattr(owner, name):
                stack.enter_context(mock.patch.object(owner, name, wrap(getattr(owner, name))))
        yield watch
    cuda.Context.synchronize()  # unfinished work still writes to memory that the watch keeps
