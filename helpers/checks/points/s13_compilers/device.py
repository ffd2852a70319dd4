"""A simulated device with one stream: what a call asks of the host and of the device takes known times on a clock."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, TypedDict
from unittest import mock

from helpers.engine.backend import cuda
from helpers.toys.clock import Clock


class Run(TypedDict):
    """One call, in seconds: when it came, returned, and its work was done."""

    came: float
    returned: float
    done: float


class Mark(TypedDict):
    """One record of an event: the calls before it, and whether it was in the stream."""

    calls: int
    own: bool


class Log(TypedDict):
    """What happened: calls, calls made before each wait, records, and how many times were asked for too early."""

    runs: list[Run]
    waits: list[int]
    marks: list[Mark]
    early: int


class Device:
    """Calls put work on the device's stream; a wait lets the clock go on until that is done.

    Args:
        clock: what host and device live by.
        host_ms: what a call takes before it returns, by turns.
        device_ms: what its work then takes on the device, by turns; 0 where the call does all of it.
        first_ms: what the very first calls take on the host, before those.
    """

    def __init__(
        self, clock: Clock, host_ms: Sequence[float], device_ms: Sequence[float], first_ms: Sequence[float] = ()
    ) -> None:
        self._clock, self._host_ms, self._device_ms, self._first_ms = clock, host_ms, device_ms, first_ms
        self._done = 0.0  # when the stream is through with what it was given
        self.stream = SimpleNamespace(synchronize=self.synchronize, handle=4096, is_done=self._is_done)
        self.runs: list[Run] = []
        self.waits: list[int] = []  # calls made before each wait
        self.marks: list[tuple[int, bool]] = []  # of each record: the calls before it, whether in the stream
        self.early = 0  # times that were asked for before their event was reached

    def run(self) -> None:
        """Put the work of one call on the stream."""
        number, came = len(self.runs), self._clock.now()
        if number < len(self._first_ms):
            host = self._first_ms[number]
        else:
            host = self._host_ms[(number - len(self._first_ms)) % len(self._host_ms)]
        self._clock.wait_until(came + host / 1e3)
        returned = self._clock.now()
        self._done = max(returned, self._done) + self._device_ms[number % len(self._device_ms)] / 1e3
        self.runs.append({"came": came, "returned": returned, "done": self._done})

    def synchronize(self) -> None:
        """Wait for everything that was put on the stream."""
        self.waits.append(len(self.runs))
        self._clock.wait_until(self._done)

    def _is_done(self) -> bool:
        return self._clock.now() >= self._done

    def _wait_for(self, moment: float) -> None:
        self.waits.append(len(self.runs))
        self._clock.wait_until(moment)

    @contextmanager
    def as_cuda(self) -> Iterator[None]:
        """Let `cuda.Event` and `cuda.Context.synchronize` be this device's inside the block."""
        context = SimpleNamespace(synchronize=self.synchronize)
        with mock.patch.multiple(cuda, Event=_event_of(self), Context=context):
            yield

    def log(self) -> Log:
        """Return what happened as plain data."""
        marks: list[Mark] = [{"calls": calls, "own": own} for calls, own in self.marks]
        return {"runs": list(self.runs), "waits": list(self.waits), "marks": marks, "early": self.early}


def _event_of(device: Device) -> type:
    """Return a class like cuda.Event whose moments are those of a device."""

    class Event:
        def __init__(self, flags: int = 0) -> None:
            self.moment: float | None = None

        def record(self, stream: Any = None) -> "Event":
            own = stream is device.stream
            now = device._clock.now()
            self.moment = max(now, device._done) if own or stream is None else now
            device.marks.append((len(device.runs), own))
            return self

        def query(self) -> bool:
            return self.moment is None or device._clock.now() >= self.moment

        def synchronize(self) -> "Event":
            device._wait_for(self.moment or 0.0)
            return self

        def time_since(self, event: "Event") -> float:
            if not (self.query() and event.query()) or self.moment is None or event.moment is None:
                device.early += 1
                return float("nan")  # CUDA raises; so the other points can still be judged
            return (self.moment - event.moment) * 1e3

        def time_till(self, event: "Event") -> float:
            return event.time_since(self)

    return Event
