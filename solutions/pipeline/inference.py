"""Run a serialized engine: one context, device buffers that stay, one stream.

Plain TensorRT code; it runs on TensorRT 8.6, on TensorRT 10 and on the CPU engine.
"""

import time
from pathlib import Path

import numpy as np

from helpers.backend import DEVICE, cuda, trt
from helpers.errors import EngineError, InputError
from helpers.files import read_json
from solutions.pipeline.engine_log import LOG

__all__ = ["InferenceEngine", "deserialize"]

_NUMPY = {
    trt.DataType.FLOAT: np.float32,
    trt.DataType.HALF: np.float16,
    trt.DataType.INT8: np.int8,
    trt.DataType.INT32: np.int32,
    trt.DataType.BOOL: np.bool_,
}


class InferenceEngine:
    """A deserialized engine with one execution context, device buffers for its largest batch, and a stream.

    It keeps a single context: on TensorRT 8.6 a second context of a one-profile engine ends the process.

    Attributes:
        name, path: the file's stem and path; from bytes, the engine's own name and None.
        input_name, output_name: the one input and the one output.
        sample_shape, output_shape: shapes without the batch axis, for example (3, 224, 224) and (1000,).
        min_batch, opt_batch, max_batch: the first optimization profile; all equal where the batch is fixed.
        size_bytes: bytes of the serialized engine.
        device_memory_bytes: activation memory that the engine asks for.
        engine, context, stream: the `trt.ICudaEngine`, its `trt.IExecutionContext` and the `cuda.Stream`.
    """

    def __init__(self, source: str | Path | bytes) -> None:
        """Load an engine from a file or from its bytes.

        Raises:
            InputError: the file is missing, is no engine, or was built by another version or for another device.
            EngineError: the engine is valid but its context or its buffers cannot be made here.
        """
        self._closed = False
        self._buffers: list = []
        self.engine, self.size_bytes = deserialize(source)
        self.path = None if isinstance(source, bytes) else Path(source)
        self.name = self.path.stem if self.path else self.engine.name
        self._read_tensors()
        self._read_profile()
        self.stream = cuda.Stream()
        self.context = _checked(self.engine.create_execution_context, f"cannot create a context for {self.name}")
        self._allocate()

    def _read_tensors(self) -> None:
        names = [self.engine.get_tensor_name(index) for index in range(self.engine.num_io_tensors)]
        inputs = [name for name in names if self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT]
        outputs = [name for name in names if name not in inputs]
        if len(inputs) != 1 or len(outputs) != 1:
            raise InputError(
                f"engine {self.name} has inputs {inputs} and outputs {outputs}; "
                "this tool runs image classifiers with one input and one output"
            )
        self.input_name, self.output_name = inputs[0], outputs[0]
        self._input_type = _numpy_type(self.engine, self.input_name)
        self._output_type = _numpy_type(self.engine, self.output_name)

    def _read_profile(self) -> None:
        shape = tuple(self.engine.get_tensor_shape(self.input_name))
        if len(shape) < 2 or -1 in shape[1:]:
            raise InputError(f"input {self.input_name} of {self.name} has shape {shape}; only the batch axis may vary")
        profile = [shape] * 3
        if shape[0] == -1:
            profile = [tuple(dims) for dims in self.engine.get_tensor_profile_shape(self.input_name, 0)]
        self.min_batch, self.opt_batch, self.max_batch = (dims[0] for dims in profile)
        self.sample_shape = shape[1:]

    def _allocate(self) -> None:
        self._set_input_shape(self.max_batch)
        self.output_shape = tuple(self.context.get_tensor_shape(self.output_name))[1:]
        self._host_input = _pinned((self.max_batch, *self.sample_shape), self._input_type)
        self._host_output = _pinned((self.max_batch, *self.output_shape), self._output_type)
        for name, host in ((self.input_name, self._host_input), (self.output_name, self._host_output)):
            buffer = cuda.mem_alloc(host.nbytes)
            self._buffers.append(buffer)
            if not self.context.set_tensor_address(name, int(buffer)):
                raise EngineError(f"cannot set the address of tensor {name} of {self.name}")

    @property
    def device_memory_bytes(self) -> int:
        """Activation memory that the engine asks for, in bytes."""
        size = getattr(self.engine, "device_memory_size_v2", None)  # TensorRT 8.6 has only the older name
        return int(self.engine.device_memory_size if size is None else size)

    def infer(self, batch: np.ndarray) -> np.ndarray:
        """Run one batch [N, C, H, W] and return its outputs [N, …] as float32, in memory of its own.

        Raises:
            InputError: wrong sample shape, or N outside the engine's profile.
            EngineError: the execution failed.
        """
        batch = self._checked_batch(batch)
        number = len(batch)
        self._set_input_shape(number)
        np.copyto(self._host_input[:number], batch, casting="unsafe")
        cuda.memcpy_htod_async(self._buffers[0], self._host_input[:number], self.stream)
        self.enqueue()
        output = self._host_output[:number]
        cuda.memcpy_dtoh_async(output, self._buffers[1], self.stream)
        self.synchronize()
        return output.astype(np.float32, copy=True)

    def predict(self, images: np.ndarray) -> np.ndarray:
        """Run any number of images [N, C, H, W]: split by the largest batch, padded up to the smallest.

        Returns the outputs [N, …] as float32.
        """
        outputs = []
        for start in range(0, len(images), self.max_batch):
            chunk = images[start : start + self.max_batch]
            missing = max(0, self.min_batch - len(chunk))
            padded = np.concatenate([chunk, np.repeat(chunk[-1:], missing, axis=0)]) if missing else chunk
            outputs.append(self.infer(padded)[: len(chunk)])
        return np.concatenate(outputs) if outputs else np.empty((0, *self.output_shape), np.float32)

    def bind(self, batch_size: int, data: np.ndarray | None = None) -> None:
        """Make the engine ready to be timed at `batch_size`: shapes set and `data` (default: seeded noise) uploaded.

        Raises:
            InputError: the batch size is outside the profile, or `data` does not fit it.
        """
        if data is None:
            data = np.random.default_rng(0).standard_normal((batch_size, *self.sample_shape), dtype=np.float32)
        data = self._checked_batch(data)
        if len(data) != batch_size:
            raise InputError(f"bind({batch_size}) was given data for a batch of {len(data)}")
        self._set_input_shape(batch_size)
        np.copyto(self._host_input[:batch_size], data, casting="unsafe")
        cuda.memcpy_htod(self._buffers[0], self._host_input[:batch_size])

    def enqueue(self) -> None:
        """Put one execution on the stream; the result is there after `synchronize()`."""
        if not self.context.execute_async_v3(self.stream.handle):
            raise EngineError(f"engine {self.name} refused to run: {LOG.last_error or 'no reason was logged'}")

    def synchronize(self) -> None:
        """Wait until the stream has done all it was given."""
        self.stream.synchronize()

    def execute_ms(self) -> float:
        """Run the bound batch once and return its latency in milliseconds (host clock, buffers resident)."""
        start = time.perf_counter()
        self.enqueue()
        self.synchronize()
        return (time.perf_counter() - start) * 1e3

    def close(self) -> None:
        """Free the context, the engine and the device buffers; calling it again does nothing."""
        if self._closed:
            return
        self._closed = True
        self.stream.synchronize()
        self.context = self.engine = None
        for buffer in self._buffers:
            buffer.free()

    def __enter__(self) -> "InferenceEngine":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _set_input_shape(self, batch_size: int) -> None:
        with LOG.collect() as messages:
            accepted = self.context.set_input_shape(self.input_name, (batch_size, *self.sample_shape))
        if not accepted:
            raise InputError(f"engine {self.name} refuses a batch of {batch_size}: {messages.text()}")

    def _checked_batch(self, batch: np.ndarray) -> np.ndarray:
        batch = np.asarray(batch)
        if batch.ndim != len(self.sample_shape) + 1 or batch.shape[1:] != self.sample_shape:
            expected = ", ".join(map(str, self.sample_shape))
            raise InputError(f"engine {self.name} takes a batch of shape [N, {expected}], not {list(batch.shape)}")
        if not self.min_batch <= len(batch) <= self.max_batch:
            raise InputError(
                f"a batch of {len(batch)} is outside the profile of engine {self.name} "
                f"({self.min_batch} to {self.max_batch}); choose another batch size or rebuild with --max-batch"
            )
        return batch


