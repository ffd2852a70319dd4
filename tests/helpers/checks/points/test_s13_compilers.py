"""The simulated device of step 13: what the host waits for and what events see, where host or device is the limit."""

import math

import pytest

from helpers.checks.points.s13_compilers.clocks import Timed
from helpers.checks.points.s13_compilers.device import Device
from helpers.engine.backend import cuda
from helpers.toys.clock import SimulatedClock


def _between_events(device: Device, calls: int) -> list[float]:
    """Return the milliseconds between the events of each call, without a wait before the last one."""
    with device.as_cuda():
        pairs = []
        for _ in range(calls):
            before = cuda.Event().record(device.stream)
            device.run()
            pairs.append((before, cuda.Event().record(device.stream)))
        device.stream.synchronize()
        return [before.time_till(after) for before, after in pairs]


def _timed(device: Device, iterations: int, **numbers: float) -> Timed:
    return Timed({f"{name}_ms": value for name, value in numbers.items()}, "dict", device.log(), iterations, True)


def test_events_of_a_fed_device_see_its_work_and_no_launch_but_the_first() -> None:
    device = Device(SimulatedClock(60), [0.5], [4.0, 6.0])
    assert _between_events(device, 4) == pytest.approx([4.5, 6.0, 4.0, 6.0])


def test_events_see_that_a_device_waits_for_its_host() -> None:
    device = Device(SimulatedClock(60), [5.0], [1.0])
    found = _between_events(device, 3)
    assert found[0] == pytest.approx(6.0) and found[1:] == pytest.approx([5.0, 5.0])


def test_the_points_expect_of_events_what_the_device_gives() -> None:
    for host, work in (([0.5], [4.0, 6.0]), ([5.0], [1.0]), ([1.0, 3.0], [2.0])):
        device = Device(SimulatedClock(60), host, work)
        found = _between_events(device, 6)
        assert _timed(device, 6).events_ms == pytest.approx(found)


def test_a_wait_lasts_until_the_work_is_done() -> None:
    clock = SimulatedClock(60)
    device = Device(clock, [1.0], [4.0])
    device.run()
    assert clock.now() == pytest.approx(1e-3)
    device.synchronize()
    assert clock.now() == pytest.approx(5e-3)
    assert device.log()["waits"] == [1] and _timed(device, 1).host_ms == pytest.approx([5.0])


def test_an_event_that_was_not_reached_has_no_time() -> None:
    device = Device(SimulatedClock(60), [1.0], [4.0])
    with device.as_cuda():
        before = cuda.Event().record(device.stream)
        device.run()
        after = cuda.Event().record(device.stream)
        assert math.isnan(before.time_till(after)) and device.early == 1
        after.synchronize()
        assert before.time_till(after) == pytest.approx(5.0)


def test_an_event_elsewhere_does_not_see_the_stream() -> None:
    device = Device(SimulatedClock(60), [1.0], [4.0])
    with device.as_cuda():
        before = cuda.Event().record(object())
        device.run()
        assert before.time_till(cuda.Event().record(object())) == pytest.approx(1.0)
    assert device.marks == [(0, False), (1, False)]


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_a_wrong_unit_does_not_hide_a_right_median(unit: float) -> None:
    device = Device(SimulatedClock(60), [1.0], [4.0])
    assert _timed(device, 1, median=5.5 * unit).median_in_ms(5.0) == pytest.approx(5.5)
