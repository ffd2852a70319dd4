"""Clocks for models of known timing: a simulated one that a program's load cannot disturb, and the machine's own.

    clock = SimulatedClock()
    with clock.read_by(function):        # what `function` reads as time.perf_counter() and its kin is this clock
        function()                       # waits on the clock take no time
    clock.followed                       # whether the code lived by it

A clock that is bound where this module does not look (a default argument, `datetime.now`, another library's timer), or
another thread, makes the simulation untrue: then the same is done again with a RealClock.
"""

import contextlib
import functools
import inspect
import threading
import time
import timeit
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

_TICK_S = 1e-6
"""What reading the clock takes: a loop that only reads it comes to an end."""

_PASSING = ("perf_counter", "monotonic", "time")
_LONG_ON = {"perf_counter": 1e6, "monotonic": 1e6}
"""Seconds by which clocks that count from the machine's start are ahead: after days float32 holds no milliseconds."""

_BUSY = ("process_time", "thread_time")
_DEFAULTS = (timeit.Timer.__init__, timeit.timeit, timeit.repeat)
StandIns = dict[int, Callable[..., Any]]
"""What takes a function's place, by the function's id: a namespace holds values that cannot be hashed or compared."""

_counter, _sleep = time.perf_counter, time.sleep  # kept here: what the code under test does to `time` changes nothing


class StillRunningError(BaseException):
    """The code goes on far beyond the seconds that it was given; no Exception, since a benchmark may catch those."""


class RealClock:
    """The machine's own clock. After `limit_s` seconds it raises StillRunningError."""

    followed = True

    def __init__(self, limit_s: float) -> None:
        self._end = _counter() + limit_s

    def now(self) -> float:
        """Return seconds, of which only differences mean anything."""
        return _counter()

    def wait_until(self, moment: float) -> None:
        """Return at `moment`."""
        _stop_after(self._end, moment)
        while (left := moment - _counter()) > 0:
            _sleep(left)

    def read_by(self, function: Callable[..., Any]) -> contextlib.AbstractContextManager[None]:
        """Do nothing: every function can read it."""
        return contextlib.nullcontext()


class SimulatedClock:
    """A clock that moves when it is read or waited for. After `limit_s` of its seconds it raises StillRunningError."""

    def __init__(self, limit_s: float) -> None:
        self._now = self._busy = 0.0
        self._limit_s = limit_s
        self._reads = 0
        self._threads = False

    @property
    def followed(self) -> bool:
        """Whether the code under `read_by` read this clock, and worked in one thread."""
        return self._reads > 0 and not self._threads

    def now(self) -> float:
        """Return seconds since the start."""
        return self._now

    def wait_until(self, moment: float) -> None:
        """Move on to `moment`, if that is still to come."""
        self._now = max(self._now, moment)
        _stop_after(self._limit_s, self._now)

    @contextlib.contextmanager
    def read_by(self, function: Callable[..., Any]) -> Iterator[None]:
        """Let `time`, `timeit` and the names beside `function` read this clock; threads that run already do not."""
        stand_ins = self._stand_ins({thread.ident for thread in threading.enumerate()} - {threading.get_ident()})
        start = threading.Thread.start

        def noted(thread: threading.Thread) -> None:
            self._threads = self._threads or not type(thread).__module__.startswith("tqdm")  # its monitor only shows
            start(thread)

        with contextlib.ExitStack() as stack:
            for names in (vars(time), vars(timeit), _names_beside(function)):
                stack.enter_context(_replaced(names, stand_ins))
            stack.enter_context(_default_timers(stand_ins))
            threading.Thread.start = noted
            stack.callback(setattr, threading.Thread, "start", start)
            yield

    def _stand_ins(self, others: set[int | None]) -> StandIns:
        """Return the stand-ins of `time`'s functions; threads among `others` still get the originals."""

        def stand_in(original: Callable[..., Any], simulated: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def read(*args: Any) -> Any:
                return (original if threading.get_ident() in others else simulated)(*args)

            return read

        found = {id(time.sleep): stand_in(time.sleep, lambda seconds: self.wait_until(self._now + seconds))}
        for name in (*_PASSING, *_BUSY):
            original, in_ns = getattr(time, name), getattr(time, f"{name}_ns")
            read = functools.partial(self._read, original() + _LONG_ON.get(name, 0), name in _BUSY)
            found[id(original)] = stand_in(original, read)
            found[id(in_ns)] = stand_in(in_ns, lambda read=read: round(read() * 1e9))
        return found

    def _read(self, base: float, busy: bool) -> float:
        self._reads += 1
        self._busy += _TICK_S
        self.wait_until(self._now + _TICK_S)
        return base + (self._busy if busy else self._now)


Clock = RealClock | SimulatedClock


def _stop_after(end: float, moment: float) -> None:
    if moment > end:
        raise StillRunningError


def _names_beside(function: Any) -> dict[str, Any]:
    """Return the namespace that a function, or what is called through an object's class, was defined in."""
    function = inspect.unwrap(function.func if isinstance(function, functools.partial) else function)
    function = getattr(function, "__func__", function)
    if not isinstance(function, FunctionType):
        function = inspect.getattr_static(type(function), "__call__", None)
    return getattr(function, "__globals__", {})


@contextlib.contextmanager
def _replaced(names: dict[str, Any], stand_ins: StandIns) -> Iterator[None]:
    """Replace the values of `names` that have a stand-in, and put them back."""
    originals = {name: value for name, value in names.items() if id(value) in stand_ins}
    names.update({name: stand_ins[id(value)] for name, value in originals.items()})
    try:
        yield
    finally:
        names.update(originals)


@contextlib.contextmanager
def _default_timers(stand_ins: StandIns) -> Iterator[None]:
    """Replace the default arguments of timeit's functions, which hold a clock since their definition."""
    originals = [(function, function.__defaults__) for function in _DEFAULTS]
    for function, values in originals:
        function.__defaults__ = tuple(stand_ins.get(id(value), value) for value in values)
    try:
        yield
    finally:
        for function, values in originals:
            function.__defaults__ = values
