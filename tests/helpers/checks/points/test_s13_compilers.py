"""Step 13's simulated device: events see the work between them, wherever they are recorded."""

from typing import Any

import pytest

from helpers.checks.missed import Missed
from helpers.checks.points import s13_compilers as points
from helpers.checks.points.case import Case
from helpers.checks.probes.student import Student
from helpers.engine.backend import cuda


def _said(wait: bool) -> dict[str, Any]:
    """Return what the probe answers for three calls of 4, 6 and 4 ms on the device, one event in no stream."""

    def time_with_events(run: Any, stream: Any, iterations: int, warmup: int) -> list[float]:
        marks = [cuda.Event().record()]
        for _ in range(iterations):
            run()
            marks.append(cuda.Event().record(stream))
        if wait:
            stream.synchronize()
        return [before.time_till(after) for before, after in zip(marks, marks[1:], strict=False)]

    case = Case(Student.in_process({"time_with_events": time_with_events}), 1)
    return case.call(points.time_by_events, model={"durations_ms": [4.0, 6.0]}, iterations=3, warmup=0).require("it")


def test_events_see_the_work_of_each_call_and_tell_who_asks_too_early_or_elsewhere() -> None:
    found = _said(wait=True)
    assert found["returned"] == pytest.approx([4.0, 6.0, 4.0]) and found["log"]["waits"] == [3]
    assert (found["marks"], found["elsewhere"]) == ([0, 1, 2, 3], 1)
    with pytest.raises(Missed, match="not reached this event yet"):
        _said(wait=False)
