"""A device whose time is simulated, so that no other process disturbs a test."""

from trtlab.timing.runners import Runner


class Clock:
    """A clock that stands still unless something takes time."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


class Device(Runner):
    """A device whose every execution takes `ms`, one after the other, and which only `synchronize` waits for.

    To start one takes 0.01 ms.
    """

    device = "a simulated device"
    inputs: dict = {}
    size_bytes = 1000

    def __init__(self, name: str, ms: float, clock: Clock, min_batch: int = 1, max_batch: int = 64) -> None:
        self.name, self.ms, self.clock, self.min_batch, self.max_batch = name, ms, clock, min_batch, max_batch
        self.busy_until, self.most_waiting, self.waiting = 0.0, 0, 0

    def enqueue(self) -> None:
        self.waiting += 1
        self.most_waiting = max(self.most_waiting, self.waiting)
        self.busy_until = max(self.busy_until, self.clock.now) + self.ms / 1e3
        self.clock.now += 1e-5

    def synchronize(self) -> None:
        self.waiting = 0
        self.clock.now = max(self.clock.now, self.busy_until)
