"""Throughput counts images, not executions, and only those that were waited for. Time is simulated."""

import pytest

from tests.trtlab.timing.simulated import Device
from trtlab.timing.throughput import measure_throughput


def test_throughput_is_images_a_second_of_the_time_asked_for(clock):
    runners = [Device("a", 2.0, clock), Device("b", 7.0, clock)]
    for result, runner in zip(measure_throughput(runners, [8], seconds=1.0), runners, strict=True):
        assert result.images_per_s == pytest.approx(8e3 / runner.ms)
        assert result.seconds == pytest.approx(runner.ms / 1e3 * result.executions) and 1.0 <= result.seconds < 1.2


def test_every_runner_is_measured_at_every_batch_it_takes(clock):
    runners = [Device("a", 0.2, clock), Device("b", 0.2, clock, max_batch=4)]
    found = [(result.name, result.batch) for result in measure_throughput(runners, [8, 1], seconds=0.01)]
    assert found == [("a", 1), ("b", 1), ("a", 8)]


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
