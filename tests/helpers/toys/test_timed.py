"""The timed model: its log is what passed on its clock, and asynchronous work is done only when somebody has waited."""

import numpy as np
import pytest

from helpers.toys.clock import SimulatedClock
from helpers.toys.timed import TimedModel

IMAGES = np.zeros((2, 3, 8, 8), np.float32)


@pytest.fixture
def clock():
    return SimulatedClock(limit_s=60)


def latencies(model):
    log = model.log()
    return ((log["end_s"] - log["start_s"]) * 1e3).tolist()


def test_a_synchronous_call_takes_its_time_and_the_log_says_how_long(clock):
    model = TimedModel(clock, [2.0, 6.0])
    for _ in range(4):
        assert model(IMAGES).shape == (2, 10)
    assert clock.now() == pytest.approx(0.016)
    assert latencies(model) == pytest.approx([2, 6, 2, 6])


def test_an_asynchronous_call_returns_at_once_and_only_synchronize_waits(clock):
    model = TimedModel(clock, [60.0], asynchronous=True)
    model(IMAGES)
    model(IMAGES)
    assert clock.now() == 0
    model.synchronize()
    assert clock.now() == pytest.approx(0.120) and model.log()["waits"] == [2]


def test_a_full_queue_makes_the_next_call_wait_for_the_oldest(clock):
    model = TimedModel(clock, [5.0], asynchronous=True, queue=2)
    for _ in range(4):
        model(IMAGES)
    assert clock.now() == pytest.approx(0.010)


def test_the_first_calls_have_their_own_durations(clock):
    model = TimedModel(clock, [1.0], first_ms=[12.0])
    model(IMAGES)
    model(IMAGES)
    assert latencies(model) == pytest.approx([12, 1])


def test_the_log_names_shapes_and_types(clock):
    model = TimedModel(clock, [0.1])
    model(IMAGES)
    model(IMAGES.astype(np.float64)[:1])
    model(None)
    log = model.log()
    assert log["shapes"] == [[2, 3, 8, 8], [1, 3, 8, 8], []]
    assert log["images"] == [2, 1, 0] and log["dtypes"] == ["NoneType", "float32", "float64"]


def test_a_call_may_do_part_of_the_work_itself(clock):
    model = TimedModel(clock, [10.0], asynchronous=True, in_call=(0.25, 1.0))
    for _ in range(2):
        model(IMAGES)
        model.synchronize()
    assert latencies(model) == pytest.approx([2.5, 10]) and clock.now() == pytest.approx(0.020)
