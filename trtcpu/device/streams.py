"""Streams and events of the CPU engine: work that runs in order, beside the thread that enqueued it.

Each stream has one worker thread, started when it is first needed. A stream that is idle may start an asynchronous
inference at once on the calling thread (`submit_external`), so that enqueue and synchronise cost no thread switch.
Streams order themselves against the default stream as CUDA's legacy default stream does.
"""

import itertools
import queue
import threading
import time
import weakref
from collections.abc import Callable

from trtcpu.device.memory import LogicError

NON_BLOCKING = 1
Work = Callable[[], None]


class _Gate:
    """A one-time gate: `wait` returns once `open` was called, for any number of waiters."""

    __slots__ = ("_lock", "is_open", "time_ns")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self.is_open = False
        self.time_ns = 0

    def open(self) -> None:
        self.time_ns = time.perf_counter_ns()
        self.is_open = True
        self._lock.release()

    def wait(self) -> None:
        if not self.is_open:
            with self._lock:
                pass


class _External:
    """An asynchronous operation that runs outside the worker; `finish` waits for it once, from any thread."""

    __slots__ = ("_lock", "_wait", "done")

    def __init__(self, wait: Work) -> None:
        self._lock = threading.Lock()
        self._wait = wait
        self.done = False

    def finish(self) -> None:
        with self._lock:
            if not self.done:
                try:
                    self._wait()
                finally:
                    self.done = True


class _Queue:
    """A stream's state, apart from the Stream object so that the worker does not keep that alive."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lock = threading.RLock()
        self.items: queue.SimpleQueue[_Gate | tuple[Work, bool] | None] = queue.SimpleQueue()
        self.pending = 0
        self.external: _External | None = None
        self.error: BaseException | None = None
        self.worker: threading.Thread | None = None

    def busy(self) -> bool:
        external = self.external
        return self.pending > 0 or (external is not None and not external.done)

    def push(self, work: Work, always: bool = False) -> None:
        """Append work; `always` marks work that also runs after an error (waiting). Call with the lock held."""
        self.hand_over_external()
        self._put(work, always)

    def hand_over_external(self) -> None:
        """Let the worker wait for the operation that was started on an enqueuing thread. Call with the lock held."""
        external, self.external = self.external, None
        if external is not None and not external.done:
            self._put(external.finish, True)

    def _put(self, work: Work, always: bool) -> None:
        if self.worker is None:
            self.worker = threading.Thread(target=_serve, args=(self,), name=self.name, daemon=True)
            self.worker.start()
        self.pending += 1
        self.items.put((work, always))

    def gate(self) -> _Gate:
        """Return a gate that opens when the stream has done what is enqueued now."""
        gate = _Gate()
        with self.lock:
            if self.busy():
                self.hand_over_external()
                self.items.put(gate)
            else:
                gate.open()
        return gate

    def run(self, work: Work, always: bool) -> None:
        if self.error is not None and not always:
            return
        try:
            work()
        except BaseException as error:
            self.error = self.error or error

    def finish(self) -> None:
        """Wait for everything that is enqueued now; errors stay in `error`."""
        if threading.current_thread() is self.worker:
            raise LogicError("a stream cannot wait for itself; synchronise from the thread that enqueues")
        with self.lock:
            external = None if self.pending else self.external
            gate = self.gate() if self.pending else None
        if gate is not None:
            gate.wait()
        elif external is not None:
            self.run(external.finish, True)

    def raise_error(self) -> None:
        with self.lock:
            error, self.error = self.error, None
        if error is not None:
            raise error


def _serve(state: _Queue) -> None:
    """Run a stream's items in order until None ends it."""
    while (item := state.items.get()) is not None:
        if isinstance(item, _Gate):
            item.open()
            continue
        state.run(*item)
        with state.lock:
            state.pending -= 1
        del item


def _run_in_turn(start: Work, wait: Work) -> None:
    start()
    wait()


