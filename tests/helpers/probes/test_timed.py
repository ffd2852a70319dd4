"""The timed model: its log is what really passed, and asynchronous work is done only when somebody has waited."""

import time

import numpy as np
import pytest

from helpers.probes.timed import TimedModel

IMAGES = np.zeros((2, 3, 8, 8), np.float32)


def test_a_synchronous_call_takes_its_time_and_the_log_says_how_long():
    model = TimedModel([2.0, 6.0])
    started = time.perf_counter()
    for _ in range(4):
        assert model(IMAGES).shape == (2, 10)
    seconds = time.perf_counter() - started
    times = model.latencies_ms()
    assert sum(times) / 1e3 == pytest.approx(seconds, rel=0.05)
    assert times[0] >= 2 and times[1] >= 6 and times[2] >= 2 and times[3] >= 6


def test_an_asynchronous_call_returns_at_once_and_only_synchronize_waits():
    model = TimedModel([60.0], asynchronous=True)
    started = time.perf_counter()
    model(IMAGES)
    model(IMAGES)
    returned = time.perf_counter()
    model.synchronize()
    waited = time.perf_counter()
    assert returned - started < 0.060
    assert waited - started >= 0.120
    assert model.latencies_ms()[0] == pytest.approx((waited - started) * 1e3, rel=0.05)


def test_work_that_nobody_waited_for_has_no_latency():
    model = TimedModel([1.0], asynchronous=True)
    model(IMAGES)
    model.synchronize()
    model(IMAGES)
    assert np.isnan(model.latencies_ms()).tolist() == [False, True]
    assert model.log()["waits"] == [1]


def test_a_full_queue_makes_the_next_call_wait_for_the_oldest():
    model = TimedModel([5.0], asynchronous=True, queue=2)
    started = time.perf_counter()
    for _ in range(4):
        model(IMAGES)
    assert time.perf_counter() - started >= 0.010


def test_the_first_calls_have_their_own_durations():
    model = TimedModel([1.0], first_ms=[12.0])
    model(IMAGES)
    model(IMAGES)
    assert model.latencies_ms()[0] >= 12 > model.latencies_ms(last=1)[0]


def test_the_log_names_shapes_and_types():
    model = TimedModel([0.1])
    model(IMAGES)
    model(IMAGES.astype(np.float64)[:1])
    log = model.log()
    assert log["shapes"] == [[2, 3, 8, 8], [1, 3, 8, 8]]
    assert log["images"] == [2, 1] and log["dtypes"] == ["float32", "float64"]
