"""Throughput counts images, not executions, and only those that were waited for. Time is simulated."""

from types import SimpleNamespace

import pytest

from trtlab.timing import throughput
from trtlab.timing.runners import Runner
from trtlab.timing.throughput import measure_throughput


class Clock:
    """A clock that stands still unless something takes time."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(throughput, "time", SimpleNamespace(perf_counter=clock.perf_counter))
    return clock


class Device(Runner):
    """A device whose every execution takes `ms`, one after the other, and which only `synchronize` waits for."""

    device = "a simulated device"
    sample_shape = (1,)

    def __init__(self, name: str, ms: float, clock: Clock, max_batch: int = 64) -> None:
        self.name, self.ms, self.clock, self.max_batch = name, ms, clock, max_batch
        self.busy_until, self.most_waiting, self.waiting = 0.0, 0, 0

    def bind(self, batch_size: int) -> None:
        self.batch = batch_size

    def enqueue(self) -> None:
        self.waiting += 1
        self.most_waiting = max(self.most_waiting, self.waiting)
        self.busy_until = max(self.busy_until, self.clock.now) + self.ms / 1e3

    def synchronize(self) -> None:
        self.waiting = 0
        self.clock.now = max(self.clock.now, self.busy_until)


def test_throughput_is_images_a_second(clock):
    (result,) = measure_throughput([Device("a", 2.0, clock)], [8], seconds=0.1)
    assert result.images_per_s == pytest.approx(8 / 0.002)
    assert result.seconds == pytest.approx(0.002 * result.executions)


def test_every_runner_is_measured_at_every_batch_it_takes(clock):
    runners = [Device("a", 0.2, clock), Device("b", 0.2, clock, max_batch=4)]
    found = [(result.name, result.batch) for result in measure_throughput(runners, [8, 1], seconds=0.01)]
    assert found == [("a", 1), ("b", 1), ("a", 8)]


def test_the_time_asked_for_is_spent_on_every_runner(clock):
    runners = [Device("a", 3.0, clock), Device("b", 7.0, clock)]
    for result in measure_throughput(runners, [1], seconds=1.0):
        assert 1.0 <= result.seconds < 1.2


def test_one_disturbed_turn_does_not_count(clock):
    runner = Device("a", 2.0, clock)

    def disturb(text: str) -> None:
        runner.ms = 50.0 if "turn 2" in text else 2.0

    (result,) = measure_throughput([runner], [8], seconds=0.5, progress=disturb)
    assert result.images_per_s == pytest.approx(8 / 0.002)


def test_the_queue_is_kept_full_but_not_endless(clock):
    runner = Device("a", 0.1, clock)
    measure_throughput([runner], [1], seconds=0.02)
    assert runner.most_waiting == runner.in_flight > 1


def test_an_execution_longer_than_the_time_is_still_measured(clock):
    (result,) = measure_throughput([Device("a", 30.0, clock)], [1], seconds=0.02, rounds=2)
    assert result.executions == 2 and result.images_per_s == pytest.approx(1 / 0.03)