class Stream:
    """A queue of device work, as pycuda.driver.Stream.

    Args:
        flags: 0, or 1 (CU_STREAM_NON_BLOCKING) for a stream that does not wait for the default stream.
    """

    _handles = itertools.count(1)

    def __init__(self, flags: int = 0) -> None:
        self._open(next(Stream._handles), flags)

    def _open(self, handle: int, flags: int) -> None:
        self._handle = handle
        self._blocking = not flags & NON_BLOCKING
        self._queue = _Queue(f"cpu-engine-stream-{handle}")
        _streams[handle] = self

    @property
    def handle(self) -> int:
        """The integer that `execute_async_v3` and calibrators take; valid while this object lives."""
        return self._handle

    def __hash__(self) -> int:
        return hash(self._handle)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other._handle == self._handle

    def __del__(self) -> None:
        state = getattr(self, "_queue", None)
        if state is not None and state.worker is not None:
            state.items.put(None)

    def submit(self, work: Work) -> None:
        """Enqueue `work`; it runs on the stream's worker after everything enqueued before."""
        barriers = self._barriers()
        with self._queue.lock:
            self._push_waits(barriers)
            self._queue.push(work)

    def try_now(self, work: Work) -> bool:
        """Run `work` on this thread if the stream is idle and nothing orders before it; tell whether it ran."""
        if self._barriers():
            return False
        with self._queue.lock:
            if self._queue.busy() or self._queue.error is not None:
                return False
            work()
            return True

    def submit_external(self, start: Work, wait: Work) -> None:
        """Enqueue an operation that runs by itself between `start()` and the end of `wait()`.

        On an idle stream `start` is called at once on this thread and its errors are raised here; later work and
        `synchronize` call `wait` first. On a busy stream both run on the worker, in order.
        """
        state, barriers = self._queue, self._barriers()
        with state.lock:
            if not barriers and not state.busy() and state.error is None:
                start()
                state.external = _External(wait)
            else:
                self._push_waits(barriers)
                state.push(lambda: _run_in_turn(start, wait))

    def _barriers(self) -> list[_Gate]:
        """Return gates for the other streams' work that this one waits for; taken before this stream's lock."""
        if self is DEFAULT_STREAM:
            before = [other for other in _live_streams() if other._blocking and other is not self]
        else:
            before = [DEFAULT_STREAM] if self._blocking else []
        return [other._queue.gate() for other in before if other._queue.busy()]

    def _push_waits(self, gates: list[_Gate]) -> None:
        for gate in gates:
            self._queue.push(gate.wait, always=True)

    def _gate(self) -> _Gate:
        barriers = self._barriers()
        with self._queue.lock:
            self._push_waits(barriers)
            return self._queue.gate()

    def synchronize(self) -> None:
        """Wait for everything enqueued so far and raise the first error of that work; the error is then cleared."""
        self.finish()

    def finish(self) -> None:
        """Do what `synchronize` does, whatever a subclass or a test puts in its place."""
        self._queue.finish()
        self._queue.raise_error()

    def idle(self) -> bool:
        """Tell whether everything enqueued is done, without waiting."""
        state = self._queue
        with state.lock:
            if not state.busy():
                return True
            state.hand_over_external()
        return False

    def is_done(self) -> bool:
        """pycuda's name for `idle`."""
        return self.idle()

    def wait_for_event(self, event: "Event") -> None:
        """Make work enqueued from now on wait until `event`, as it is recorded now, is reached."""
        gate = event._gate
        if gate is not None and not gate.is_open:
            with self._queue.lock:
                self._queue.push(gate.wait, always=True)


class Event:
    """A moment in a stream, timed by the host's clock when the stream reaches it; as pycuda.driver.Event."""

    def __init__(self, flags: int = 0) -> None:
        self._flags = flags
        self._gate: _Gate | None = None
        self._stream: Stream | None = None

    def record(self, stream: Stream | None = None) -> "Event":
        """Mark the point after everything enqueued in `stream` (default: the default stream); returns the event."""
        self._stream = stream if stream is not None else DEFAULT_STREAM
        self._gate = self._stream._gate()
        return self

    def query(self) -> bool:
        """Tell whether the recorded point was reached; an event that was never recorded counts as reached."""
        return self._gate is None or self._gate.is_open

    def synchronize(self) -> "Event":
        """Wait until the recorded point is reached; raises the stream's error if its work failed before it."""
        if self._gate is not None and self._stream is not None:
            self._gate.wait()
            self._stream._queue.raise_error()
        return self

    def _reached_ns(self) -> int:
        if self._gate is None:
            raise LogicError("the event was never recorded; call event.record(stream) first")
        if not self._gate.is_open:
            raise LogicError("the event was not reached yet; call event.synchronize() before asking for times")
        return self._gate.time_ns

    def time_since(self, event: "Event") -> float:
        """Return the milliseconds from `event` to this event.

        Raises:
            LogicError: one of them was not recorded or not reached yet.
        """
        return (self._reached_ns() - event._reached_ns()) / 1e6

    def time_till(self, event: "Event") -> float:
        """Return the milliseconds from this event to `event`; errors as `time_since`."""
        return event.time_since(self)

    def elapsed(self, event: "Event") -> float:
        """Return the milliseconds from this event to `event`; pycuda itself has only `time_till` and `time_since`."""
        return self.time_till(event)


_streams: "weakref.WeakValueDictionary[int, Stream]" = weakref.WeakValueDictionary()


def _live_streams() -> list[Stream]:
    return list(_streams.values())


def _default_stream() -> Stream:
    stream = Stream.__new__(Stream)
    stream._open(0, 0)
    return stream


DEFAULT_STREAM = _default_stream()


def stream_from_handle(handle: int) -> Stream:
    """Return the live stream of `handle`; 0 is the default stream.

    Raises:
        LogicError: no live stream has that handle.
    """
    try:
        return _streams[int(handle)]
    except KeyError:
        raise LogicError(
            f"{handle} is no live stream's handle; keep the cuda.Stream object alive while its handle is in use"
        ) from None


def synchronize_all(blocking_only: bool = False) -> None:
    """Wait for every stream (or those that order themselves against the default stream); raise their first error."""
    for stream in _live_streams():
        if stream._blocking or not blocking_only:
            stream.synchronize()
