"""A timed model whose clock and log belong to the judge: the student's code calls a stand-in, which asks the judge.

The judge's side makes a ServedModel, the student's side a StandIn whose simulated clock follows the judge's.
"""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from helpers.checks.probes.answer import Notebook
from helpers.toys.clock import SimulatedClock, StillRunningError
from helpers.toys.timed import TimedModel

_CLASSES = 10
_MOST_QUESTIONS = 100_000
"""Most questions of one run, a hundred times the longest: each takes some of the judge's memory."""

_MOST_AXES, _MOST_NAME = 8, 40


class ServedModel:
    """The judge's half: a TimedModel on a simulated clock, which gets the student's half's account of each call.

    Args:
        model: TimedModel's arguments.
        limit_s: seconds of the model's clock after which it is stopped.

    Attributes:
        log: TimedModel's.
        stopped: whether a call came after the limit, or too many came.
        strangers: calls with another input object than the call before, as the student's half says.
    """

    ASKED = ("call", "wait")

    def __init__(self, model: dict[str, Any], limit_s: float = math.inf) -> None:
        self._clock = SimulatedClock(limit_s)
        self._model = TimedModel(self._clock, **model)
        self.log = self._model.log
        self.stopped, self.strangers, self._questions = False, 0, 0

    def call(self, now: float, shape: list[int], dtype: str, given: bool) -> dict[str, Any]:
        """Run the model on an input with these properties."""
        self.strangers += not given
        batch = SimpleNamespace(shape=tuple(map(int, shape[:_MOST_AXES])), dtype=str(dtype)[:_MOST_NAME])
        return self._answer(now, lambda: self._model(batch))

    def wait(self, now: float) -> dict[str, Any]:
        """Wait for the work of all calls so far."""
        return self._answer(now, self._model.synchronize)

    def _answer(self, now: float, act: Callable[[], Any]) -> dict[str, Any]:
        if not math.isfinite(now):
            raise ValueError("a time that is not a number")
        self._questions += 1
        try:
            if self._questions > _MOST_QUESTIONS:
                raise StillRunningError
            self._clock.wait_until(now)
            act()
        except StillRunningError:
            self.stopped = True
        return {"now": self._clock.now(), "stopped": self.stopped}


class StandIn:
    """The student's half: a model that asks the judge for each call and wait, and moves a simulated clock as told.

    `given` is the input that the first call should get; each further call should get the same object.
    """

    def __init__(self, notebook: Notebook, clock: SimulatedClock, given: Any = None) -> None:
        self._notebook, self._clock, self._given = notebook, clock, given

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        """Return [N, 10] zeros for a batch [N, 3, H, W], after a time that the judge decides."""
        shape, kind = [int(size) for size in np.shape(batch)], str(getattr(batch, "dtype", type(batch).__name__))
        self._ask("call", shape=shape, dtype=kind, given=batch is self._given)
        self._given = batch
        return np.zeros((shape[0] if shape else 0, _CLASSES), np.float32)

    def synchronize(self) -> None:
        """Wait until the work of every call made so far is done."""
        self._ask("wait")

    def _ask(self, name: str, **data: Any) -> None:
        found = self._notebook.ask(name, now=self._clock.now(), **data)
        self._clock.wait_until(found["now"])
        if found["stopped"]:
            raise StillRunningError
