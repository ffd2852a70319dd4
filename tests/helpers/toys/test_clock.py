"""The simulated clock: code reads it in place of the machine's, waits cost nothing, what cannot follow it is told."""

import threading
import time
import timeit
from datetime import datetime
from time import perf_counter as own_name

import pytest

from helpers.toys.clock import SimulatedClock, StillRunningError


def measured_ms(read, clock, scale=1e3):
    """Return how long a wait of two seconds takes by the function that `read` finds."""

    def wait():
        start = read()()
        clock.wait_until(clock.now() + 2.0)
        return (read()() - start) * scale

    with clock.read_by(wait):
        return wait()


@pytest.mark.parametrize(
    ("read", "scale"),
    [
        (lambda: time.perf_counter, 1e3),
        (lambda: time.perf_counter_ns, 1e-6),
        (lambda: time.monotonic, 1e3),
        (lambda: time.time, 1e3),
        (lambda: timeit.default_timer, 1e3),
        (lambda: own_name, 1e3),
    ],
)
def test_every_clock_of_the_standard_library_passes_as_the_simulated_one_does(read, scale):
    clock = SimulatedClock(limit_s=10)
    assert measured_ms(read, clock, scale) == pytest.approx(2000, rel=1e-5)
    assert clock.followed


def test_the_processor_is_not_busy_while_it_waits():
    assert measured_ms(lambda: time.process_time, SimulatedClock(limit_s=10)) < 1


def test_a_sleep_takes_simulated_time_only():
    clock = SimulatedClock(limit_s=1e6)
    with clock.read_by(test_a_sleep_takes_simulated_time_only):
        time.sleep(100_000)
    assert clock.now() == 100_000


def test_timers_of_timeit_follow_though_they_hold_a_clock_as_default():
    clock = SimulatedClock(limit_s=100)
    with clock.read_by(timeit.timeit):
        assert timeit.timeit(lambda: clock.wait_until(clock.now() + 0.5), number=4) == pytest.approx(2, rel=1e-4)


def test_a_clock_that_is_not_of_the_standard_library_s_time_is_not_followed():
    clock = SimulatedClock(limit_s=10)
    with clock.read_by(datetime.now):
        datetime.now()
    assert not clock.followed


def test_code_with_threads_of_its_own_is_not_simulated():
    clock = SimulatedClock(limit_s=10)
    with clock.read_by(print):
        thread = threading.Thread(target=time.perf_counter)
        thread.start()
        thread.join()
        time.perf_counter()
    assert not clock.followed


def test_threads_that_ran_before_keep_the_machine_s_clock():
    readings, go = [], threading.Event()

    def other():
        readings.append(time.perf_counter())
        go.wait(10)
        readings.append(time.perf_counter())

    thread = threading.Thread(target=other)
    thread.start()
    clock = SimulatedClock(limit_s=1e9)
    with clock.read_by(print):
        clock.wait_until(1e8)
        go.set()
        thread.join()
    assert readings[1] - readings[0] < 1e6


@pytest.mark.parametrize("catch", [Exception, ValueError])
def test_code_without_an_end_is_stopped_though_it_catches_exceptions(catch):
    clock = SimulatedClock(limit_s=1)

    def endless():
        while True:
            try:
                time.perf_counter()
            except catch:
                pass

    with pytest.raises(StillRunningError), clock.read_by(endless):
        endless()


def test_all_is_put_back():
    before = time.perf_counter, time.sleep, timeit.default_timer, timeit.timeit.__defaults__, threading.Thread.start
    with SimulatedClock(limit_s=1).read_by(test_all_is_put_back):
        assert time.perf_counter is not before[0]
    after = time.perf_counter, time.sleep, timeit.default_timer, timeit.timeit.__defaults__, threading.Thread.start
    assert after == before


def test_a_clock_that_counts_from_the_start_of_the_machine_has_run_for_long():
    clock = SimulatedClock(limit_s=10)
    for read in (lambda: time.perf_counter, lambda: time.monotonic):
        with clock.read_by(read):
            assert read()() > 1e6  # whose float32 values are a sixteenth of a second apart
