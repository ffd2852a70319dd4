"""Streams and events of the GPU."""

from helpers.engine.cuda_python.device import released_with
from helpers.engine.cuda_python.driver import call, finished


class Stream:
    """A queue of device work; 1 (CU_STREAM_NON_BLOCKING) as `flags` makes it ignore the default stream."""

    def __init__(self, flags: int = 0) -> None:
        self.handle = int(call("cuStreamCreate", flags))
        released_with(self, "cuStreamDestroy", self.handle)

    def synchronize(self) -> None:
        """Wait for everything enqueued so far."""
        call("cuStreamSynchronize", self.handle)

    def is_done(self) -> bool:
        """Tell whether everything enqueued is done, without waiting."""
        return finished("cuStreamQuery", self.handle)

    def wait_for_event(self, event: "Event") -> None:
        """Make work enqueued from now on wait until `event`, as it is recorded now, is reached."""
        call("cuStreamWaitEvent", self.handle, event._handle, 0)


class Event:
    """A moment in a stream, timed by the GPU's clock."""

    def __init__(self, flags: int = 0) -> None:
        self._handle = int(call("cuEventCreate", flags))
        released_with(self, "cuEventDestroy", self._handle)

    def record(self, stream: Stream | None = None) -> "Event":
        """Mark the point after everything enqueued in `stream` (default: the default stream); returns the event."""
        call("cuEventRecord", self._handle, 0 if stream is None else stream.handle)
        return self

    def synchronize(self) -> "Event":
        """Wait until the recorded point is reached; returns the event."""
        call("cuEventSynchronize", self._handle)
        return self

    def query(self) -> bool:
        """Tell whether the recorded point was reached; an event that was never recorded counts as reached."""
        return finished("cuEventQuery", self._handle)

    def time_since(self, event: "Event") -> float:
        """Return the milliseconds from `event` to this event.

        Raises:
            LogicError: one of them was never recorded.
            RuntimeError: one of them was not reached yet.
        """
        return call("cuEventElapsedTime", event._handle, self._handle)

    def time_till(self, event: "Event") -> float:
        """Return the milliseconds from this event to `event`; errors as `time_since`."""
        return event.time_since(self)
