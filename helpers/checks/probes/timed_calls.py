"""A timed model whose clock and log are the judge's: the student's code calls a stand-in, which asks for each call.

The side that judges makes a ServedModel, the student's side a StandIn with a clock that follows the other one. On a
simulated clock the judge's own time is the time; on the machine's clock the student's side says when a call came and
ended, and is believed within what the judge sees: a call comes after the answer before it and before its question
arrives, and ends after its answer is sent and before the next question.
"""

import math
import time
from types import SimpleNamespace
from typing import Any

import numpy as np

from helpers.checks.probes.answer import Notebook
from helpers.toys.clock import Clock, RealClock, SimulatedClock, StillRunningError
from helpers.toys.timed import TimedModel

_RAN, _FAILED, _STOPPED = "ran", "failed", "stopped"
_CLASSES = 10
_MOST_QUESTIONS = 100_000
"""That one run may ask, a hundred times what the longest does: each leaves something in the judge's memory."""

_MOST_AXES, _MOST_NAME = 8, 40
_counter = time.perf_counter


class _StampedClock(RealClock):
    """The machine's clock, of which the next reading is a stamp, if there is one."""

    stamp: float | None = None

    def now(self) -> float:
        stamp, self.stamp = self.stamp, None
        return super().now() if stamp is None else stamp


class ServedModel:
    """The judge's half: a TimedModel, told what the student's half says of each call.

    Args:
        model: TimedModel's arguments.
        limit_s: seconds of the model's clock after which it is stopped.

    Attributes:
        simulated: whether its clock is a simulated one; `begin` says.
        stopped: whether a call came after the limit, or more came than anybody needs.
        strangers: calls whose input was not the object handed over, as the student's half says.
        returned_s: when the student's function had answered, NaN before.
    """

    ASKED = ("begin", "call", "wait", "finish")

    def __init__(self, model: dict[str, Any], limit_s: float = math.inf) -> None:
        self._arguments, self._limit_s = model, limit_s
        self.begin(simulated=True)

    def begin(self, simulated: bool) -> None:
        """Start anew, on a simulated clock or on the machine's."""
        self.simulated = bool(simulated)
        self._clock = SimulatedClock(self._limit_s) if self.simulated else _StampedClock(self._limit_s)
        self._model = TimedModel(self._clock, **self._arguments)
        self._answered = self._clock.now()
        self.stopped, self.strangers, self.returned_s, self._questions = False, 0, math.nan, 0

    def call(self, now: float, ended: float, shape: list[int], dtype: str, given: bool) -> dict[str, Any]:
        """Run the model on an input of which these are the facts."""
        self.strangers += not given
        batch = SimpleNamespace(shape=tuple(map(int, shape[:_MOST_AXES])), dtype=str(dtype)[:_MOST_NAME])
        return self._answer(now, ended, lambda: self._model(batch))

    def wait(self, now: float, ended: float) -> dict[str, Any]:
        """Wait for the work of every call so far."""
        return self._answer(now, ended, self._model.synchronize, stamped=False)

    def finish(self, now: float, ended: float) -> None:
        """Note that the student's function has answered."""
        self.returned_s = self._came(float(now), float(ended))

    def log(self) -> dict[str, Any]:
        """Return TimedModel's log."""
        return self._model.log()

    def _answer(self, now: float, ended: float, act: Any, stamped: bool = True) -> dict[str, Any]:
        came, did = self._came(float(now), float(ended)), _RAN
        self._questions += 1
        try:
            if self._questions > _MOST_QUESTIONS:
                raise StillRunningError
            if self.simulated:
                self._clock.wait_until(came)
            elif stamped:
                self._clock.stamp = came
            act()
        except StillRunningError:
            self.stopped, did = True, _STOPPED
        except RuntimeError:
            did = _FAILED
        if not self.simulated:
            self._clock.stamp = None
        self._answered = self._clock.now()
        return {"now": self._answered, "did": did}

    def _came(self, now: float, ended: float) -> float:
        """Return when a call came, and note when the one before ended, within what was seen."""
        if not (math.isfinite(now) and math.isfinite(ended)):
            raise ValueError("times that are no numbers")
        if self.simulated:
            return max(now, self._answered)
        arrived = _counter()
        self._model.ended(min(max(ended, self._answered), arrived))
        return min(max(now, self._answered), arrived)


class StandIn:
    """The student's half: a model that asks the judge for each call and wait, and moves a simulated clock as told.

    `given` is the input that each call is to get; with `repeated`, the one of the call before.
    """

    def __init__(self, notebook: Notebook, clock: Clock, given: Any = None, *, repeated: bool = False) -> None:
        self._notebook, self._clock, self._given, self._repeated = notebook, clock, given, repeated
        self._ended = clock.now()

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        """Return [N, 10] zeros for a batch [N, 3, H, W] after a time that the judge knows."""
        now, shape = self._clock.now(), [int(size) for size in np.shape(batch)]
        kind = str(getattr(batch, "dtype", type(batch).__name__))
        self._ask("call", now, shape=shape, dtype=kind, given=batch is self._given)
        self._given = batch if self._repeated else self._given
        return np.zeros((shape[0] if shape else 0, _CLASSES), np.float32)

    def synchronize(self) -> None:
        """Wait until the work of every call made so far is done."""
        self._ask("wait", self._clock.now())

    def finish(self) -> None:
        """Tell the judge that the function has answered."""
        self._notebook.ask("finish", now=self._clock.now(), ended=self._ended)

    def _ask(self, name: str, now: float, **data: Any) -> None:
        found = self._notebook.ask(name, now=now, ended=self._ended, **data)
        if isinstance(self._clock, SimulatedClock):
            self._clock.wait_until(found["now"])
        self._ended = self._clock.now()
        if found["did"] == _STOPPED:
            raise StillRunningError
        if found["did"] == _FAILED:
            raise RuntimeError("the device refused to run")
