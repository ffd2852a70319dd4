"""The timed model: its log is what passed on its clock, and asynchronous work is done only when somebody has waited."""

import numpy as np
import pytest

from helpers.toys.clock import SimulatedClock
from helpers.toys.timed import TimedModel

IMAGES = np.zeros((2, 3, 8, 8), np.float32)


@pytest.fixture
def clock():
    return SimulatedClock(limit_s=60)


def latencies(model, column="end_s"):
    log = model.log()
    return ((log[column] - log["start_s"]) * 1e3).tolist()


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
    assert clock.now() == pytest.approx(0.120)
    assert latencies(model, "waited_s") == pytest.approx([120, 120])


def test_work_that_nobody_waited_for_has_no_latency(clock):
    model = TimedModel(clock, [1.0], asynchronous=True)
    model(IMAGES)
    model.synchronize()
    model(IMAGES)
    assert np.isnan(latencies(model, "waited_s")).tolist() == [False, True]
    assert model.log()["waits"] == [1]


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
    model(IMAGES)
    model.synchronize()
    model(IMAGES)
    model.synchronize()
    assert latencies(model) == pytest.approx([2.5, 10])
    assert latencies(model, "waited_s") == pytest.approx([10, 10])


def test_a_failing_model_takes_its_time_and_logs_no_call(clock):
    model = TimedModel(clock, [10.0], fails_from=1)
    model(IMAGES)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            model(IMAGES)
    assert clock.now() == pytest.approx(0.030)
    assert len(latencies(model)) == 1
