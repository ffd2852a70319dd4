"""Watches what a student's code asks CUDA and TensorRT for, and shows the host what a slow device would show.

    with watched() as watch:
        ...                                  # the student's code
    watch.log, watch.refilled, watch.under_way, watch.alive()

A copy to a page-locked array takes effect when the code has waited for it: until then the array holds NaN. So what is
read too early by chance only, on a quick device, is so every time. A copy to a pageable array waits, as in CUDA.
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
    """A context that has no optimization profile was used. TensorRT 8.6 would end the process."""


@dataclass(eq=False)
class Call:
    """A copy "in" or "out", a "run", a copy that is "blocking"; or what was made, such as "contexts".

    Of an asynchronous copy: its `stream`'s handle, and `pinned`, whether the host's array is page-locked. Of a run: its
    `stream`, its `context`, that one's `profile`, and `beside`: how many other streams had work nobody had waited for.
    `arrive` shows the host what it did; it is None once somebody has waited for it.
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
    """`log` is what was called; `refilled` counts page-locked inputs that changed before the wait for their copy."""

    log: list[Call] = field(default_factory=list)
    refilled: int = 0
    marks: dict[int, list[Call]] = field(default_factory=dict)
    _locked: list[range] = field(default_factory=list)
    held: dict[str, Any] = field(default_factory=lambda: {kind: WeakValueDictionary() for kind in _HELD})

    @property
    def under_way(self) -> list[Call]:
        """The calls that nobody has waited for."""
        return [call for call in self.log if call.arrive]

    def in_stream(self, stream: Any) -> list[Call]:
        """Return the calls of a stream that nobody has waited for."""
        return [call for call in self.under_way if call.stream == _handle(stream)]

    def waited(self, calls: list[Call]) -> None:
        """Show what `calls` did: somebody has waited for them."""
        for call in calls:
            if call.arrive:
                call.arrive()
                call.arrive = None

    def alive(self) -> dict[str, int]:
        """Return how many objects of each kind are neither freed nor forgotten, and how many "contexts made"."""
        gc.collect()
        made = sum(call.what == "contexts" for call in self.log)
        return {**{kind: len(held) for kind, held in self.held.items()}, "contexts made": made}

    def made(self, kind: str, found: Any) -> None:
        """Note an object, and count it for as long as it is alive."""
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
        """Copy as an instant device would; count it where the source is another by the time of the wait."""
        host = np.asarray(src)
        read, pinned = host.copy() if host.flags.c_contiguous else host, self._pinned(host)
        copy(dest, read, stream)

        def arrive() -> None:
            self.refilled += pinned and host.tobytes() != read.tobytes()

        self.log.append(Call("in", _handle(stream), pinned, arrive=arrive))

    def copied_out(self, copy: Callable[..., Any], dest: Any, src: Any, stream: Any = None) -> None:
        """Let a copy arrive when it is waited for; a copy to pageable memory waits itself."""
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
    """Return what has `note(found, *arguments)` called after a call that answered anything but False."""

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
    """Watch what is called inside the block."""
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
    cuda.Context.synchronize()  # what was never waited for still writes to memory that the watch holds on to
