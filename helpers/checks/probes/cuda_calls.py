"""Watches what a student's code asks CUDA and TensorRT for, and shows the host what a slow device would show.

    with watched() as watch:
        ...                                  # the student's code
    watch.log, watch.refilled, watch.unawaited, watch.alive()

A copy to a page-locked array takes effect when the code has waited for it: until then the array holds NaN. So what is
read too early by chance only, on a quick device, is so every time. A copy to a pageable array waits, as in CUDA.
"""

import contextlib
import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict
from unittest import mock
from weakref import WeakValueDictionary

import numpy as np
import torch

from helpers.engine.backend import cuda, trt

_LOCKS = ("pagelocked_empty", "pagelocked_zeros", "pagelocked_empty_like", "pagelocked_zeros_like")
_USES_PROFILE = ("set_input_shape", "get_tensor_shape", "execute_async_v3")
_HELD = ("device buffers", "engines", "contexts")


class Row(TypedDict):
    """One call: an allocation, a copy in or out, a run, or a copy that blocks.

    Of an asynchronous copy: its `stream`'s handle, and `pinned`, whether the host's array is page-locked. Of a run: its
    `stream`, its `context`, that one's `profile`, and `beside`: how many other streams had work nobody had waited for.
    """

    what: Literal["alloc", "in", "out", "run", "blocking"]
    stream: int
    pinned: bool
    context: int
    profile: int
    beside: int


class NoProfileError(Exception):
    """A context that has no optimization profile was used. TensorRT 8.6 would end the process."""


@dataclass(eq=False)
class _Enqueued:
    """Something in a stream that nobody has waited for yet, and what is done when somebody has."""

    stream: int
    settle: Callable[[], None] = lambda: None


def _row(what: Any, stream: int = 0, **more: Any) -> Row:
    return {"what": what, "stream": stream, "pinned": False, "context": 0, "profile": 0, "beside": 0, **more}


