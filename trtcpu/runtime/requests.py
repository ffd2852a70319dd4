"""What an engine's contexts run on: one alone takes all cores; those that run at once take a part of them each.

OpenVINO splits the cores when a model is loaded, so there are two copies. The one for a context alone (OpenVINO's
latency mode) is the engine's own. The one for several (its throughput mode) is loaded when two inferences first
overlap: contexts that are only made, or take turns, never load it.
"""

import threading
import weakref
from collections.abc import Callable

import numpy as np

from trtcpu._openvino import Compiled, Request, reason
from trtcpu.device import memory
from trtcpu.errors import EngineError

# Name, address, bytes, shape and NumPy type of each tensor of one execution. A change of shapes or addresses makes a
# new list, so that a request is bound again only then.
Tensors = list[tuple[str, int, int, tuple[int, ...], type]]


class Requests:
    """The copies of an engine's compiled model, and the executions of its contexts."""

    def __init__(self, alone: Compiled, load: Callable[[int], Compiled]) -> None:
        """Run on `alone`, and if contexts overlap on `load(contexts)`, which serves that many at once."""
        self._alone, self._load = alone, load
        self._shared: Compiled | None = None
        self._parts = 0
        self._lock = threading.Lock()
        self._executions: weakref.WeakSet[Execution] = weakref.WeakSet()

    def execution(self) -> "Execution":
        """Return the execution of a new context."""
        execution = Execution(self, self._alone)
        with self._lock:
            self._executions.add(execution)
        return execution

    def for_start(self, execution: "Execution") -> Compiled:
        """Return the copy for an inference of `execution` that starts now.

        It is the shared one if an inference of another context is running, or was when this context's last one ran: so
        contexts that are enqueued and awaited together share although the first finds all cores free.

        Raises:
            EngineError: the second copy cannot be loaded.
        """
        if len(self._executions) < 2 or self._alone.threads < 2:
            return self._alone
        with self._lock:
            others = [other for other in self._executions if other is not execution and other.running()]
            shares = bool(others) or execution.overlapped
            copy = self._shared_by(len(self._executions)) if shares else self._alone
            for one in others:
                one.overlapped = True
            execution.overlapped = bool(others)
            return copy

    def _shared_by(self, contexts: int) -> Compiled:
        parts = min(contexts, self._alone.threads)
        if self._shared is None or self._parts < parts:
            try:
                self._shared, self._parts = self._load(parts), parts
            except RuntimeError as error:
                raise EngineError(
                    f"the engine cannot be loaded again for {parts} contexts at once ({reason(error)}); synchronise "
                    "one context before you enqueue the next"
                ) from error
        return self._shared


class Execution:
    """One context's inferences, one at a time.

    Attributes:
        overlapped: whether an inference of another context ran beside the last one.
    """

    __slots__ = ("__weakref__", "_alone", "_bound", "_requests", "_running", "overlapped")

    def __init__(self, requests: Requests, alone: Compiled) -> None:
        self._requests, self._alone = requests, alone
        # By copy of the model: the request, and the tensors that it reads and writes.
        self._bound: dict[Compiled, tuple[Request, Tensors | None]] = {alone: (alone.create_request(), None)}
        self._running: Request | None = None
        self.overlapped = False

    def start(self, tensors: Tensors) -> None:
        """Start an inference that reads and writes at the addresses of `tensors`.

        Raises:
            DeviceMemoryError: an address is in no live allocation.
            EngineError: the model does not take a tensor of that shape, or no second copy of it fits.
        """
        copy = self._requests.for_start(self)
        if copy not in self._bound:  # in place of an earlier copy for fewer contexts
            self._bound = {self._alone: self._bound[self._alone], copy: (copy.create_request(), None)}
        request, bound = self._bound[copy]
        views = [memory.view(address, nbytes) for _, address, nbytes, _, _ in tensors]
        if tensors is not bound:
            _bind(request, tensors, views)
            self._bound[copy] = request, tensors
        self._running = request
        request.start()

    def wait(self) -> Request | None:
        """Wait for the inference that was started, if there is one, and return what it ran on.

        Raises:
            EngineError: the network could not run on what the inputs are.
        """
        request = self._running
        if request is not None:
            try:
                request.wait()
            except RuntimeError as error:
                raise EngineError(f"the network cannot run on these inputs: {reason(error)}") from error
            finally:
                self._running = None
        return request

    def running(self) -> bool:
        """Tell, from any thread and without waiting, whether an inference is running."""
        request = self._running
        return request is not None and not request.done()


def _bind(request: Request, tensors: Tensors, views: list[np.ndarray]) -> None:
    for (name, _, _, shape, kind), view in zip(tensors, views, strict=True):
        try:
            request.bind(name, view.view(kind).reshape(shape))
        except RuntimeError as error:  # the plan tells an output's shape, only OpenVINO knows it
            raise EngineError(f"the plan says {shape} for tensor {name}, its model differs; rebuild it") from error
