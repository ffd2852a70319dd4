"""A model whose every call takes a known time on its clock, and which keeps a log of what was done with it.

    clock = SimulatedClock(limit_s=60)
    model = TimedModel(clock, [2.0, 2.0, 5.0], asynchronous=True)
    model(images)            # returns at once, as a GPU's work does; two milliseconds of work are under way
    model.synchronize()      # waits for them
    model.log()              # when each call came, when its work was done, who waited for it

On a RealClock the times are slept, and the log holds the ones that really passed.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from helpers.toys.clock import Clock


class TimedModel:
    """A callable that takes a batch [N, 3, H, W] and returns [N, `classes`] zeros after a known time.

    Args:
        clock: what it waits on.
        durations_ms: the calls' durations in order, again from the start after the last.
        first_ms: the durations of the very first calls, before those.
        asynchronous: a call returns at once and only `synchronize()` waits; else the call takes its time itself.
        in_call: the share of its work that an asynchronous call does before it returns, by turns.
        queue: how many calls an asynchronous model keeps in flight; one more waits for the oldest, as on a GPU.
        classes: columns of the output.
    """

    def __init__(
        self,
        clock: Clock,
        durations_ms: Sequence[float],
        *,
        first_ms: Sequence[float] = (),
        asynchronous: bool = False,
        in_call: Sequence[float] = (0.0,),
        queue: int = 8,
        classes: int = 10,
    ) -> None:
        self._clock = clock
        self._durations_ms, self._first_ms = list(durations_ms), list(first_ms)
        self._asynchronous, self._queue, self._classes = asynchronous, queue, classes
        self._in_call = list(in_call)
        self._ready: deque[float] = deque(maxlen=queue)  # when each call in flight is done
        self._calls: list[list[float]] = []  # start and end
        self._shapes: list[list[int]] = []
        self._types: set[str] = set()
        self._waits: list[int] = []  # calls made before each wait

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        start = self._clock.now()
        number = len(self._calls)
        duration = self._duration_ms(number) / 1e3
        if self._asynchronous:
            if len(self._ready) == self._queue:
                self._clock.wait_until(self._ready[0])
            share = self._in_call[number % len(self._in_call)]
            self._clock.wait_until(self._clock.now() + share * duration)
            busy_until = max(self._clock.now(), self._ready[-1] if self._ready else 0.0)
            self._ready.append(busy_until + (1 - share) * duration)
        else:
            self._clock.wait_until(start + duration)
        shape = [int(size) for size in np.shape(batch)]
        self._shapes.append(shape)
        self._types.add(str(getattr(batch, "dtype", type(batch).__name__)))
        output = np.zeros((shape[0] if shape else 0, self._classes), np.float32)
        self._calls.append([start, self._clock.now()])
        return output

    @property
    def done_s(self) -> float:
        """When the work of every call made so far is done."""
        return self._ready[-1] if self._ready else 0.0

    def synchronize(self) -> None:
        """Wait until the work of every call made so far is done."""
        self._clock.wait_until(self.done_s)
        self._waits.append(len(self._calls))

    def _duration_ms(self, number: int) -> float:
        if number < len(self._first_ms):
            return self._first_ms[number]
        return self._durations_ms[(number - len(self._first_ms)) % len(self._durations_ms)]

    def log(self) -> dict[str, Any]:
        """Return the log as plain data.

        Keys: `start_s` and `end_s` [calls] (when a call came, and when it returned), `shapes` and `images` of the
        calls, `dtypes`, and `waits`: for each wait, the number of calls before it.
        """
        times = np.array(self._calls, dtype=np.float64).reshape(-1, 2)
        return {
            "start_s": times[:, 0],
            "end_s": times[:, 1],
            "shapes": [list(shape) for shape in self._shapes],
            "images": [shape[0] if shape else 0 for shape in self._shapes],
            "dtypes": sorted(self._types),
            "waits": list(self._waits),
        }