@dataclass
class Watch:
    """`log` is what was called; `refilled` counts page-locked inputs that changed before the wait for their copy."""

    log: list[Row] = field(default_factory=list)
    refilled: int = 0
    contexts_made: int = 0
    _locked: list[range] = field(default_factory=list)
    _pending: list[_Enqueued] = field(default_factory=list)
    _marks: dict[int, list[_Enqueued]] = field(default_factory=dict)
    _made: dict[str, Any] = field(default_factory=lambda: {kind: WeakValueDictionary() for kind in _HELD})

    @property
    def unawaited(self) -> int:
        """How many operations nobody has waited for."""
        return len(self._pending)

    def alive(self) -> dict[str, int]:
        """Return how many objects of each kind are neither freed nor forgotten, and how many "contexts made"."""
        gc.collect()
        return {kind: len(made) for kind, made in self._made.items()} | {"contexts made": self.contexts_made}

    def made(self, kind: str, found: Any) -> None:
        """Count an object for as long as it is alive."""
        if found is not None:
            self._made[kind][id(found)] = found
            self.contexts_made += kind == "contexts"
            self.log += [_row("alloc")] * (kind == "device buffers")

    def freed(self, allocation: Any) -> None:
        """Count device memory no longer."""
        self._made["device buffers"].pop(id(allocation), None)

    def locked(self, array: np.ndarray) -> None:
        """Remember page-locked memory."""
        self.log.append(_row("alloc"))
        self._locked.append(range(start := _address(array), start + array.nbytes))

    def settle(self, operations: list[_Enqueued]) -> None:
        """Show what `operations` did: somebody has waited for them."""
        for one in [one for one in self._pending if one in operations]:
            self._pending.remove(one)
            one.settle()

    def settle_all(self) -> None:
        """Show what everything did that was enqueued."""
        self.settle(list(self._pending))

    def mark(self, event: Any, stream: Any) -> None:
        """Remember what an event stands behind."""
        self._marks[id(event)] = self._of(stream)

    def reached(self, event: Any) -> None:
        """Settle what an event stands behind."""
        self.settle(self._marks.get(id(event), []))

    def waited(self, stream: Any) -> None:
        """Settle what a stream was given."""
        self.settle(self._of(stream))

    def _of(self, stream: Any) -> list[_Enqueued]:
        return [one for one in self._pending if one.stream == _handle(stream)]

    def blocked(self) -> None:
        """Note a copy that waits for the whole device."""
        self.log.append(_row("blocking"))
        self.settle_all()

    def ran(self, context: Any, stream: int) -> None:
        """Note a run."""
        beside = len({one.stream for one in self._pending} - {stream})
        about = {"context": id(context), "profile": int(context.active_optimization_profile), "beside": beside}
        self.log.append(_row("run", stream, **about))
        self._pending.append(_Enqueued(stream))

    def copied_in(self, copy: Callable[..., Any], dest: Any, src: Any, stream: Any = None) -> None:
        """Copy as an instant device would; count it where the source is another by the time of the wait."""
        host = np.asarray(src)
        read = host.copy() if host.flags.c_contiguous else host
        copy(dest, read, stream)

        def settle() -> None:
            self.refilled += self._pinned(host) and host.tobytes() != read.tobytes()

        self._enqueued("in", host, stream, settle)

    def copied_out(self, copy: Callable[..., Any], dest: Any, src: Any, stream: Any = None) -> None:
        """Let a copy arrive when it is waited for; a copy to pageable memory waits itself."""
        host = np.asarray(dest)
        arrived = np.empty_like(host) if host.flags.c_contiguous else host
        copy(arrived, src, stream)
        host.reshape(-1).view(np.uint8)[:] = 0xFF  # NaN in any floating type
        self._enqueued("out", host, stream, lambda: np.copyto(host, arrived))
        if not self._pinned(host):
            self.waited(stream)

    def _enqueued(self, what: str, host: np.ndarray, stream: Any, settle: Callable[[], None]) -> None:
        self.log.append(_row(what, _handle(stream), pinned=self._pinned(host)))
        self._pending.append(_Enqueued(_handle(stream), settle))

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
        (cuda.DeviceAllocation, "free", _then(lambda _, freed: watch.freed(freed))),
        (trt.Runtime, "deserialize_cuda_engine", _then(lambda found, *_, **__: watch.made("engines", found))),
        (trt.ICudaEngine, "create_execution_context", _then(lambda found, *_, **__: watch.made("contexts", found))),
        *((cuda, name, _then(lambda found, *_, **__: watch.locked(found))) for name in _LOCKS),
        (cuda, "memcpy_htod_async", _instead(watch.copied_in)),
        (cuda, "memcpy_dtoh_async", _instead(watch.copied_out)),
        *((cuda, name, _then(lambda *_, **__: watch.blocked())) for name in ("memcpy_htod", "memcpy_dtoh")),
        (context, "execute_async_v3", _then(lambda _, ran, stream_handle: watch.ran(ran, int(stream_handle)))),
        *((context, name, _with_profile) for name in _USES_PROFILE),
        *((stream, name, _then(lambda _, waited: watch.waited(waited))) for name in ("synchronize", "is_done")),
        *((event, name, _then(lambda _, reached: watch.reached(reached))) for name in ("synchronize", "query")),
        (event, "record", _then(lambda _, marked, in_stream=None: watch.mark(marked, in_stream))),
        *((owner, "synchronize", _then(lambda *_: watch.settle_all())) for owner in (cuda.Context, torch.cuda)),
    ]
    with contextlib.ExitStack() as stack:
        for owner, name, wrap in replaced:
            if hasattr(owner, name):
                stack.enter_context(mock.patch.object(owner, name, wrap(getattr(owner, name))))
        yield watch
    cuda.Context.synchronize()  # what was never waited for still writes to memory that the watch holds on to
