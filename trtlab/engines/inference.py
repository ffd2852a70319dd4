"""Run a serialized engine with any inputs and outputs: one context, device buffers that stay, one stream.

Plain TensorRT code; it runs on TensorRT 8.6, on TensorRT 10 and on the CPU engine.
"""

import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from helpers.engine.backend import DEVICE, cuda, trt
from helpers.tools.files import read_file, read_json
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
    volume,
)


class InferenceEngine(contextlib.AbstractContextManager["InferenceEngine"]):
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
        precision: what the build was asked for; "?" without a record beside the file.
        engine, context, stream: the `trt.ICudaEngine`, its `trt.IExecutionContext` and the `cuda.Stream`.
        host: a page-locked array of each tensor, in the shape that was set last.
    """

    def __init__(self, source: str | Path | bytes, shared: "InferenceEngine | None" = None) -> None:
        """Load an engine from a file or from its bytes; with `shared`, make another context of its engine.

        Raises:
            InputError: the file is missing, is no engine, or was built by another version or for another device.
            EngineError: the engine is valid but its context or its buffers cannot be made here.
        """
        self.engine, self.size_bytes = (shared.engine, shared.size_bytes) if shared else deserialize(source)
        self.path = None if isinstance(source, bytes) else Path(source)
        self.name = self.path.stem if self.path else self.engine.name
        modes = (trt.TensorIOMode.INPUT, trt.TensorIOMode.OUTPUT)
        input_types, output_types = (_tensor_types(self.engine, mode) for mode in modes)
        self.output_names = list(output_types)
        if not input_types or not output_types:
            raise InputError(
                f"engine {self.name} has inputs {list(input_types)} and outputs {self.output_names}; it needs both"
            )
        self.input_name, self.output_name = next(iter(input_types)), self.output_names[0]
        _, self.precision, limits = _recorded(self.path)
        profiles = {name: _first_profile(self.engine, name) for name in input_types}
        self.choose({name: InputSpec(name, input_types[name], *profiles[name], limits.get(name)) for name in profiles})
        self.stream = cuda.Stream()
        with LOG.collect() as messages:
            self.context = self.engine.create_execution_context()
        if self.context is None:
            raise EngineError(f"cannot create a context for {self.name}: {messages.text() or 'no reason was logged'}")
        self._allocate(input_types | output_types)

    def choose(self, inputs: Mapping[str, InputSpec]) -> None:
        """Take inputs with other best shapes: those that `bind` runs at."""
        self.inputs = dict(inputs)
        self.min_batch, self.opt_batch, self.max_batch = batch_range(self.inputs)
        self.sample_shape = self.inputs[self.input_name].best[1:]

    def _allocate(self, types: Mapping[str, np.dtype]) -> None:
        self._memory: dict[str, np.ndarray] = {}
        self._buffers: dict[str, cuda.DeviceAllocation] = {}
        self._set_shapes({name: spec.most for name, spec in self.inputs.items()})
        for name, dtype in types.items():
            shape = tuple(self.context.get_tensor_shape(name))
            if -1 in shape:
                ends = f"the size of output {name} of {self.name} depends on the data"
                raise InputError(f"{ends}; export the model without the nodes that find it")
            self._reserve(name, max(volume(shape), 1), dtype)
        self._set_shapes({name: spec.best for name, spec in self.inputs.items()})
        self.output_shape = tuple(self.context.get_tensor_shape(self.output_name))[1:]

    def _reserve(self, name: str, size: int, dtype: np.dtype) -> None:
        """Keep page-locked host memory, for asynchronous copies, and device memory for a tensor's largest shape."""
        try:
            self._memory[name] = cuda.pagelocked_empty((size,), dtype)
            self._buffers[name] = cuda.mem_alloc(self._memory[name].nbytes)
        except (MemoryError, getattr(cuda, "MemoryError", MemoryError)) as error:
            self.close()
            raise EngineError(
                f"{name} of {self.name} needs {size * dtype.itemsize / 1e9:,.1f} GB; build with a smaller maximum"
            ) from error
        self.context.set_tensor_address(name, int(self._buffers[name]))

    def infer(self, batch: np.ndarray) -> np.ndarray:
        """Run one batch [N, C, H, W] of the only input and return the first output [N, …] as float32, in new memory.

        Raises:
            InputError: wrong sample shape, N outside the engine's profile, or several inputs.
            EngineError: the execution failed.
        """
        return self.run(self.named(batch))[self.output_name].astype(np.float32, copy=False)

    def named(self, batch: np.ndarray) -> dict[str, np.ndarray]:
        """Return the only input's batch by its name; raises InputError if there are several inputs."""
        if len(self.inputs) > 1:
            raise InputError(f"engine {self.name} takes {', '.join(self.inputs)}; give every input by name")
        return {self.input_name: batch}

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
        if set(feeds) != set(self.inputs):
            raise InputError(f"engine {self.name} takes {', '.join(self.inputs)}, not {', '.join(feeds) or 'nothing'}")
        arrays = {name: np.asarray(feeds[name]) for name in self.inputs}
        self._set_shapes({name: array.shape for name, array in arrays.items()})
        shapes = {name: tuple(self.context.get_tensor_shape(name)) for name in self._memory}
        self.host = {name: self._memory[name][: volume(shape)].reshape(shape) for name, shape in shapes.items()}
        for name, array in arrays.items():
            np.copyto(self.host[name], array, casting="unsafe")
        self.copy_in()

    def copy_in(self) -> None:
        """Put the copies of `host`'s inputs to the device on the stream."""
        for name in self.inputs:
            cuda.memcpy_htod_async(self._buffers[name], self.host[name], self.stream)

    def copy_out(self) -> None:
        """Put the copies of the outputs into `host` on the stream."""
        for name in self.output_names:
            cuda.memcpy_dtoh_async(self.host[name], self._buffers[name], self.stream)

    def download(self) -> dict[str, np.ndarray]:
        """Copy every output back, wait for the stream, and return them in memory of their own."""
        self.copy_out()
        self.synchronize()
        return {name: self.host[name].copy() for name in self.output_names}

    def predict(self, images: np.ndarray) -> np.ndarray:
        """Run any number of images [N, C, H, W]: split by the largest batch, padded up to the smallest.

        Returns the first output [N, …] as float32.
        """
        return self.predict_all(self.named(images))[self.output_name].astype(np.float32, copy=False)

    def predict_all(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run any number of samples of every input [N, …], as `predict` does; returns every output [N, …].

        Raises:
            InputError: an output is one value for a whole batch, or as `run` does.
        """
        for name in self.output_names:
            if not len(self.context.get_tensor_shape(name)):
                why = (
                    f"output {name} of {self.name} is one value for a whole batch, and outputs of samples are compared"
                )
                raise InputError(f"{why}; export the model without it")
        starts = range(0, max(count(feeds, self.inputs), 1), self.max_batch)
        parts = [self._padded(taken(feeds, self.inputs, start, start + self.max_batch)) for start in starts]
        return {name: np.concatenate([part[name] for part in parts]) for name in self.output_names}

    def _padded(self, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        found = count(feeds, self.inputs)
        if found >= self.min_batch:
            return self.run(feeds)
        for name in batched(self.inputs):
            feeds[name] = np.resize(feeds[name], (self.min_batch, *feeds[name].shape[1:]))
        return {name: output[:found] for name, output in self.run(feeds).items()}

    def bind(self, batch_size: int) -> None:
        """Make the engine ready to be timed at `batch_size`: shapes set and seeded noise uploaded.

        Sizes that are dynamic beside the batch are the profile's best.

        Raises:
            InputError: the batch size is outside the profile.
        """
        self.upload(examples(self.inputs, batch_size))
        self.synchronize()

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
        self._wait_out()
        self.context = self.engine = None
        while self._buffers:
            self._buffers.popitem()[1].free()

    def _wait_out(self) -> None:
        """Wait for what is under way; an execution's error is not the closing's."""
        with contextlib.suppress(getattr(cuda, "Error", EngineError)):
            self.stream.synchronize()

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _check(self, spec: InputSpec, shape: Shape) -> None:
        """Raise InputError if the profile does not allow a shape; the batch is named where it alone is wrong."""
        low, _, high = spec.batches
        if shape and not low <= shape[0] <= high and spec.takes((low, *shape[1:])):
            raise InputError(
                f"a batch of {shape[0]} is outside the profile of engine {self.name} "
                f"({low} to {high}); choose another batch size or rebuild with --max-batch"
            )
        if not spec.takes(shape):
            raise InputError(f"engine {self.name} takes {spec.described()}, not {list(shape)}")

    def _set_shapes(self, shapes: Mapping[str, Shape]) -> None:
        for name, shape in shapes.items():
            self._check(self.inputs[name], shape)
            if not self.context.set_input_shape(name, shape):
                raise InputError(f"engine {self.name} refuses {name} of shape {list(shape)}: {LOG.last_error}")


def deserialize(source: str | Path | bytes) -> tuple["trt.ICudaEngine", int]:
    """Return the engine in a file or in bytes, and its size in bytes.

    Raises:
        InputError: missing, empty, truncated, an ONNX model or no engine, or built for another version or device.
    """
    what = "the engine" if isinstance(source, bytes) else source
    if not isinstance(source, bytes) and Path(source).suffix.lower() == ".onnx":
        raise InputError(f"{source} is an ONNX model; make its engine: trtlab build --onnx {source} --engine FILE")
    data = source if isinstance(source, bytes) else read_file(source, "engine", "build one with trtlab build")
    if not data:
        raise InputError(f"{what} is empty; build it again with trtlab build")
    with LOG.collect() as messages:
        engine = trt.Runtime(LOG).deserialize_cuda_engine(data)
    if engine is None:
        device = _recorded(source)[0]
        where = f", it was built on: {device}" if device else ""
        raise InputError(
            f"{what} ({len(data):,} bytes) is no engine that {DEVICE} can load "
            f"({messages.text() or 'no reason was logged'}){where}; build it again here"
        )
    return engine, len(data)


def _recorded(source: str | Path | bytes | None) -> tuple[str, str, dict[str, int | None]]:
    """Return where an engine was built, its precision, and the rows that its integer inputs look up in.

    Bytes have no record, and a file's may be damaged or of an older form: then nothing is known.
    """
    try:
        record = read_json(os.fspath(source) + ".json")
        limits = {entry["name"]: entry["limit"] for entry in record["inputs"]}
        return record["engine"]["device"], record["precision"], limits
    except (InputError, KeyError, TypeError):
        return "", "?", {}


def _tensor_types(engine: "trt.ICudaEngine", mode: "trt.TensorIOMode") -> dict[str, np.dtype]:
    """Return the NumPy type of every input, or of every output, by name."""
    names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
    chosen = [name for name in names if engine.get_tensor_mode(name) == mode]
    return {name: numpy_type(engine.get_tensor_dtype(name), f"tensor {name} of the engine") for name in chosen}


def _first_profile(engine: "trt.ICudaEngine", name: str) -> list[Shape]:
    shape = tuple(engine.get_tensor_shape(name))
    return [tuple(dims) for dims in engine.get_tensor_profile_shape(name, 0)] if -1 in shape else [shape] * 3
