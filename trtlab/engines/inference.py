"""Run a serialized engine with any inputs and outputs: one context, device buffers that stay, one stream.

Plain TensorRT code; it runs on TensorRT 8.6, on TensorRT 10 and on the CPU engine.
"""

import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from helpers.engine.backend import DEVICE, cuda, trt
from helpers.tools.files import read_json
from trtcpu.errors import EngineError, InputError
from trtlab.engines.engine_log import LOG
from trtlab.engines.tensors import (
    InputSpec,
    Shape,
    batch_range,
    batched,
    count,
    examples,
    numpy_type,
    taken,
    tensor_names,
    volume,
)


class InferenceEngine:
    """A deserialized engine with one execution context, device buffers for its largest shapes, and a stream.

    It keeps a single context: on TensorRT 8.6 a second context of a one-profile engine ends the process.

    Attributes:
        name, path: the file's stem and path; from bytes, the engine's own name and None.
        inputs: every input with its type and the shapes of the first optimization profile.
        input_name, output_name: the first input and the first output.
        output_names: every output.
        sample_shape, output_shape: the best shapes of those without the batch axis: (3, 224, 224) and (1000,).
        min_batch, opt_batch, max_batch: axis 0 of the first input; all equal where the batch is fixed.
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
        self._buffers: dict = {}
        self.engine, self.size_bytes = deserialize(source)
        self.path = None if isinstance(source, bytes) else Path(source)
        self.name = self.path.stem if self.path else self.engine.name
        self._read_tensors()
        self.stream = cuda.Stream()
        self.context = _checked(self.engine.create_execution_context, f"cannot create a context for {self.name}")
        self._allocate()

    def _read_tensors(self) -> None:
        inputs, self.output_names = tensor_names(self.engine)
        if not inputs or not self.output_names:
            raise InputError(f"engine {self.name} has inputs {inputs} and outputs {self.output_names}; it needs both")
        self.inputs, self._output_types = read_inputs(self.engine, self.path), read_output_types(self.engine)
        self.input_name, self.output_name = inputs[0], self.output_names[0]
        self.choose(self.inputs)

    def choose(self, inputs: Mapping[str, InputSpec]) -> None:
        """Take inputs with other best shapes: those that `bind` runs at."""
        self.inputs = dict(inputs)
        self.min_batch, self.opt_batch, self.max_batch = batch_range(self.inputs)
        self.sample_shape = self.inputs[self.input_name].best[1:]

    def _allocate(self) -> None:
        self._set_shapes({name: spec.most for name, spec in self.inputs.items()})
        largest = {name: tuple(self.context.get_tensor_shape(name)) for name in self.output_names}
        open_sizes = [name for name, shape in largest.items() if -1 in shape]
        if open_sizes:
            raise InputError(
                f"the size of output {open_sizes[0]} of {self.name} depends on the data; mark another output"
            )
        types = {name: spec.dtype for name, spec in self.inputs.items()} | self._output_types
        sizes = {name: volume(spec.most) for name, spec in self.inputs.items()}
        sizes |= {name: volume(shape) for name, shape in largest.items()}
        self._host: dict[str, np.ndarray] = {}
        for name, size in sizes.items():
            self._reserve(name, max(size, 1), types[name])
        self._set_shapes({name: spec.best for name, spec in self.inputs.items()})
        self.output_shape = tuple(self.context.get_tensor_shape(self.output_name))[1:]

    def _reserve(self, name: str, size: int, dtype: np.dtype) -> None:
        """Keep page-locked host memory, for asynchronous copies, and device memory for a tensor's largest shape."""
        try:
            self._host[name] = cuda.pagelocked_empty((size,), dtype)
            self._buffers[name] = cuda.mem_alloc(self._host[name].nbytes)
        except (MemoryError, getattr(cuda, "MemoryError", MemoryError)) as error:
            needed = size * dtype.itemsize / 1e9
            raise EngineError(f"{name} of {self.name} needs {needed:,.1f} GB; build with a smaller maximum") from error
        if not self.context.set_tensor_address(name, int(self._buffers[name])):
            raise EngineError(f"cannot set the address of tensor {name} of {self.name}")

    @property
    def device_memory_bytes(self) -> int:
        """Activation memory that the engine asks for, in bytes."""
        size = getattr(self.engine, "device_memory_size_v2", None)  # TensorRT 8.6 has only the older name
        return int(self.engine.device_memory_size if size is None else size)

    def infer(self, batch: np.ndarray) -> np.ndarray:
        """Run one batch [N, C, H, W] of the only input and return the first output [N, …] as float32, in new memory.

        Raises:
            InputError: wrong sample shape, N outside the engine's profile, or several inputs.
            EngineError: the execution failed.
        """
        return self.run({self._only_input(): batch})[self.output_name].astype(np.float32, copy=False)

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run one batch of every input and return every output, in memory of its own.

        Raises:
            InputError: an input is missing, or its shape is outside the engine's profile.
            EngineError: the execution failed.
        """
        self.upload(feeds)
        self.enqueue()
        return self.download()

    def upload(self, feeds: Mapping[str, np.ndarray]) -> None:
        """Put the copies of one batch of every input on the stream; raises InputError as `run` does."""
        feeds = self._checked_feeds(feeds)
        self._set_shapes({name: array.shape for name, array in feeds.items()})
        for name, array in feeds.items():
            cuda.memcpy_htod_async(self._buffers[name], self._staged(name, array), self.stream)

    def download(self) -> dict[str, np.ndarray]:
        """Copy every output back, wait for the stream, and return them in memory of their own."""
        outputs = {name: self._host_output(name) for name in self.output_names}
        for name, host in outputs.items():
            cuda.memcpy_dtoh_async(host, self._buffers[name], self.stream)
        self.synchronize()
        return {name: host.copy() for name, host in outputs.items()}

    def predict(self, images: np.ndarray) -> np.ndarray:
        """Run any number of images [N, C, H, W]: split by the largest batch, padded up to the smallest.

        Returns the first output [N, …] as float32.
        """
        if not len(images):
            return np.empty((0, *self.output_shape), np.float32)
        return self.predict_all({self._only_input(): images})[self.output_name].astype(np.float32, copy=False)

    def predict_all(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run any number of samples of every input [N, …], as `predict` does; returns every output [N, …]."""
        parts = [self._padded(feeds, start) for start in range(0, count(feeds, self.inputs), self.max_batch)]
        return {name: np.concatenate([part[name] for part in parts]) for name in self.output_names}

    def _padded(self, feeds: Mapping[str, np.ndarray], start: int) -> dict[str, np.ndarray]:
        chunks = taken(feeds, self.inputs, start, start + self.max_batch)
        found = count(chunks, self.inputs)
        missing = self.min_batch - found
        if missing <= 0:
            return self.run(chunks)
        padded = {name: [chunks[name], np.repeat(chunks[name][-1:], missing, axis=0)] for name in batched(self.inputs)}
        outputs = self.run(chunks | {name: np.concatenate(parts) for name, parts in padded.items()})
        return {name: output[:found] for name, output in outputs.items()}

    def bind(self, batch_size: int, data: np.ndarray | Mapping[str, np.ndarray] | None = None) -> None:
        """Make the engine ready to be timed at `batch_size`: shapes set and `data` (default: seeded noise) uploaded.

        `data` is the only input's array, or every input's; of sizes that are dynamic beside the batch, noise has the
        profile's best.

        Raises:
            InputError: the batch size is outside the profile, or `data` does not fit it.
        """
        if data is None:
            data = examples(self.inputs, batch_size)
        feeds = self._checked_feeds(data if isinstance(data, Mapping) else {self._only_input(): data})
        if (number := len(feeds[self.input_name])) != batch_size and self.inputs[self.input_name].best:
            raise InputError(f"bind({batch_size}) was given data for a batch of {number}")
        self._set_shapes({name: array.shape for name, array in feeds.items()})
        for name, array in feeds.items():
            cuda.memcpy_htod(self._buffers[name], self._staged(name, array))

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
        for buffer in self._buffers.values():
            buffer.free()

    def __enter__(self) -> "InferenceEngine":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _only_input(self) -> str:
        if len(self.inputs) > 1:
            raise InputError(f"engine {self.name} takes {', '.join(self.inputs)}; give every input by name")
        return self.input_name

    def _staged(self, name: str, array: np.ndarray) -> np.ndarray:
        """Return the array in page-locked memory, in the input's type."""
        host = self._host[name][: array.size].reshape(array.shape)
        np.copyto(host, array, casting="unsafe")
        return host

    def _host_output(self, name: str) -> np.ndarray:
        shape = tuple(self.context.get_tensor_shape(name))
        return self._host[name][: volume(shape)].reshape(shape)

    def _set_shapes(self, shapes: Mapping[str, Shape]) -> None:
        for name, shape in shapes.items():
            with LOG.collect() as messages:
                accepted = self.context.set_input_shape(name, shape)
            if not accepted:
                raise InputError(f"engine {self.name} refuses {name} of shape {list(shape)}: {messages.text()}")

    def _checked_feeds(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        unknown = [name for name in feeds if name not in self.inputs]
        missing = [name for name in self.inputs if name not in feeds]
        if unknown or missing:
            raise InputError(f"engine {self.name} takes {', '.join(self.inputs)}, not {', '.join(feeds) or 'nothing'}")
        return {name: self._checked_array(spec, np.asarray(feeds[name])) for name, spec in self.inputs.items()}

    def _checked_array(self, spec: InputSpec, array: np.ndarray) -> np.ndarray:
        """Return the array where its shape is in the profile; the batch is named where it alone is not."""
        if spec.takes(array.shape):
            return array
        if not spec.best or not spec.takes((spec.best[0], *array.shape[1:])):
            axes = ["N", *spec.described().rpartition("[")[2].rstrip("]").split(", ")[1:]]
            raise InputError(
                f"engine {self.name} takes {spec.name} as a batch of shape [{', '.join(axes)}], not {list(array.shape)}"
            )
        low, _, high = spec.batches
        raise InputError(
            f"a batch of {len(array)} is outside the profile of engine {self.name} "
            f"({low} to {high}); choose another batch size or rebuild with --max-batch"
        )


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


def read_inputs(engine: "trt.ICudaEngine", path: Path | None) -> dict[str, InputSpec]:
    """Return an engine's inputs by name, with the limits of integers from the record beside `path`."""
    limits = _index_limits(path)
    return {name: _input_spec(engine, name).limited(limits.get(name)) for name in tensor_names(engine)[0]}


def read_output_types(engine: "trt.ICudaEngine") -> dict[str, np.dtype]:
    """Return the NumPy type of every output by name."""
    return {name: _numpy_type(engine, name) for name in tensor_names(engine)[1]}


def _numpy_type(engine: "trt.ICudaEngine", name: str) -> np.dtype:
    kind = engine.get_tensor_dtype(name)
    dtype = numpy_type(kind)
    if dtype is None:
        raise InputError(f"tensor {name} of the engine has type {kind}, which NumPy cannot hold")
    return dtype


def _input_spec(engine: "trt.ICudaEngine", name: str) -> InputSpec:
    shape = tuple(engine.get_tensor_shape(name))
    profile = [shape] * 3
    if -1 in shape:
        profile = [tuple(dims) for dims in engine.get_tensor_profile_shape(name, 0)]
    return InputSpec(name, _numpy_type(engine, name), *profile)


def _index_limits(path: Path | None) -> dict[str, int]:
    """Return the rows that integer inputs look up in, from the record beside the engine where there is one."""
    try:
        inputs = read_json(f"{path}.json")["inputs"]
        return {entry["name"]: entry["limit"] for entry in inputs if isinstance(entry["limit"], int)}
    except (InputError, KeyError, TypeError):
        return {}
