"""Probes that run the student's benchmark functions on an engine, with a log of what happened on its stream."""

import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypedDict

import numpy as np

from helpers.checks.points.s06_benchmark.timing import SHAPE, Numbers, images, numbers
from helpers.checks.probes.answer import Notebook, probe
from helpers.engine.backend import ENGINE, cuda, trt
from helpers.toys.clock import StillRunningError

ENGINE_BATCH = 64 if ENGINE == "tensorrt" else 8
"""Large enough that the work lasts several times as long as it takes to ask for it."""

_MOST_CALLS, _MOST_S = 1000, 15.0
_counter = time.perf_counter


class Log(TypedDict):
    """What `QueuedEngine.log` answers."""

    images: np.ndarray
    start_s: np.ndarray
    end_s: np.ndarray
    waited_s: np.ndarray


class QueuedEngine:
    """An engine with input `input` and output `output` whose calls return when the execution is on the stream.

    The input stays as it is: nothing is copied, and what a call returns are zeros. It keeps a log, waits for the oldest
    call where `queue` are under way, as a GPU's launch queue has an end too, and raises StillRunningError after
    `most_calls`, or when it is called after `most_s` seconds. A context manager, which frees its memory.
    """

    def __init__(
        self,
        plan: bytes,
        largest: int,
        *,
        queue: float = math.inf,
        most_calls: float = math.inf,
        most_s: float = math.inf,
    ) -> None:
        """Raises ValueError where the plan is no engine of this TensorRT, or refuses a batch of `largest`."""
        engine = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(plan)
        if engine is None:
            raise ValueError("the plan cannot be deserialized here")
        self.engine, self.context, self.stream = engine, engine.create_execution_context(), cuda.Stream()
        self._bind(largest)
        self._buffers = []
        for name in ("input", "output"):
            self._buffers.append(cuda.mem_alloc(4 * trt.volume(self.context.get_tensor_shape(name))))
            self.context.set_tensor_address(name, int(self._buffers[-1]))
        cuda.memset_d8(self._buffers[0], 0, 4 * largest * int(np.prod(SHAPE)))
        self._calls: list[list[float]] = []  # images, start, return, end of the first wait after it (NaN: none)
        self._under_way: deque[Any] = deque()
        self._queue, self._most_calls, self._end = queue, most_calls, _counter() + most_s

    def _bind(self, batch: int) -> None:
        if not self.context.set_input_shape("input", (batch, *SHAPE)):
            raise ValueError(f"the engine refuses a batch of {batch}")
        self._batch = batch

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        """Start on a batch [N, 3, 224, 224]; note when."""
        call = [len(batch), _counter(), np.nan, np.nan]
        self._calls.append(call)
        if call[1] > self._end or len(self._calls) > self._most_calls:
            raise StillRunningError
        if len(batch) != self._batch:
            self._bind(len(batch))
        if len(self._under_way) >= self._queue:
            self._under_way.popleft().synchronize()
        if not self.context.execute_async_v3(self.stream.handle):
            raise RuntimeError("the engine refused to run")
        self._under_way.append(cuda.Event())
        self._under_way[-1].record(self.stream)
        output = np.zeros((len(batch), 10), np.float32)
        call[2] = _counter()
        return output

    def synchronize(self) -> None:
        """Wait for what the calls started; note when that was over."""
        self.stream.synchronize()
        end = _counter()
        self._under_way.clear()
        for call in reversed(self._calls):
            if not np.isnan(call[3]):
                break
            call[3] = end

    def log(self) -> Log:
        """Return `images`, `start_s`, `end_s` (when the call returned) and `waited_s` of the calls, arrays [calls]."""
        calls = np.array(self._calls, dtype=np.float64).reshape(-1, 4)
        return dict(zip(("images", "start_s", "end_s", "waited_s"), calls.T.copy(), strict=True))

    def __enter__(self) -> "QueuedEngine":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stream.synchronize()
        self.context = self.engine = None
        for buffer in self._buffers:
            buffer.free()


class EngineRun(Numbers):
    """What `engine_latency` and `engine_throughput` answer."""

    stopped: bool
    log: Log


@probe
def engine_latency(notebook: Notebook, *, plan: bytes, counts: dict[str, int], attempt: int) -> EngineRun:
    """Call benchmark_latency with an engine at ENGINE_BATCH; return what `numbers` gives, `stopped` and the `log`."""
    benchmark, given = notebook["benchmark_latency"], images(ENGINE_BATCH, attempt)
    engine = QueuedEngine(plan, ENGINE_BATCH, most_calls=_MOST_CALLS)
    return _on_engine(notebook, engine, lambda model: benchmark(model, given, **counts))


@probe
def engine_throughput(notebook: Notebook, *, plan: bytes, seconds: float, queue: int, attempt: int) -> EngineRun:
    """Call benchmark_throughput with an engine at ENGINE_BATCH; as above. `attempt` makes it another request."""
    benchmark = notebook["benchmark_throughput"]
    engine = QueuedEngine(plan, ENGINE_BATCH, queue=queue, most_s=_MOST_S)
    return _on_engine(notebook, engine, lambda model: benchmark(model, ENGINE_BATCH, duration_sec=seconds))


def _on_engine(notebook: Notebook, queued: QueuedEngine, run: Callable[[Any], Any]) -> EngineRun:
    returned, stopped = None, False
    with queued as engine:
        try:
            returned = run(_as_in_the_notebook(notebook, engine))
        except StillRunningError:
            stopped = True
        log = engine.log()
    return {**numbers(returned), "stopped": stopped, "log": log}


def _as_in_the_notebook(notebook: Notebook, engine: QueuedEngine) -> Any:
    """Return the engine as an object of the notebook's EngineModel: a function must treat it as it treats those.

    It has a TensorRTInference inside, whose context, stream and names are real too: whoever runs that is not logged.
    """
    model = _like(notebook.value("EngineModel"), engine, synchronize=lambda self: engine.synchronize())
    if model is not engine:
        model.inference = _like(notebook.value("TensorRTInference"), engine, close=lambda self: None)
    return model


def _like(base: Any, engine: QueuedEngine, **methods: Callable[..., Any]) -> Any:
    """Return an object of a class like `base` that runs the engine; the engine itself where there is no such class."""
    if not isinstance(base, type):
        return engine
    methods["__call__"] = methods["infer"] = lambda self, batch: engine(batch)
    found = type(base.__name__, (base,), methods | {"__init__": lambda self: None})()
    found.__dict__.update(engine=engine.engine, context=engine.context, stream=engine.stream)
    found.__dict__.update(input_name="input", output_name="output")
    return found
