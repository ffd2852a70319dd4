"""Streams and events of the CPU engine: work that runs in order, beside the thread that enqueued it.

Each stream has one worker thread, started when it is first needed. A stream that is idle starts an asynchronous
inference on the calling thread, and its worker only waits for the end. Streams order themselves against the default
stream as CUDA's legacy default stream does.
"""

import itertools
import threading
import time
import weakref
from collections.abc import Callable
from concurrent import futures

from trtcpu.device.memory import LogicError

NON_BLOCKING = 1
Work = Callable[[], object]
Reached = futures.Future[int]
"""A point in a stream: done when the stream gets there, with the nanoseconds of the host's clock."""


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
        self._pool = futures.ThreadPoolExecutor(1, thread_name_prefix=f"cpu-engine-stream-{handle}")
        self._lock = threading.RLock()
        self._last: Reached | None = None
        self._error: BaseException | None = None
        self._worker = 0
        _streams[handle] = self

    @property
    def handle(self) -> int:
        """The integer that `execute_async_v3` and calibrators take; valid while this object lives."""
        return self._handle

    def __hash__(self) -> int:
        return hash(self._handle)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other._handle == self._handle

    def submit(self, work: Work) -> None:
        """Enqueue `work`; it runs on the stream's worker after everything enqueued before."""
        before = self._before()
        self._put(lambda: (futures.wait(before), work()))

    def try_now(self, work: Work) -> bool:
        """Run `work` on this thread if the stream is idle and nothing orders before it; tell whether it ran."""
        with self._lock:
            now = not self._before() and self.idle() and self._error is None
            if now:
                work()
            return now

    def submit_external(self, start: Work, wait: Work) -> None:
        """Enqueue an operation that runs by itself between `start()` and the end of `wait()`.

        On an idle stream `start` is called at once on this thread and its errors are raised here.
        """
        with self._lock:
            if self.try_now(start):
                self._put(wait)
            else:
                self.submit(lambda: (start(), wait()))

    def _put(self, work: Work) -> None:
        with self._lock:
            self._last = self._pool.submit(self._run, work)

    def _run(self, work: Work) -> int:
        """Do `work`, unless earlier work failed; return when that was."""
        self._worker = threading.get_ident()
        if self._error is None:
            try:
                work()
            except BaseException as error:
                self._error = error
        return time.perf_counter_ns()

    def reached(self) -> Reached:
        """Return the point after everything enqueued so far."""
        if self._last is None or self._last.done():
            now = Reached()
            now.set_result(time.perf_counter_ns())
            return now
        return self._last

    def _before(self) -> list[Reached]:
        """Return what other streams have enqueued that this one waits for."""
        if self is DEFAULT_STREAM:
            others = [other for other in _live_streams() if other._blocking and other is not self]
        else:
            others = [DEFAULT_STREAM] if self._blocking else []
        return [other._last for other in others if not other.idle()]

    def wait_until(self, point: Reached) -> None:
        """Wait for a point of this stream, and raise the first error of its work; the error is then cleared."""
        if threading.get_ident() == self._worker:
            raise LogicError("a stream cannot wait for itself; synchronise from the thread that enqueues")
        point.result()
        with self._lock:
            error, self._error = self._error, None
        if error is not None:
            raise error

    def synchronize(self) -> None:
        """Wait for everything enqueued so far and raise the first error of that work; the error is then cleared."""
        self.finish()

    def finish(self) -> None:
        """Do what `synchronize` does, whatever a subclass or a test puts in its place."""
        self.wait_until(self.reached())

    def idle(self) -> bool:
        """Tell whether everything enqueued is done, without waiting."""
        return self._last is None or self._last.done()

    is_done = idle  # pycuda's name

    def wait_for_event(self, event: "Event") -> None:
        """Make work enqueued from now on wait until `event`, as it is recorded now, is reached."""
        if event.point is not None and not event.query():
            self._put(event.point.result)


class Event:
    """A moment in a stream, timed by the host's clock when the stream reaches it; as pycuda.driver.Event."""

    def __init__(self, flags: int = 0) -> None:
        self.point: Reached | None = None
        self._stream: Stream | None = None

    def record(self, stream: Stream | None = None) -> "Event":
        """Mark the point after everything enqueued in `stream` (default: the default stream); returns the event."""
        self._stream = stream if stream is not None else DEFAULT_STREAM
        if before := self._stream._before():
            self._stream._put(lambda: futures.wait(before))
        self.point = self._stream.reached()
        return self

    def query(self) -> bool:
        """Tell whether the recorded point was reached; an event that was never recorded counts as reached."""
        return self.point is None or self.point.done()

    def synchronize(self) -> "Event":
        """Wait until the recorded point is reached; raises the stream's error if its work failed before it."""
        if self.point is not None:
            self._stream.wait_until(self.point)
        return self

    def _reached_ns(self) -> int:
        if self.point is None:
            raise LogicError("the event was never recorded; call event.record(stream) first")
        if not self.point.done():
            raise LogicError("the event was not reached yet; call event.synchronize() before asking for times")
        return self.point.result()

    def time_since(self, event: "Event") -> float:
        """Return the milliseconds from `event` to this event.

        Raises:
            LogicError: one of them was not recorded or not reached yet.
        """
        return (self._reached_ns() - event._reached_ns()) / 1e6

    def time_till(self, event: "Event") -> float:
        """Return the milliseconds from this event to `event`; errors as `time_since`."""
        return event.time_since(self)


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