def deserialize(source: str | Path | bytes) -> tuple["trt.ICudaEngine", int]:
    """Return the engine in a file or in bytes, and its size in bytes.

    Raises:
        InputError: missing, empty, truncated, no engine, or built by another version or for another device.
    """
    data, what = _read(source)
    with LOG.collect() as messages:
        runtime = trt.Runtime(LOG)
        engine = runtime.deserialize_cuda_engine(data) if data else None
    if engine is None:
        raise InputError(_refusal(source, what, len(data), messages.text()))
    return engine, len(data)


def _read(source: str | Path | bytes) -> tuple[bytes, str]:
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source), "the engine"
    try:
        return Path(source).read_bytes(), str(source)
    except OSError as error:
        raise InputError(
            f"cannot read the engine {source}: {error.strerror or error}; build one with trtlab build"
        ) from error


def _refusal(source: str | Path | bytes, what: str, size: int, logged: str) -> str:
    if not size:
        return f"{what} is empty; build it again with trtlab build"
    reason = f" ({logged})" if logged else ""
    where = f"{DEVICE} can load{reason}{_built_on(source)}"
    return f"{what} ({size:,} bytes) is no engine that {where}; build it again here"


def _built_on(source: str | Path | bytes) -> str:
    """Return where the engine was built, if its E.json says so."""
    record = None if isinstance(source, bytes) else Path(f"{source}.json")
    if record is None or not record.is_file():
        return ""
    try:
        device = read_json(record)["engine"]["device"]
    except (InputError, KeyError, TypeError):
        return ""
    return f", it was built on: {device}"


def _checked(make: object, what: str) -> object:
    with LOG.collect() as messages:
        made = make()
    if made is None:
        raise EngineError(f"{what}: {messages.text() or 'no reason was logged'}")
    return made


def _numpy_type(engine: "trt.ICudaEngine", name: str) -> np.dtype:
    kind = engine.get_tensor_dtype(name)
    if kind not in _NUMPY:
        raise InputError(f"tensor {name} of the engine has type {kind}, which NumPy cannot hold")
    return np.dtype(_NUMPY[kind])


def _pinned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return page-locked host memory, from which copies to the device are asynchronous."""
    return cuda.pagelocked_empty(shape, dtype)
