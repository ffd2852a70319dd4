"""An engine behind the benchmark's model protocol: a call starts the work, `synchronize()` waits for it."""

import time
from typing import Any

import numpy as np

from helpers.backend import cuda, trt

__all__ = ["EngineModel", "LoggedModel"]

_clock = time.perf_counter
_MOST_STARTED = 1500
"""Calls that may be under way, as a GPU's launch queue has an end too: what ran out of time must be over soon."""


class EngineModel:
    """A serialized engine with input `input` and output `output` in float32, for batches up to `largest`.

    A call copies the batch in, starts the execution and the copy of the result, and returns; the array that it returns
    [N, classes] is complete after `synchronize()`. It is a context manager, and frees its memory at the end.
    """

    def __init__(self, plan: bytes, largest: int) -> None:
        """Raises ValueError where the plan is no engine of this TensorRT."""
        engine = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(plan)
        if engine is None:
            raise ValueError("the plan cannot be deserialized here")
        self._engine, self._context, self._stream = engine, engine.create_execution_context(), cuda.Stream()
        self._buffers: list[Any] = []
        self._started = 0
        self._bind((largest, *tuple(engine.get_tensor_shape("input"))[1:]))
        self._input = self._host("input")
        self._output = self._host("output")

    def _bind(self, shape: tuple[int, ...]) -> None:
        if not self._context.set_input_shape("input", shape):
            raise ValueError(f"the engine refuses an input of shape {shape}")
        self._shape = shape

    def _host(self, name: str) -> np.ndarray:
        host = cuda.pagelocked_empty(tuple(self._context.get_tensor_shape(name)), np.float32)
        buffer = cuda.mem_alloc(host.nbytes)
        self._buffers.append(buffer)
        self._context.set_tensor_address(name, int(buffer))
        return host

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        """Start on a batch [N, C, H, W]; the returned array is complete after `synchronize()`."""
        if batch.shape != self._shape:
            self._bind(batch.shape)
        if self._started == _MOST_STARTED:
            self.synchronize()
        self._started += 1
        number = len(batch)
        np.copyto(self._input[:number], batch, casting="unsafe")
        cuda.memcpy_htod_async(self._buffers[0], self._input[:number], self._stream)
        if not self._context.execute_async_v3(self._stream.handle):
            raise RuntimeError("the engine refused to run")
        cuda.memcpy_dtoh_async(self._output[:number], self._buffers[1], self._stream)
        return self._output[:number]

    def synchronize(self) -> None:
        """Wait for what the calls started."""
        self._stream.synchronize()
        self._started = 0

    def __enter__(self) -> "EngineModel":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stream.synchronize()
        self._context = self._engine = None
        for buffer in self._buffers:
            buffer.free()


class LoggedModel:
    """An EngineModel that notes when each call came and when it had been waited for."""

    def __init__(self, model: EngineModel) -> None:
        self._model = model
        self._calls: list[list[float]] = []  # images, start, end of the first wait after it (NaN: none)

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        """Start on a batch; note when."""
        self._calls.append([len(batch), _clock(), np.nan])
        return self._model(batch)

    def synchronize(self) -> None:
        """Wait; note when that was over."""
        self._model.synchronize()
        end = _clock()
        for call in reversed(self._calls):
            if not np.isnan(call[2]):
                break
            call[2] = end

    def log(self) -> dict[str, Any]:
        """Return `images`, `start_s` and `waited_s` of the calls, arrays [calls]."""
        calls = np.array(self._calls, dtype=np.float64).reshape(-1, 3)
        return {"images": calls[:, 0], "start_s": calls[:, 1], "waited_s": calls[:, 2]}
